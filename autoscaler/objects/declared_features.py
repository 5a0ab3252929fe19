"""The features that a node must declare in its status before the scheduler gives it a pod.

Source: the plug-in NodeDeclaredFeatures of the scheduler, and `nodedeclaredfeatures` of Kubernetes' component helpers,
as of Kubernetes 1.37. Of the features there, those that concern changes of pods only are not asked by the scheduler.
"""

from autoscaler.objects.podspec import PodSpec

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS = "UserNamespacesHostNetworkSupport"


def uses_host_network_in_user_namespace(spec: PodSpec) -> bool:
    """Whether a pod uses the network of its node, and a user namespace of its own."""
    return bool(spec.host_network) and spec.host_users is False


def features_needed(spec: PodSpec) -> frozenset[str]:
    """Return the names of the features."""
    needed: list[str] = []
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for one in containers for rule in one.restart_policy_rules):
        needed.append(RESTART_ALL_CONTAINERS)
    if uses_host_network_in_user_namespace(spec):
        needed.append(HOST_NETWORK_USERS)
    return frozenset(needed)
