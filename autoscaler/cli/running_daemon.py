"""Asks a running daemon for explanations, at its own address or through the API server of its cluster."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from autoscaler.errors import AutoscalerError, ConfigError, Gone, Refused, RetryLater
from autoscaler.explain.answer import PlanExplanation
from autoscaler.explain.explain import Explained, ExplainKind, ExplainTarget
from autoscaler.kube.call import Call
from autoscaler.kube.reader import ApiReader
from autoscaler.objects.lenient_json import UNREADABLE, words

_NAMES = ("cluster-autoscaler", "node-autoscaler")
"""Values of `app.kubernetes.io/name` on the pods of a daemon, and names of its Services."""
_PORT = "http"
_MOST_PODS = 20
_SERVICE_TRIES = 8
_LOOK = Call(timeout_s=10.0, largest_body_bytes=4 * 1024**2)
_QUESTION = Call(timeout_s=45.0, largest_body_bytes=16 * 1024**2)
"""Maximum seconds for an answer: the daemon takes half a minute at most."""
_Form = TypeVar("_Form", bound=msgspec.Struct)
_NOUNS = {ExplainKind.POD: "pending pod", ExplainKind.NODE: "node", ExplainKind.GROUP: "node group"}


class _StandsBy(RetryLater):
    """The daemon that answers is a standby replica; another one leads."""


class Place(NamedTuple):
    """A place where a daemon may answer."""

    name: str
    path: str = ""
    """The part of the path before the paths of the daemon's API."""
    tries: int = 1
    """How many times it is worth asking, because each time another replica may answer."""


class _DaemonMeta(msgspec.Struct, frozen=True):
    name: str


class _Port(msgspec.Struct, frozen=True):
    container_port: int = msgspec.field(name="containerPort")
    name: str = ""


class _Container(msgspec.Struct, frozen=True):
    ports: list[_Port] = []


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_Container]


class _DaemonPod(msgspec.Struct, frozen=True):
    metadata: _DaemonMeta
    spec: _PodSpec


class _DaemonPods(msgspec.Struct, frozen=True):
    items: list[_DaemonPod]


class _Process(msgspec.Struct, frozen=True):
    leading: bool


class _DaemonStatus(msgspec.Struct, frozen=True):
    process: _Process


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    explanation: Explained | None
    not_explained: str | None
    pass_started_at: str | None


def places_in(client: ApiReader, namespace: str) -> list[Place]:
    """Return where the API server can reach a daemon: first its pods, then its Services, which need fewer permissions.

    Raises `RetryLater` if the API server itself does not answer.
    """
    inside = f"/api/v1/namespaces/{quote(namespace, safe='')}"
    query = {
        "labelSelector": f"app.kubernetes.io/name in ({','.join(_NAMES)})",
        "fieldSelector": "status.phase=Running",
        "limit": str(_MOST_PODS),
    }
    try:
        pods = _decoded(client.get(f"{inside}/pods", query, _LOOK), _DaemonPods, "the API server").items
    except (Refused, Gone):
        pods = []
    places = []
    for pod in pods:
        ports = [port.container_port for part in pod.spec.containers for port in part.ports if port.name == _PORT]
        name = ":".join(map(str, (pod.metadata.name, *ports[:1])))
        places.append(Place(f"{namespace}/{pod.metadata.name}", f"{inside}/pods/{quote(name, safe=':')}/proxy"))
    services = [
        Place(f"{namespace}/{name}", f"{inside}/services/{name}:{_PORT}/proxy", _SERVICE_TRIES) for name in _NAMES
    ]
    return places + services


def ask_any(client: ApiReader, places: Sequence[Place], targets: Sequence[ExplainTarget]) -> PlanExplanation:
    """Let the leading daemon explain its last pass, wherever it runs. Raises an error that says why no daemon explains
    it.
    """
    errors: list[AutoscalerError] = []
    for place in places:
        for _ in range(place.tries):
            try:
                check(client, place)
                return ask(client, place, targets)
            except Gone:
                break
            except (_StandsBy, ConfigError) as error:  # another replica may have the answer
                errors.append(error)
            except AutoscalerError as error:
                errors.append(error)
                break
    unseen = [error for error in errors if isinstance(error, ConfigError)]
    if not errors:
        names = ", ".join(place.name for place in places)
        raise Gone(f"no autoscaler answers at {names}")
    raise (unseen or errors)[0]


def check(client: ApiReader, place: Place) -> None:
    """Check that a daemon answers and leads. Raises `Gone` if something else answers, and `RetryLater` if it does not
    lead.
    """
    try:
        body = client.get(f"{place.path}/api/v1/status", call=_LOOK)
    except Gone as error:
        raise Gone(f"{place.name} is not the address of this autoscaler: it has no /api/v1/status") from error
    if not _decoded(body, _DaemonStatus, place.name).process.leading:
        raise _StandsBy(f"{place.name} does not lead")


def ask(client: ApiReader, place: Place, targets: Sequence[ExplainTarget]) -> PlanExplanation:
    """Let a daemon explain its last pass.

    Raises `ConfigError` with a line for each target that the pass did not see, `RetryLater` if the daemon has no time.
    """
    explained: list[Explained] = []
    problems: list[str] = []
    started_at = ""
    for target in targets:
        try:
            body = client.get(f"{place.path}/api/v1/explain", {target.kind.value: target.name}, _QUESTION)
        except Gone:
            problems.append(f"{target}: the last pass of {place.name} saw no such {_NOUNS[target.kind]}")
            continue
        answer = _decoded(body, _Answer, place.name)
        if answer.explanation is None:
            raise RetryLater(f"{place.name} does not explain {target}: {answer.not_explained}")
        explained.append(answer.explanation)
        started_at = answer.pass_started_at or started_at
    if problems:
        raise ConfigError(problems)
    return PlanExplanation(name=place.name, run=0, at=started_at, explained=explained)


def _decoded(body: bytes, form: type[_Form], who: str) -> _Form:
    try:
        return msgspec.json.decode(body, type=form)
    except UNREADABLE as error:
        raise Refused(f"{who} gives an answer that this version does not understand: {words(error)}", 200) from error
