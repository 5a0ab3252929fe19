"""Reads a dump of a cluster (`kubectl get -A -o json|yaml`, in any mix of files) as a scenario file.

A file holds single objects, lists (`List`, or those that the API server answers with, such as `PodList`), or several
of them one after the other. Objects of kinds that no decision reads are counted and left alone. Of every object only
what the engine reads is kept, so that no environment variable and no secret goes any further. One that cannot be
decoded is left out with a warning; a node, a placed pod, a claim or a budget is stood in for, as the daemon does it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.errors import ConfigError
from autoscaler.objects.decode import Undecoded, W, WireDecoder
from autoscaler.objects.lenient_json import UNREADABLE, loads, words
from autoscaler.objects.node import keep_whole_node, undecoded_node
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import PodWire, undecoded_pod
from autoscaler.objects.storage import undecoded_claim
from autoscaler.objects.workload import ConfigMap, checked, undecoded_budget
from autoscaler.scenario.file_reader import place_in
from autoscaler.scenario.kinds import KINDS
from cloudprovider.document import parse_documents
from cloudprovider.file import text_of
from cloudprovider.structure import worded

DumpProgress = Callable[[int, int], None]
"""Hears how many bytes of how many have been read."""


CONFIG_MAP = "ConfigMap"
_GROUPS = re.compile(
    r"^(apps|autoscaling\.x-k8s\.io|batch|policy|resource\.k8s\.io|"
    r"scheduling\.(k8s\.io|x-k8s\.io|volcano\.sh)|storage\.k8s\.io)/|^[^/]*$"
)
"""API groups of those kinds: a custom resource may have the same name for its kind."""
_SEAM = b"\n}\n{"
"""Where one document ends and the next begins, as kubectl prints them."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_STAMP = re.compile(
    rb'"(?:lastHeartbeatTime|lastTransitionTime|lastTimestamp|lastProbeTime|eventTime|renewTime|creationTimestamp'
    rb'|startTime|startedAt|finishedAt|time)":\s*"(' + _TIME.pattern.encode() + rb')"'
)
_STEP = 4096
"""Objects between two reports of progress."""


_STAND_INS: Mapping[str, Callable[[Undecoded], Any]] = {
    "Node": undecoded_node,
    "Pod": undecoded_pod,
    "PersistentVolumeClaim": undecoded_claim,
    "PodDisruptionBudget": undecoded_budget,
}


