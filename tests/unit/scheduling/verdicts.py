"""What keeps a pod off each of some nodes, asked in every way there is."""

from collections.abc import Sequence

from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import Namespace, plain_decoder
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import Profile
from autoscaler.snapshot.cluster import Related, view_of
from autoscaler.snapshot.overlay import Trial

FITS = "fits"
TEAM_A = plain_decoder(Namespace).one({"metadata": {"name": "team-a", "labels": {"team": "a"}}})


NAMESPACES = Related(namespaces={"team-a": TEAM_A})
DEFAULT = Profile()


def verdicts(
    pod: Pod,
    nodes: Sequence[Node],
    placed: Sequence[Pod] = (),
    *,
    related: Related = NAMESPACES,
    profile: Profile = DEFAULT,
) -> list[str]:
    """What keeps the pod off each node; `fits` where nothing does. Mask, single check and reasons must agree."""
    placer = Placer(Trial(view_of(nodes, placed, related=related)), profile)
    reasons = [", ".join(dict.fromkeys(one.reason for one in placer.why(pod.cls, at))) for at in range(len(nodes))]
    fitting = [reason == "" for reason in reasons]
    assert [placer.fits(pod.cls, at) for at in range(len(nodes))] == fitting
    assert placer.passing(pod.cls, slice(0, len(nodes))).tolist() == fitting
    return [reason or "fits" for reason in reasons]


def verdict(pod: Pod, node: Node, placed: Sequence[Pod] = ()) -> str:
    return verdicts(pod, [node], placed)[0]
