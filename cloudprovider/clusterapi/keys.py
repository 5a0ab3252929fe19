"""Names of labels and annotations. Most carry the API group, which `CAPI_GROUP` can change."""

import msgspec

GROUP = "cluster.x-k8s.io"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
REVISION = "machinedeployment.clusters.x-k8s.io/revision"
"""On a MachineSet: the revision of its MachineDeployment."""
GPU_LABEL = "cluster-api/accelerator"


class Keys(msgspec.Struct, frozen=True):
    """The names that carry the API group."""

    group: str = GROUP

    @property
    def min_size(self) -> str:
        """On a group: least number of machines."""
        return f"{self.group}/cluster-api-autoscaler-node-group-min-size"

    @property
    def max_size(self) -> str:
        """On a group: largest number of machines."""
        return f"{self.group}/cluster-api-autoscaler-node-group-max-size"

    @property
    def options(self) -> str:
        """On a group: the prefix of annotations that override flags."""
        return f"{self.group}/autoscaling-options-"

    @property
    def paused(self) -> str:
        """On any object: Cluster API leaves it alone."""
        return f"{self.group}/paused"

    @property
    def cluster(self) -> str:
        """Label of any object: the cluster it belongs to."""
        return f"{self.group}/cluster-name"

    @property
    def delete(self) -> str:
        """On a Machine: Cluster API deletes it first when its owner shrinks."""
        return f"{self.group}/delete-machine"

    @property
    def machine(self) -> str:
        """On a node: name of its Machine."""
        return f"{self.group}/machine"

    @property
    def namespace(self) -> str:
        """On a node: namespace of its Machine."""
        return f"{self.group}/cluster-namespace"
