"""The ConfigMap of pauses, as commands read and write it."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, Conflict, Gone, RetryLater
from autoscaler.kube import paths
from autoscaler.kube.call import Call
from autoscaler.kube.client import Client
from autoscaler.kube.election import Unopposed
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.whole_objects import json_object
from autoscaler.kube.writes import Writes
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.workload import ConfigMap
from cloudprovider.document import parse_yaml

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
_STATUS = "status"


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _ReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class ClusterPauseMap:
    """The ConfigMap of one autoscaler. Every method may raise `AutoscalerError`."""

    def __init__(self, client: Client, clock: Clock, sleep: Callable[[float], bool], namespace: str, name: str) -> None:
        self._client = client
        self._writes = Writes(client, Unopposed(), clock, sleep)
        self._namespace = namespace
        self._name = name

    def read(self) -> ConfigMap:
        """Return the ConfigMap; an empty one if it does not exist."""
        meta = ObjectMeta(name=self._name, namespace=self._namespace)
        return self._found(self._name) or ConfigMap(metadata=meta)

    def write(self, entries: Mapping[str, str | None], annotations: Mapping[str, str | None] | None = None) -> None:
        """Set entries and annotations (None removes one); what others write at the same time stays."""
        try:
            self._writes.put_config_map(self._namespace, self._name, entries, annotations)
        except Conflict:  # somebody else has created it meanwhile
            self._writes.put_config_map(self._namespace, self._name, entries, annotations)

    def group_ids(self, status_map: str) -> Sequence[str]:
        """Return the node groups that the status ConfigMap lists; none if it tells of none, or not of all."""
        held = self._found(status_map)
        try:
            status = parse_yaml(held.data.get(_STATUS, "")) if held is not None else None
            if not isinstance(status, dict) or "message" in status:
                return ()
            return tuple(str(group["name"]) for group in status.get("nodeGroups") or ())
        except (ValueError, TypeError, KeyError):
            return ()

    def user(self) -> str:
        """Return who is asking, as the API server knows them; empty if it does not say."""
        try:
            body = self._client.post(_REVIEWS, _REVIEW, Call())
            return msgspec.json.decode(body, type=_Review).status.user_info.username
        except (AutoscalerError, msgspec.MsgspecError):
            return ""

    def _found(self, name: str) -> ConfigMap | None:
        try:
            body = self._client.get(paths.path(ObjectRef("v1", "ConfigMap", name, self._namespace)))
        except Gone:
            return None
        try:
            return msgspec.convert(json_object(body), ConfigMap)
        except msgspec.ValidationError as error:
            raise RetryLater(f"the ConfigMap {self._namespace}/{name} cannot be read: {error}") from error
