"""A dry run with everything switched on: it decides as a real run does, and writes to neither cluster nor cloud."""

from msgspec.structs import replace

from autoscaler.config.headroom import read_headroom
from autoscaler.config.load import from_options
from autoscaler.config.reservations import read_reservations
from autoscaler.simulator.world import World
from tests.headroom_world import always
from tests.manifests import a_bare_pod
from tests.worlds import QUICK, a_cloud, a_deployment, a_group

CUTOFF = -10
OPTIONS = {
    **QUICK,
    "expired-pod-cleanup": True,
    "expired-pod-namespaces": ["default"],
    "pod-start-estimates": True,
    "persist-boot-times": True,
}
HEADROOM = {
    "pools": [{"name": "spare", "namespace": "default", "resources": {"cpu": "3"}, "policies": [always(2)]}],
}
JOBS = {
    "store": {"namespace": "kube-system"},
    "targets": [
        {
            "name": "jobs",
            "podTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}},
            "podSelector": "app=job",
            "podNamespaces": ["default"],
            "maxReplicas": 5,
        }
    ],
}
WRITTEN = {"configmaps", "deployments", "events", "nodes", "pods"}


def written(*, dry_run: bool) -> tuple[set[str], list[str], bool]:
    """Return the resources that were written, the cloud's calls, and whether a pass decided to buy."""
    config = from_options({**OPTIONS, "dry-run": dry_run}, ())
    headroom, reservations = read_headroom(HEADROOM, CUTOFF), read_reservations(JOBS, CUTOFF)
    config = replace(config, headroom=headroom, reservations=reservations)
    expired = a_bare_pod("old", annotations={"delete-at": "1"})
    cloud = a_cloud(a_group("web", min_size=1), a_group("idle"), machines={"web": 1, "idle": 2})
    with World(config, cloud, [a_deployment(replicas=8), expired]) as world:
        world.run_for(30)
        world.announce("jobs", 2, 600.0)
        world.run_for(600)
        writes = {rule.resource for rule in world.api.requests.counts() if rule.verb not in ("get", "list", "watch")}
        return writes, [call.verb for call in world.calls], any(report.increases for report in world.reports)


def test_every_feature_writes_in_a_real_run_and_none_in_a_dry_one() -> None:
    resources, calls, bought = written(dry_run=False)
    assert resources >= WRITTEN
    assert calls
    assert bought
    assert written(dry_run=True) == (set(), [], True)
