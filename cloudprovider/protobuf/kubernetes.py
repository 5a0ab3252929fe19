"""Field numbers of Kubernetes' own messages: what typed Go clients send, and what remote expanders and clouds exchange.

The numbers are those of `generated.proto` in `k8s.io/api` and `k8s.io/apimachinery`. Unused fields are
left out.
"""

from collections.abc import Mapping

from cloudprovider.protobuf.schema import messages

_TEXT: Mapping[str, str] = {
    "ObjectMeta": (
        "1 name string; 2 generateName string; 3 namespace string; 5 uid string; 6 resourceVersion string; 7 "
        "generation positive; 8 creationTimestamp Time; 9 deletionTimestamp Time; 10 "
        "deletionGracePeriodSeconds int; 11 labels {}string; 12 annotations {}string; 13 ownerReferences "
        "[]OwnerReference; 14 finalizers []string"
    ),
    "OwnerReference": (
        "1 kind string; 3 name string; 4 uid string; 5 apiVersion string; 6 controller bool; 7 blockOwnerDeletion bool"
    ),
    "DeleteOptions": (
        "1 gracePeriodSeconds int; 2 preconditions Preconditions; 3 orphanDependents bool; 4 "
        "propagationPolicy string; 5 dryRun []string; 6 ignoreStoreReadErrorWithClusterBreakingPotential bool"
    ),
    "Preconditions": "1 uid string; 2 resourceVersion string",
    "LabelSelector": "1 matchLabels {}string; 2 matchExpressions []LabelSelectorRequirement",
    "LabelSelectorRequirement": "1 key string; 2 operator string; 3 values []string",
    "Namespace": "1 metadata ObjectMeta; 2 spec NamespaceSpec",
    "NamespaceSpec": "1 finalizers []string",
    "ConfigMap": "1 metadata ObjectMeta; 2 data {}string; 3 binaryData {}bytes; 4 immutable bool",
    "Secret": "1 metadata ObjectMeta; 2 data {}bytes; 3 type string; 4 stringData {}string; 5 immutable bool",
    "ServiceAccount": (
        "1 metadata ObjectMeta; 2 secrets []ObjectReference; 3 imagePullSecrets []LocalObjectReference; 4 "
        "automountServiceAccountToken bool"
    ),
    "Service": "1 metadata ObjectMeta; 2 spec ServiceSpec",
    "ServiceSpec": (
        "1 ports []ServicePort; 2 selector {}string; 3 clusterIP string; 4 type string; 5 externalIPs "
        "[]string; 7 sessionAffinity string; 8 loadBalancerIP string; 9 loadBalancerSourceRanges []string; 10 "
        "externalName string; 11 externalTrafficPolicy string; 12 healthCheckNodePort positive; 13 "
        "publishNotReadyAddresses bool; 17 ipFamilyPolicy string; 18 clusterIPs []string; 19 ipFamilies "
        "[]string; 20 allocateLoadBalancerNodePorts bool; 21 loadBalancerClass string; 22 "
        "internalTrafficPolicy string; 23 trafficDistribution string"
    ),
    "ServicePort": (
        "1 name string; 2 protocol string; 3 port int; 4 targetPort IntOrString; 5 nodePort positive; 6 "
        "appProtocol string"
    ),
    "PodTemplateSpec": "1 metadata ObjectMeta; 2 spec PodSpec",
    "PodSpec": (
        "1 volumes []Volume; 2 containers []Container; 3 restartPolicy string; 4 terminationGracePeriodSeconds int; 5 "
        "activeDeadlineSeconds int; 6 dnsPolicy string; 7 nodeSelector {}string; 8 serviceAccountName string; "
        "9 serviceAccount string; 10 nodeName string; 11 hostNetwork bool; 12 hostPID bool; 13 hostIPC bool; "
        "15 imagePullSecrets []LocalObjectReference; 16 hostname string; 17 subdomain string; 18 affinity Affinity; "
        "19 schedulerName string; 20 initContainers []Container; 21 automountServiceAccountToken bool; 22 "
        "tolerations []Toleration; 24 priorityClassName string; 25 priority int; 27 shareProcessNamespace "
        "bool; 29 runtimeClassName string; 30 enableServiceLinks bool; 31 preemptionPolicy string; 32 "
        "overhead {}Quantity; 33 topologySpreadConstraints []TopologySpreadConstraint; 35 setHostnameAsFQDN "
        "bool; 37 hostUsers bool; 39 resourceClaims []PodResourceClaim; 40 resources ResourceRequirements"
    ),
    "Container": (
        "1 name string; 2 image string; 3 command []string; 4 args []string; 5 workingDir string; 6 ports "
        "[]ContainerPort; 7 env []EnvVar; 8 resources ResourceRequirements; 9 volumeMounts "
        "[]VolumeMount; 13 terminationMessagePath string; "
        "14 imagePullPolicy string; 16 stdin bool; 17 stdinOnce bool; 18 tty bool; 20 "
        "terminationMessagePolicy string; 24 restartPolicy string; 25 restartPolicyRules []ContainerRestartRule"
    ),
    "ContainerRestartRule": "1 action string; 2 exitCodes ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodes": "1 operator string; 2 values []int",
    "VolumeMount": (
        "1 name string; 2 readOnly bool; 3 mountPath string; 4 subPath string; 5 mountPropagation string; 6 "
        "subPathExpr string"
    ),
    "EnvVar": "1 name string; 2 value string",
    "ContainerPort": ("1 name string; 2 hostPort positive; 3 containerPort int; 4 protocol string; 5 hostIP string"),
    "ResourceRequirements": "1 limits {}Quantity; 2 requests {}Quantity",
    "Toleration": "1 key string; 2 operator string; 3 value string; 4 effect string; 5 tolerationSeconds int",
    "ResourceQuota": "1 metadata ObjectMeta; 2 spec ResourceQuotaSpec",
    "ResourceQuotaSpec": "1 hard {}Quantity; 2 scopes []string",
    "Binding": "1 metadata ObjectMeta; 2 target ObjectReference",
    "ObjectReference": (
        "1 kind string; 2 namespace string; 3 name string; 4 uid string; 5 apiVersion string; 6 "
        "resourceVersion string; 7 fieldPath string"
    ),
    "Pod": "1 metadata ObjectMeta; 2 spec PodSpec; 3 status PodStatus",
    "PodStatus": (
        "1 phase string; 2 conditions []PodCondition; 7 startTime Time; 8 containerStatuses []ContainerStatus; 11 "
        "nominatedNodeName string"
    ),
    "PodCondition": "1 type string; 2 status string; 4 lastTransitionTime Time; 5 reason string; 6 message string",
    "ContainerStatus": "1 name string; 10 allocatedResources {}Quantity",
    "Affinity": "1 nodeAffinity NodeAffinity; 2 podAffinity PodAffinity; 3 podAntiAffinity PodAffinity",
    "NodeAffinity": "1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector",
    "NodeSelector": "1 nodeSelectorTerms []NodeSelectorTerm",
    "NodeSelectorTerm": "1 matchExpressions []LabelSelectorRequirement; 2 matchFields []LabelSelectorRequirement",
    "PodAffinity": "1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm",
    "PodAffinityTerm": (
        "1 labelSelector LabelSelector; 2 namespaces []string; 3 topologyKey string; 4 namespaceSelector "
        "LabelSelector; 5 matchLabelKeys []string; 6 mismatchLabelKeys []string"
    ),
    "TopologySpreadConstraint": (
        "1 maxSkew int; 2 topologyKey string; 3 whenUnsatisfiable string; 4 labelSelector LabelSelector; 5 "
        "minDomains int; 6 nodeAffinityPolicy string; 7 nodeTaintsPolicy string; 8 matchLabelKeys []string"
    ),
    "PodResourceClaim": "1 name string; 3 resourceClaimName string; 4 resourceClaimTemplateName string",
    "Volume": "1 name string; 2 volumeSource ~VolumeSource",
    "VolumeSource": (
        "1 hostPath HostPathVolumeSource; 2 emptyDir EmptyDirVolumeSource; 3 gcePersistentDisk "
        "GCEPersistentDiskVolumeSource; 4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource; 8 iscsi "
        "ISCSIVolumeSource; 10 persistentVolumeClaim PersistentVolumeClaimVolumeSource; 11 rbd RBDVolumeSource; "
        "22 azureDisk AzureDiskVolumeSource; 28 csi CSIVolumeSource; 29 ephemeral EphemeralVolumeSource"
    ),
    "HostPathVolumeSource": "1 path string; 2 type string",
    "EmptyDirVolumeSource": "1 medium string; 2 sizeLimit Quantity",
    "GCEPersistentDiskVolumeSource": "1 pdName string; 2 fsType string; 3 partition positive; 4 readOnly bool",
    "AWSElasticBlockStoreVolumeSource": "1 volumeID string; 2 fsType string; 3 partition positive; 4 readOnly bool",
    "AzureDiskVolumeSource": (
        "1 diskName string; 2 diskURI string; 3 cachingMode string; 4 fsType string; 5 readOnly bool; 6 kind string"
    ),
    "RBDVolumeSource": (
        "1 monitors []string; 2 image string; 3 fsType string; 4 pool string; 5 user string; 6 keyring string; 7 "
        "secretRef LocalObjectReference; 8 readOnly bool"
    ),
    "ISCSIVolumeSource": (
        "1 targetPortal string; 2 iqn string; 3 lun int; 4 iscsiInterface string; 5 fsType string; 6 readOnly bool; "
        "7 portals []string; 8 chapAuthDiscovery bool; 10 secretRef LocalObjectReference; 11 chapAuthSession bool; "
        "12 initiatorName string"
    ),
    "PersistentVolumeClaimVolumeSource": "1 claimName string; 2 readOnly bool",
    "CSIVolumeSource": (
        "1 driver string; 2 readOnly bool; 3 fsType string; 4 volumeAttributes {}string; 5 nodePublishSecretRef "
        "LocalObjectReference"
    ),
    "EphemeralVolumeSource": "",
    "Node": "1 metadata ObjectMeta; 2 spec NodeSpec; 3 status NodeStatus",
    "NodeSpec": "3 providerID string; 4 unschedulable bool; 5 taints []Taint",
    "Taint": "1 key string; 2 value string; 3 effect string; 4 timeAdded Time",
    "NodeStatus": (
        "1 capacity {}Quantity; 2 allocatable {}Quantity; 4 conditions []NodeCondition; 14 declaredFeatures []string"
    ),
    "NodeCondition": "1 type string; 2 status string; 4 lastTransitionTime Time; 5 reason string; 6 message string",
    "LocalObjectReference": "1 name string",
    "Deployment": "1 metadata ObjectMeta; 2 spec DeploymentSpec",
    "DeploymentSpec": (
        "1 replicas int; 2 selector LabelSelector; 3 template PodTemplateSpec; 4 strategy DeploymentStrategy; "
        "5 minReadySeconds int; 6 revisionHistoryLimit int; 7 paused bool; 9 progressDeadlineSeconds int"
    ),
    "DeploymentStrategy": "1 type string",
    "Job": "1 metadata ObjectMeta; 2 spec JobSpec",
    "JobSpec": (
        "1 parallelism int; 2 completions int; 3 activeDeadlineSeconds int; 4 selector LabelSelector; 5 "
        "manualSelector bool; 6 template PodTemplateSpec; 7 backoffLimit int; 8 ttlSecondsAfterFinished int; "
        "9 completionMode string; 10 suspend bool; 12 backoffLimitPerIndex int; 13 maxFailedIndexes int; 14 "
        "podReplacementPolicy string; 15 managedBy string"
    ),
    "CronJob": "1 metadata ObjectMeta; 2 spec CronJobSpec",
    "CronJobSpec": (
        "1 schedule string; 2 startingDeadlineSeconds int; 3 concurrencyPolicy string; 4 suspend bool; 5 "
        "jobTemplate JobTemplateSpec; 6 successfulJobsHistoryLimit int; 7 failedJobsHistoryLimit int; 8 "
        "timeZone string"
    ),
    "JobTemplateSpec": "1 metadata ObjectMeta; 2 spec JobSpec",
    "HorizontalPodAutoscaler": "1 metadata ObjectMeta; 2 spec HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerSpec": (
        "1 scaleTargetRef CrossVersionObjectReference; 2 minReplicas int; 3 maxReplicas int; 4 "
        "targetCPUUtilizationPercentage int"
    ),
    "CrossVersionObjectReference": "1 kind string; 2 name string; 3 apiVersion string",
    "PodDisruptionBudget": "1 metadata ObjectMeta; 2 spec PodDisruptionBudgetSpec",
    "PodDisruptionBudgetSpec": (
        "1 minAvailable IntOrString; 2 selector LabelSelector; 3 maxUnavailable IntOrString; 4 "
        "unhealthyPodEvictionPolicy string"
    ),
    "Eviction": "1 metadata ObjectMeta; 2 deleteOptions DeleteOptions",
    "PriorityClass": (
        "1 metadata ObjectMeta; 2 value int; 3 globalDefault bool; 4 description string; 5 preemptionPolicy string"
    ),
    "SelfSubjectReview": "1 metadata ObjectMeta",
    "SelfSubjectRulesReview": "1 metadata ObjectMeta; 2 spec SelfSubjectRulesReviewSpec",
    "SelfSubjectRulesReviewSpec": "1 namespace string",
    "SelfSubjectAccessReview": "1 metadata ObjectMeta; 2 spec SelfSubjectAccessReviewSpec",
    "SelfSubjectAccessReviewSpec": (
        "1 resourceAttributes ResourceAttributes; 2 nonResourceAttributes NonResourceAttributes"
    ),
    "ResourceAttributes": (
        "1 namespace string; 2 verb string; 3 group string; 4 version string; 5 resource string; 6 "
        "subresource string; 7 name string"
    ),
    "NonResourceAttributes": "1 path string; 2 verb string",
}

KUBERNETES = messages(_TEXT)