class _Document(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


class DumpText(msgspec.Struct, frozen=True):
    """The content of one file, or of one answer of an API server, and what to call it in messages."""

    name: str
    body: bytes


class Dump(msgspec.Struct):
    """The objects of a cluster, each once, as they were read."""

    objects: dict[str, dict[str, Any]] = {}
    """By kind, then by `namespace/name`."""
    places: dict[str, dict[str, str]] = {}
    """Where each object stands."""
    config_maps: dict[str, ConfigMap] = {}
    newest: str = ""
    """The latest moment that an object speaks of, RFC 3339 with Z; empty where none does."""
    unused: Counter[str] = msgspec.field(default_factory=Counter)
    """How many objects of other kinds there were."""
    warnings: list[str] = []

    def named(self, kind: str) -> Sequence[Any]:
        """Return the objects of a kind by namespace and name, whatever the order in which they came."""
        by_key = self.objects.get(kind, {})
        return [by_key[key] for key in sorted(by_key)]


def read_dump(texts: Iterable[DumpText], progress: DumpProgress = lambda done, total: None) -> Dump:
    """Read the texts into one dump; the last of several objects of one name counts, with a warning.

    Raises `ConfigError` with a line `FILE: path: problem` for everything that cannot be read.
    """
    reader = _DumpReader(progress)
    for text in texts:
        reader.read(text)
    if reader.problems:
        raise ConfigError(reader.problems)
    return reader.dump


class _DumpReader:
    """Collects the objects, and what is wrong, of several texts."""

    def __init__(self, progress: DumpProgress) -> None:
        self.dump = Dump()
        self.problems: list[str] = []
        self._progress = progress
        checks: Mapping[str, Callable[[Any], object]] = {"Node": keep_whole_node, "Pod": PodInterner().keep}
        self._decoders = {name: _decoder(kind.type, checks.get(name, checked)) for name, kind in KINDS.items()}
        self._decoders[CONFIG_MAP] = _decoder(ConfigMap)
        self._heads = msgspec.json.Decoder(_Head)

    def read(self, text: DumpText) -> None:
        try:
            pieces = _pieces(text)
        except ConfigError as error:
            self.problems.extend(error.problems)
            return
        total, done = sum(map(len, pieces)), 0
        for number, piece in enumerate(pieces):
            place = text.name if len(pieces) == 1 else f"{text.name}: document {number + 1}"
            try:
                document, text_of = _document(piece)
                self._document(place, document, text_of, done, total)
            except msgspec.ValidationError as error:
                self.problems.append(_complaint(place, error))
            except msgspec.DecodeError as error:
                self.problems.append(f"{place}: is not JSON: {place_in(error, piece)}")
            except RecursionError:
                self.problems.append(f"{place}: is nested too deeply")
            done += len(piece)
        self._progress(total, total)

    def _document(self, place: str, document: _Document, piece: bytes, done: int, total: int) -> None:
        api_version, kind = document.api_version or "", document.kind or ""
        if document.items is not None or kind.endswith("List"):
            of_list = "" if kind == "List" else kind.removesuffix("List")
            for index, item in enumerate(document.items or ()):
                self._item(f"{place}: items[{index}]", api_version, of_list, item)
                done += memoryview(item).nbytes
                if index % _STEP == 0:
                    self._progress(done, total)
        elif kind:
            self._object(place, api_version, kind, piece)
        else:
            self.problems.append(f"{place}: has no kind; write what kubectl get -o json prints")

    def _item(self, place: str, api_version: str, kind: str, item: msgspec.Raw) -> None:
        if not kind:
            try:
                head = self._heads.decode(item)
            except UNREADABLE as error:
                self.dump.warnings.append(f"{place}: is left out: it cannot be decoded: {words(error)}")
                return
            api_version, kind = head.api_version or "", head.kind or ""
        if kind:
            self._object(place, api_version, kind, item)
        else:
            self.dump.warnings.append(f"{place}: is left out: it has no kind")

    def _object(self, place: str, api_version: str, kind: str, body: bytes | msgspec.Raw) -> None:
        decoder = self._decoders.get(kind)
        if kind != "Pod":
            self._notice(*(stamp.decode() for stamp in _STAMP.findall(bytes(body))))
        if decoder is None or not _GROUPS.match(api_version):
            self.dump.unused[kind] += 1
            return
        resource = decoder.read(body)
        if isinstance(resource, Undecoded):
            stand_in = _STAND_INS[kind](resource) if kind in _STAND_INS and resource.key else None
            instead = "is left out" if stand_in is None else "counts as one of which nothing is known"
            name = f"{kind} {resource.key or 'without a name'}"
            self.dump.warnings.append(f"{place}: {name} {instead}: it cannot be decoded: {resource.why}")
            if stand_in is None:
                return
            resource = stand_in
        if isinstance(resource, PodWire):  # of these there are too many for a search in their text
            self._notice(*_times_of(resource))
        name = resource.metadata.name
        key = f"{resource.metadata.namespace}/{name}" if resource.metadata.namespace else name
        if kind == CONFIG_MAP:
            self.dump.config_maps[key] = resource
            return
        places = self.dump.places.setdefault(kind, {})
        if key in places:
            self.dump.warnings.append(f"{place}: {kind} {key} is there already ({places[key]}): the later one counts")
        places[key] = place
        self.dump.objects.setdefault(kind, {})[key] = resource

    def _notice(self, *times: str | None) -> None:
        for time in times:
            # Without the Z, texts with and without fractions of a second compare as the times do.
            if time is not None and time[:-1] > self.dump.newest[:-1] and _TIME.fullmatch(time):
                self.dump.newest = time


def _decoder(kind: type[W], check: Callable[[W], object] | None = None) -> WireDecoder[W, W]:
    """Return the decoder of a wire type that refuses what `check` refuses."""

    def keep(wire: W) -> W:
        if check is not None:
            check(wire)
        return wire

    return WireDecoder(kind, keep)


def _document(piece: bytes) -> tuple[_Document, bytes]:
    """Return a document, and its text as far as a decoder takes it; raises `msgspec.MsgspecError`."""
    try:
        return msgspec.json.decode(piece, type=_Document), piece
    except UNREADABLE as error:
        try:
            mended = msgspec.json.encode(loads(piece))
        except msgspec.DecodeError as worse:
            raise (error if isinstance(error, msgspec.DecodeError) else worse) from None
        return msgspec.json.decode(mended, type=_Document), mended


def _complaint(place: str, error: msgspec.ValidationError) -> str:
    return worded(str(error), f"{place}: ").replace(": .", ": ", 1)


def _times_of(pod: PodWire) -> Iterator[str | None]:
    yield pod.metadata.creation_timestamp
    yield pod.status.start_time
    for condition in pod.status.conditions:
        yield condition.last_transition_time


def _pieces(text: DumpText) -> Sequence[bytes]:
    """Return the documents of a text as JSON. Raises `ConfigError` for what is neither JSON nor YAML."""
    if text.body.lstrip()[:1] in (b"{", b"["):
        parts = text.body.split(_SEAM)
        last = len(parts) - 1
        return [b"{" * (number > 0) + part + b"\n}" * (number < last) for number, part in enumerate(parts)]
    try:
        loaded = parse_documents(text_of(text.body))
        if not loaded:
            raise ConfigError(f"{text.name}: is empty; write what kubectl get -o json prints")
        return [msgspec.json.encode(document) for document in loaded]
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{text.name}: is neither JSON nor YAML: {error}") from error
