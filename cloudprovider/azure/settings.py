"""The cloud configuration (`azure.json`) and the environment variables that override it.

Other components of a cluster share the file, so keys that are not listed here are ignored. As in Cluster Autoscaler,
the case of a key does not matter, and a variable that is set and not blank overrides the file.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from cloudprovider.document import read_document
from cloudprovider.number import BOOLEANS, parse_count
from cloudprovider.problems import Problems, kind_of

_VARIABLES: Mapping[str, tuple[str, ...]] = {
    # Of several variables the last one wins; so does the last one of several keys of the file.
    "cloud": ("ARM_CLOUD",),
    "resourceManagerEndpoint": (),
    "subscriptionId": ("ARM_SUBSCRIPTION_ID",),
    "resourceGroup": ("ARM_RESOURCE_GROUP",),
    "tenantId": ("ARM_TENANT_ID", "AZURE_TENANT_ID"),
    "vmType": ("ARM_VM_TYPE",),
    "authMethod": (),
    "aadClientId": ("ARM_CLIENT_ID", "AZURE_CLIENT_ID"),
    "aadClientSecret": ("ARM_CLIENT_SECRET",),
    "aadClientCertPath": ("ARM_CLIENT_CERT_PATH",),
    "aadClientCertPassword": ("ARM_CLIENT_CERT_PASSWORD",),
    "aadFederatedTokenFile": ("AZURE_FEDERATED_TOKEN_FILE",),
    "userAssignedIdentityID": ("ARM_USER_ASSIGNED_IDENTITY_ID",),
    "useManagedIdentityExtension": ("ARM_USE_MANAGED_IDENTITY_EXTENSION",),
    "useFederatedWorkloadIdentityExtension": (
        "ARM_USE_FEDERATED_WORKLOAD_IDENTITY_EXTENSION",
        "ARM_USE_WORKLOAD_IDENTITY_EXTENSION",
    ),
    "vmssCacheTTLInSeconds": ("AZURE_VMSS_CACHE_TTL_IN_SECONDS", "AZURE_VMSS_CACHE_TTL"),
    "vmssVirtualMachinesCacheTTLInSeconds": ("AZURE_VMSS_VMS_CACHE_TTL_IN_SECONDS", "AZURE_VMSS_VMS_CACHE_TTL"),
    "enableForceDelete": ("AZURE_ENABLE_FORCE_DELETE",),
    "enableVMsAgentPool": ("AZURE_ENABLE_VMS_AGENT_POOLS",),
    "enableVMSSEtag": ("AZURE_ENABLE_VMSS_ETAG",),
    "enableFastDeleteOnFailedProvisioning": ("AZURE_ENABLE_FAST_DELETE_ON_FAILED_PROVISIONING",),
    "enableLabelPredictionsOnTemplate": ("AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE",),
}
_OLD_KEYS = {
    "useFederatedWorkloadIdentityExtension": "useWorkloadIdentityExtension",
    "vmssCacheTTLInSeconds": "vmssCacheTTL",
    "vmssVirtualMachinesCacheTTLInSeconds": "vmssVmsCacheTTL",
}
"""Older names, which override the newer one."""


class AzureCloud(msgspec.Struct, frozen=True):
    """One of Microsoft's separate clouds."""

    resource_manager: str
    login_host: str


_PUBLIC = AzureCloud("https://management.azure.com", "login.microsoftonline.com")
_CHINA = AzureCloud("https://management.chinacloudapi.cn", "login.chinacloudapi.cn")
_GOVERNMENT = AzureCloud("https://management.usgovcloudapi.net", "login.microsoftonline.us")
_CLOUDS = {
    "": _PUBLIC,
    "azurecloud": _PUBLIC,
    "azurepubliccloud": _PUBLIC,
    "azurechinacloud": _CHINA,
    "azureusgovernment": _GOVERNMENT,
    "azureusgovernmentcloud": _GOVERNMENT,
}


class Method(StrEnum):
    """How the autoscaler authenticates."""

    CLIENT_SECRET = "client secret"
    CERTIFICATE = "client certificate"
    MANAGED_IDENTITY = "managed identity"
    WORKLOAD_IDENTITY = "workload identity"
    CLI = "Azure CLI"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The autoscaler's identity, and how it authenticates."""

    method: Method
    tenant_id: str = ""
    client_id: str = ""
    """For a managed identity: empty, or the user-assigned one's client id or resource id."""
    secret: str = ""
    """The client's secret, or the password of its certificate."""
    file: str = ""
    """The certificate, or the token of the service account."""

    def __repr__(self) -> str:
        return f"Identity({self.method}, client_id={self.client_id!r})"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The provider's configuration. Durations are in seconds."""

    cloud: AzureCloud
    subscription_id: str
    resource_group: str
    identity: Identity
    scale_sets_ttl_s: float = 60.0
    """Maximum age of the list of scale sets with their sizes and tags."""
    machines_ttl_s: float = 300.0
    """Maximum age of the list of a scale set's machines while nothing is changing."""
    force_delete: bool = False
    match_etags: bool = True
    """Refuse to overwrite changes that others made to a scale set since it was read."""
    fast_delete: bool = False
    """Whether every machine that failed and does not run counts as never created."""
    predict_labels: bool = True


