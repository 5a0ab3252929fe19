"""The cluster as the watches know it: the daemon's `loop.observing.ClusterSource`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from autoscaler.config.tree import Config
from autoscaler.errors import RetryLater
from autoscaler.kube.feed import Feed
from autoscaler.kube.store import Store
from autoscaler.kube.watch import NAME_FIELD, KindSource
from autoscaler.logs import Log
from autoscaler.objects.capacity import (
    GROUP,
    CapacityBuffer,
    ProvisioningRequest,
    ResourceQuota,
    Scalable,
    StoredTemplate,
)
from autoscaler.objects.decode import Decoder
from autoscaler.objects.gang import GangPodGroup
from autoscaler.objects.meta import Resource
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import claim_decoder
from autoscaler.objects.workload import ConfigMap, budget_decoder, config_map_decoder, plain_decoder
from autoscaler.scaleup.buffer_specs import scalable_key
from autoscaler.scaleup.priority import CONFIG_MAP
from autoscaler.scenario.kinds import OF_DEVICES, RELATED, ObjectKind
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related
from autoscaler.snapshot.groups import Groups

R = TypeVar("R", bound=Resource)
log = Log(__name__)
_SCALABLES = {
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "ReplicationController": "/api/v1/replicationcontrollers",
    "Job": "/apis/batch/v1/jobs",
}
"""Collections of the controllers that a CapacityBuffer may imitate, by kind."""
_DECODERS: Mapping[str, Decoder[Any]] = {
    "PodDisruptionBudget": budget_decoder(),
    "PersistentVolumeClaim": claim_decoder(),
}
"""Decoders of kinds that are not stored unchanged."""
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"


class WatchedCluster:
    """Follows the kinds that decisions read, and updates the view with their changes."""

    def __init__(self, feed: Feed, interner: PodInterner, config: Config) -> None:
        self._feed = feed
        self._resting: set[str] = set()
        self._builder = ClusterBuilder(config.pods.expendable_pods_priority_cutoff)
        self.nodes = feed.add(KindSource("/api/v1/nodes", node_decoder()))
        self.pods = feed.add(KindSource("/api/v1/pods", interner.decoder(), _LIVE_PODS))
        self._stores: dict[str, Store[Any]] = {
            kind.related: self._optional(kind.type, kind.path)
            if kind.optional
            else self._kept(kind.path, _DECODERS.get(name) or plain_decoder(kind.type))
            for name, kind in RELATED.items()
            if not kind.features and name != "PriorityClass"  # a pod of the API server has its priority as a number
        }
        self._config_maps = self._priorities(config)
        self._pauses = self._named_config_map(config, config.observe.pause_config_map_name, optional=True)
        self._follow_capacity(config)
        if config.device_claims_count:
            for name in OF_DEVICES:
                self._follow(RELATED[name], rare=name == "DeviceTaintRule")
        if config.limits.capacity_quotas_enabled:
            self._follow(RELATED["CapacityQuota"])
        self._pod_groups: tuple[Store[GangPodGroup], ...] = ()
        if config.gangs_count:
            self._follow_gangs()

    def _follow(self, kind: ObjectKind, *, rare: bool = False) -> None:
        self._stores[kind.related] = self._optional(kind.type, kind.path, *kind.older_paths, rare=rare)

    def _follow_gangs(self) -> None:
        """Follow what states the minimum of gangs, whichever schedulers the cluster has."""
        self._follow(RELATED["Workload"], rare=True)
        collections = RELATED["PodGroup"].collections
        self._pod_groups = tuple(self._optional(GangPodGroup, *versions, rare=True) for versions in collections)

    def _kept(self, path: str, decoder: Decoder[R]) -> Store[R]:
        return self._feed.add(KindSource(path, decoder), log_changes=False)

    def _follow_capacity(self, config: Config) -> None:
        """Follow the kinds that request capacity besides pods, if they are enabled. The cluster may lack
        these kinds.
        """
        features = config.features
        buffers = features.capacity_buffer_controller_enabled or features.capacity_buffer_pod_injection_enabled
        self._requests: Store[ProvisioningRequest] | None = None
        self._buffers: Store[CapacityBuffer] | None = None
        self._templates: Store[StoredTemplate] | None = None
        self._quotas: Store[ResourceQuota] | None = None
        self._scalables: dict[str, Store[Scalable]] = {}
        if features.enable_provisioning_requests:
            self._requests = self._optional(
                ProvisioningRequest, *(f"/apis/{GROUP}/{version}/provisioningrequests" for version in ("v1", "v1beta1"))
            )
        if buffers:
            self._buffers = self._optional(
                CapacityBuffer, *(f"/apis/{GROUP}/{version}/capacitybuffers" for version in ("v1beta1", "v1alpha1"))
            )
        if features.enable_provisioning_requests or buffers:
            self._templates = self._optional(StoredTemplate, "/api/v1/podtemplates")
        if features.capacity_buffer_controller_enabled:
            self._quotas = self._optional(ResourceQuota, "/api/v1/resourcequotas")
            self._scalables = {kind: self._optional(Scalable, path) for kind, path in _SCALABLES.items()}

    def _lack(self, feature: str, *stores: "Store[Any] | None") -> bool:
        """Whether a feature has to pause because a kind that it needs is unreadable; this is logged when it begins."""
        lacking = any(store is not None and store.absent for store in stores)
        if lacking and feature not in self._resting:
            log.warning(
                "feature.resting", feature=feature, why="kinds that it needs may not be read; see kube.kind_absent"
            )
        (self._resting.add if lacking else self._resting.discard)(feature)
        return lacking

    def _optional(self, kind: type[R], newest: str, *older: str, rare: bool = False) -> Store[R]:
        """Follow a kind that the cluster may lack or keep from us, in the newest version of these that it serves."""
        source = KindSource(newest, plain_decoder(kind), optional=True, older_paths=older, rare=rare)
        return self._feed.add(source, log_changes=False)

    def _priorities(self, config: Config) -> Store[ConfigMap] | None:
        """Follow the priority expander's ConfigMap, and no other, if that expander is configured."""
        if "priority" not in config.scale_up.expander:
            return None
        return self._named_config_map(config, CONFIG_MAP)

    def _named_config_map(self, config: Config, name: str, *, optional: bool = False) -> Store[ConfigMap]:
        path = f"/api/v1/namespaces/{config.kube.namespace}/configmaps"
        source = KindSource(path, config_map_decoder(), f"{NAME_FIELD}{name}", optional=optional)
        return self._feed.add(source, log_changes=False)

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` until every kind has been listed once."""
        if not self._feed.has_synced:
            late = ", ".join(sorted(self._feed.wait_synced(0.0)))
            raise RetryLater(f"the API server has not answered yet for {late}")
        silence_s = self._feed.silence_s()
        for node in self.nodes.drain_changes().values():
            self._builder.node_changed(node.old, node.new)
        for pod in self.pods.drain_changes().values():
            self._builder.pod_changed(pod.old, pod.new)
        view = self._builder.view(read_groups(tuple(self._builder.nodes.values())), self.related())
        return replace(view, silence_s=silence_s)

    def related(self) -> Related:
        """Return the objects that decisions look up, as of the last news from the watches. Any thread may call this."""
        related = {field: store.snapshot() for field, store in self._stores.items()}
        if self._lack("storage-capacity", self._stores["csi_drivers"], self._stores["csi_storage_capacities"]):
            related["csi_drivers"] = {}
        self._lack("pauses", self._pauses)
        without_templates = self._lack("provisioning-requests", self._templates)
        without_buffers = self._lack("capacity-buffers", self._templates, self._quotas, *self._scalables.values())
        return Related(
            **related,
            pod_groups={key: group for store in self._pod_groups for key, group in store.snapshot().items()},
            config_maps={**_held(self._config_maps), **self._pauses.snapshot()},
            provisioning_requests={} if without_templates else _held(self._requests),
            capacity_buffers={} if without_buffers else _held(self._buffers),
            pod_templates=_held(self._templates),
            resource_quotas=_held(self._quotas),
            scalables={
                scalable_key(kind, scalable.namespace, scalable.name): scalable
                for kind, store in self._scalables.items()
                for scalable in store.snapshot().values()
            },
        )


def _held(store: Store[R] | None) -> dict[str, R]:
    """Return the objects of a store; empty for a kind that is not followed."""
    return {} if store is None else store.snapshot()
