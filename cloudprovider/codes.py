"""Failure codes that metrics distinguish: a closed set, because a cloud may return any code."""

OTHER = "other"
_OF_THE_CONTRACT = (
    "cloudProviderError",
    "OUT_OF_RESOURCES",
    "QUOTA_EXCEEDED",
    "THROTTLED",
    "NOT_FOUND",
    "TRANSIENT",
    "CONFLICT",
    "MISCONFIGURED",
    "ACCESS_DENIED",
    "UNIMPLEMENTED",
    "OTHER",
)
_OF_GCE = (
    "RESOURCE_POOL_EXHAUSTED",
    "INSUFFICIENT_CAPACITY",
    "IP_SPACE_EXHAUSTED",
    "PERMISSIONS_ERROR",
    "VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT",
    "RESERVATION_NOT_READY",
    "INVALID_RESERVATION",
    "RESERVATION_NOT_FOUND",
    "RESERVATION_CAPACITY_EXCEEDED",
    "RESERVATION_INCOMPATIBLE",
    "UNSUPPORTED_TPU_CONFIGURATION",
    "AUTOMATIC_RESERVATIONS_NOT_AVAILABLE",
    "AUTOMATIC_RESERVATIONS_NO_CAPACITY",
)
_OF_AWS = (
    "placeholder-cannot-be-fulfilled",
    "InsufficientInstanceCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "UnfulfillableCapacity",
    "SpotMaxPriceTooLow",
    "LimitExceeded",
    "InstanceLimitExceeded",
    "VcpuLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "ResourceLimitExceeded",
    "ServiceQuotaExceededException",
    "ValidationError",
)
_OF_AZURE = (
    "AllocationFailed",
    "ZonalAllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SpotAllocationFailed",
    "LowPriorityAllocationFailed",
    "SkuNotAvailable",
    "SkuNotAvailableInZone",
    "CapacityReservationFull",
    "QuotaExceeded",
    "ResourceQuotaExceeded",
    "SubscriptionQuotaExceeded",
    "LowPriorityQuotaExceeded",
    "SpotQuotaExceeded",
    "PublicIPCountLimitReached",
    "SubnetIsFull",
    "OperationNotAllowed",
    "AuthorizationFailed",
    "UNAUTHENTICATED",
)
_OF_CLUSTER_API = ("DeletingFailed", "ProvisioningFailed")
_KNOWN = frozenset((*_OF_THE_CONTRACT, *_OF_GCE, *_OF_AWS, *_OF_AZURE, *_OF_CLUSTER_API))


def told_apart(code: str) -> str:
    """Return the code if it is known, else `other`. Logs and status have the cloud's own code."""
    return code if code in _KNOWN else OTHER
