"""The one table of kinds served: names, scope, subresources, selectable fields; CRDs add rows at run time."""

from collections.abc import Iterable

import msgspec

from autoscaler.sandbox.apiserver.printers import PrinterColumn

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "eviction": ("create",),
    "binding": ("create",),
    "log": ("get",),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
    "finalize": ("update",),
}
SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
}
NEEDS_CONTAINERS = ("log", "exec", "attach", "portforward")
"""Subresources of pods that are refused, for no container runs."""


class Kind(msgspec.Struct, frozen=True):
    """One row: a kind as served under one group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Field selectors beside metadata.name and metadata.namespace."""
    index: str | None = None
    """The selectable field that has an index, if lists by it must be fast."""
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: bool = False
    """Whether metadata.generation counts changes of the desired state."""
    status_on_create: bool = False
    """Whether creators may set status (nodes may: the kubelet registers itself with one)."""
    custom: bool = False
    columns: tuple[PrinterColumn, ...] = ()
    """Printer columns from the CRD; built-in kinds have theirs in `columns`."""
    store: str = ""
    """Which store holds the objects; empty means its own. Two rows may share one."""
    singular: str = ""

    @property
    def api_version(self) -> str:
        """Group and version as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def id(self) -> str:
        """Plural and group as messages spell it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def store_id(self) -> str:
        """Key of the store that holds the objects."""
        return self.store or self.id

    @property
    def head(self) -> bytes:
        """How the encoded object starts; the stored bytes are what follows."""
        return b'{"apiVersion":"%s","kind":"%s",' % (self.api_version.encode(), self.kind.encode())


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_POD_SUBRESOURCES = ("status", "eviction", "binding", *NEEDS_CONTAINERS)
_WORKLOAD = ("status", "scale")
_STATUS = ("status",)
_ALL = ("all",)

BUILT_IN: tuple[Kind, ...] = (
    Kind("", "v1", "bindings", "Binding", verbs=("create",)),
    Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Kind("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Kind("", "v1", "events", "Event", short_names=("ev",), fields=_EVENT_FIELDS, index="involvedObject.uid"),
    Kind("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Kind("", "v1", "namespaces", "Namespace", False, ("ns",), ("status", "finalize"), fields=("status.phase",)),
    Kind("", "v1", "nodes", "Node", False, ("no",), _STATUS, fields=("spec.unschedulable",), status_on_create=True),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), _STATUS),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), _STATUS),
    Kind("", "v1", "pods", "Pod", True, ("po",), _POD_SUBRESOURCES, _POD_FIELDS, "spec.nodeName", _ALL),
    Kind("", "v1", "podtemplates", "PodTemplate", generation=True),
    Kind("", "v1", "replicationcontrollers", "ReplicationController", True, ("rc",), _WORKLOAD, categories=_ALL,
         generation=True, fields=("status.replicas",)),
    Kind("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), _STATUS),
    Kind("", "v1", "secrets", "Secret", fields=("type",)),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Kind("", "v1", "services", "Service", True, ("svc",), _STATUS, categories=_ALL),
    Kind("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Kind("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), _STATUS, categories=_ALL, generation=True),
    Kind("apps", "v1", "deployments", "Deployment", True, ("deploy",), _WORKLOAD, categories=_ALL, generation=True),
    Kind("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), _WORKLOAD, categories=_ALL, generation=True,
         fields=("status.replicas",)),
    Kind("apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), _WORKLOAD, categories=_ALL, generation=True),
    Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), _STATUS,
         categories=_ALL),
    Kind("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), _STATUS,
         categories=_ALL, store="horizontalpodautoscalers.autoscaling"),
    Kind("batch", "v1", "cronjobs", "CronJob", True, ("cj",), _STATUS, categories=_ALL, generation=True),
    Kind("batch", "v1", "jobs", "Job", True, (), _STATUS, ("status.successful",), None, _ALL, generation=True),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), _STATUS, generation=True),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True, (), _STATUS, generation=True),
    Kind("scheduling.k8s.io", "v1beta1", "workloads", "Workload", generation=True),
    Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, (), _STATUS, generation=True),
    Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, (), _STATUS, generation=True),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",), generation=True),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",)),
    Kind("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False),
    Kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, (), _STATUS),
    Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, (), _STATUS),
    Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, (), (), ("spec.nodeName", "spec.driver"),
         generation=True),
    Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, generation=True),
    Kind("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", False, (), _STATUS, generation=True),
    Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
         ("crd", "crds"), _STATUS, generation=True),
    Kind("events.k8s.io", "v1", "events", "Event", short_names=("ev",), fields=_EVENT_FIELDS, store="events"),
    Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Kind("networking.k8s.io", "v1", "ingresses", "Ingress", True, ("ing",), _STATUS, generation=True),
    Kind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False,
         verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False,
         verbs=("create",)),
    Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=("create",)),
    Kind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, verbs=("get", "list")),
    Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=("get", "list")),
)  # fmt: skip


class KindRegistry:
    """The kinds served now. Rows change rarely: writers replace the maps, readers need no lock."""

    def __init__(self, rows: Iterable[Kind] = BUILT_IN) -> None:
        self._rows: tuple[Kind, ...] = tuple(rows)
        self._served = {(row.group, row.version, row.plural): row for row in self._rows}

    @property
    def rows(self) -> tuple[Kind, ...]:
        """Every row, in the order of registration."""
        return self._rows

    def add(self, rows: Iterable[Kind]) -> None:
        """Serve these as well; they replace every version of the same resources."""
        added = tuple(rows)
        replaced = {(row.group, row.plural) for row in added}
        self._set((*(row for row in self._rows if (row.group, row.plural) not in replaced), *added))

    def remove(self, group: str, plural: str) -> None:
        """Stop serving every version of a custom resource."""
        self._set(tuple(row for row in self._rows if (row.group, row.plural) != (group, plural)))

    def _set(self, rows: tuple[Kind, ...]) -> None:
        self._served = {(row.group, row.version, row.plural): row for row in rows}
        self._rows = rows

    def served(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the row behind a URL, if there is one."""
        return self._served.get((group, version, plural))

    def resolve(self, resource: str) -> Kind:
        """Return the row for `pods`, `deployments.apps` or an unambiguous `deployments`.

        Raises KeyError for names nothing is served under.
        """
        named = next((row for row in self._rows if row.id == resource), None)
        if named is None:
            named = next((row for row in self._rows if row.plural == resource), None)
        if named is None:
            raise KeyError(resource)
        return named