def read_settings(path: str | None, environment: Mapping[str, str], problems: Problems) -> Settings:
    """Read the file, if there is one, and the environment; what is wrong goes to `problems`.

    `Misconfigured` where the file cannot be read at all.
    """
    given = _Given({} if path is None else read_document(path, _mapping), environment, problems)
    cloud = _cloud(given)
    settings = Settings(
        cloud=cloud,
        subscription_id=given.text("subscriptionId", required=True),
        resource_group=given.text("resourceGroup", required=True),
        identity=_identity(given),
        scale_sets_ttl_s=given.seconds("vmssCacheTTLInSeconds", 60.0),
        machines_ttl_s=given.seconds("vmssVirtualMachinesCacheTTLInSeconds", 300.0),
        force_delete=given.flag("enableForceDelete"),
        match_etags=given.flag("enableVMSSEtag", default=True),
        fast_delete=given.flag("enableFastDeleteOnFailedProvisioning"),
        predict_labels=given.flag("enableLabelPredictionsOnTemplate", default=True),
    )
    machines = given.text("vmType").lower()
    if machines not in ("", "vmss"):
        given.complain("vmType", f"is {machines!r}; only scale sets (vmss) are supported")
    if given.flag("enableVMsAgentPool"):
        given.complain("enableVMsAgentPool", "pools of single virtual machines are not supported; leave it out")
    return settings


def _cloud(given: "_Given") -> AzureCloud:
    name = given.text("cloud").lower()
    if name not in _CLOUDS:
        given.complain("cloud", f"{name!r} is none of {', '.join(sorted(filter(None, _CLOUDS)))}")
    cloud = _CLOUDS.get(name, _PUBLIC)
    endpoint = given.text("resourceManagerEndpoint").rstrip("/")
    if endpoint and not endpoint.startswith("https://"):
        given.complain("resourceManagerEndpoint", f"{endpoint!r} does not begin with https://")
    return msgspec.structs.replace(cloud, resource_manager=endpoint) if endpoint else cloud


def _identity(given: "_Given") -> Identity:
    tenant, client = given.text("tenantId"), given.text("aadClientId")
    secret, certificate = given.text("aadClientSecret"), given.text("aadClientCertPath")
    token_file = given.text("aadFederatedTokenFile")
    managed = given.flag("useManagedIdentityExtension")
    federated = given.flag("useFederatedWorkloadIdentityExtension")
    method = given.text("authMethod").lower()
    if managed and federated:
        given.complain("useManagedIdentityExtension", "excludes useFederatedWorkloadIdentityExtension; choose one")
    if managed:
        return Identity(method=Method.MANAGED_IDENTITY, client_id=given.text("userAssignedIdentityID"))
    if method not in ("", "principal", "cli"):
        given.complain("authMethod", f"{method!r} is neither principal nor cli")
    if method == "cli" and not federated:
        return Identity(method=Method.CLI, tenant_id=tenant)
    # The webhook of workload identity sets the variable, which says enough where nothing else is configured.
    if federated or (token_file and not secret and not certificate):
        given.require(tenantId=tenant, aadClientId=client, aadFederatedTokenFile=token_file)
        return Identity(method=Method.WORKLOAD_IDENTITY, tenant_id=tenant, client_id=client, file=token_file)
    given.require(tenantId=tenant, aadClientId=client)
    if certificate:
        password = given.text("aadClientCertPassword")
        return Identity(
            method=Method.CERTIFICATE, tenant_id=tenant, client_id=client, file=certificate, secret=password
        )
    given.require(aadClientSecret=secret)
    return Identity(method=Method.CLIENT_SECRET, tenant_id=tenant, client_id=client, secret=secret)


class _Given:
    """The values given for each key, from the file and from the environment."""

    def __init__(self, data: Mapping[str, Any], environment: Mapping[str, str], problems: Problems) -> None:
        self._file = {str(key).lower(): value for key, value in data.items()}
        self._environment = environment
        self._problems = problems

    def complain(self, key: str, text: str) -> None:
        variables = f" ({' or '.join(reversed(_VARIABLES[key]))})" if _VARIABLES[key] else ""
        self._problems.add("cloud-config", f"{key}{variables}: {text}")

    def require(self, **values: str) -> None:
        for key, value in values.items():
            if not value:
                self.complain(key, "is required")

    def text(self, key: str, required: bool = False) -> str:
        value = self._value(key)
        if value is not None and not isinstance(value, str):
            self.complain(key, f"must be a string, not {kind_of(value)}")
            return ""
        if required and not value:
            self.complain(key, "is required")
        return (value or "").strip()

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._value(key)
        text = str(value).strip().lower()
        if value is None or text in BOOLEANS:
            return default if value is None else BOOLEANS[text]
        self.complain(key, f"must be true or false, not {value!r}")
        return default

    def seconds(self, key: str, default: float) -> float:
        """Return a whole number of seconds; 0 means the default."""
        value = self._value(key)
        count = parse_count("0" if value is None else str(value).strip())
        if isinstance(value, bool) or count is None:
            self.complain(key, f"must be a whole number of seconds, not {value!r}")
            return default
        return float(count) or default

    def _value(self, key: str) -> Any:
        for variable in reversed(_VARIABLES[key]):
            if self._environment.get(variable, "").strip():
                return self._environment[variable]
        return _first(self._file.get(name.lower()) for name in (_OLD_KEYS.get(key, key), key))


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _mapping(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        problems = Problems()
        problems.add("", f"must be a mapping, not {kind_of(document)}")
        problems.raise_if_any()
    return document  # type: ignore[no-any-return]  # a mapping, or raised
