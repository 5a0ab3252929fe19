"""The cloud configuration of the azure provider, its identities and the selection of scale sets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)

from cloudprovider.azure.credentials import Tokens, tokens_for
from cloudprovider.azure.discovery import Selector, read_selector, sized_by_tags
from cloudprovider.azure.settings import AzureCloud, Identity, Method, Settings, read_settings
from cloudprovider.interface import Misconfigured, ProviderError, Throttled, Transient
from cloudprovider.problems import Problems
from cloudprovider.sizes import SizedName

_BASE = {"subscriptionId": "sub", "resourceGroup": "rg", "tenantId": "t", "aadClientId": "c"}
_SECRET = {**_BASE, "aadClientSecret": "hush"}
_FEDERATED = {"AZURE_FEDERATED_TOKEN_FILE": "/token"}


def read(tmp_path: Path, data: Mapping[str, Any], environment: Mapping[str, str] = {}) -> Settings:
    path = tmp_path / "azure.json"
    path.write_text(json.dumps(data))
    problems = Problems()
    settings = read_settings(str(path), environment, problems)
    problems.raise_if_any()
    return settings


def refused(tmp_path: Path, data: Mapping[str, Any], environment: Mapping[str, str] = {}) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        read(tmp_path, data, environment)
    return str(caught.value).splitlines()


def test_defaults_are_cluster_autoscalers() -> None:
    problems = Problems()
    environment = {"ARM_SUBSCRIPTION_ID": "sub", "ARM_RESOURCE_GROUP": "rg", "ARM_TENANT_ID": "t"}
    settings = read_settings(None, {**environment, "ARM_CLIENT_ID": "c", "ARM_CLIENT_SECRET": "s"}, problems)
    problems.raise_if_any()
    assert (settings.scale_sets_ttl_s, settings.machines_ttl_s) == (60.0, 300.0)
    assert (settings.force_delete, settings.fast_delete, settings.predict_labels) == (False, False, True)
    assert settings.cloud == AzureCloud("https://management.azure.com", "login.microsoftonline.com")


def test_the_case_of_keys_does_not_matter_and_foreign_keys_are_others_business(tmp_path: Path) -> None:
    data = {"SUBSCRIPTIONID": "sub", "resourcegroup": "rg", "useManagedIdentityExtension": True, "vnetName": 7}
    assert read(tmp_path, data).subscription_id == "sub"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, "sub", id="file alone"),
        pytest.param({"ARM_SUBSCRIPTION_ID": "other"}, "other", id="the environment wins"),
        pytest.param({"ARM_SUBSCRIPTION_ID": "  "}, "sub", id="a blank variable counts as absent"),
    ],
)
def test_the_environment_overrides_the_file(tmp_path: Path, environment: Mapping[str, str], expected: str) -> None:
    assert read(tmp_path, _SECRET, environment).subscription_id == expected


def test_newer_variables_and_older_keys_win(tmp_path: Path) -> None:
    data = {**_SECRET, "vmssCacheTTL": 20, "vmssCacheTTLInSeconds": 30, "vmssVirtualMachinesCacheTTLInSeconds": 0}
    settings = read(tmp_path, data, {"ARM_TENANT_ID": "old", "AZURE_TENANT_ID": "new"})
    assert (settings.scale_sets_ttl_s, settings.machines_ttl_s) == (20.0, 300.0)
    assert settings.identity.tenant_id == "new"
    variables = {"AZURE_VMSS_CACHE_TTL_IN_SECONDS": "40", "AZURE_VMSS_CACHE_TTL": "50", "AZURE_VMSS_VMS_CACHE_TTL": "9"}
    settings = read(tmp_path, data, variables)
    assert (settings.scale_sets_ttl_s, settings.machines_ttl_s) == (50.0, 9.0)


@pytest.mark.parametrize(
    ("data", "environment", "identity"),
    [
        pytest.param(
            _SECRET,
            {},
            Identity(method=Method.CLIENT_SECRET, tenant_id="t", client_id="c", secret="hush"),
            id="client secret",
        ),
        pytest.param(
            {**_BASE, "aadClientCertPath": "/c.pem", "aadClientCertPassword": "p"},
            {},
            Identity(method=Method.CERTIFICATE, tenant_id="t", client_id="c", secret="p", file="/c.pem"),
            id="certificate",
        ),
        pytest.param(
            {**_SECRET, "useManagedIdentityExtension": True, "userAssignedIdentityID": "u"},
            _FEDERATED,
            Identity(method=Method.MANAGED_IDENTITY, client_id="u"),
            id="managed identity before all else",
        ),
        pytest.param(
            {**_SECRET, "useWorkloadIdentityExtension": True},
            _FEDERATED,
            Identity(method=Method.WORKLOAD_IDENTITY, tenant_id="t", client_id="c", file="/token"),
            id="workload identity by an older key",
        ),
        pytest.param(
            _BASE,
            _FEDERATED,
            Identity(method=Method.WORKLOAD_IDENTITY, tenant_id="t", client_id="c", file="/token"),
            id="workload identity because its webhook was there",
        ),
        pytest.param(
            {**_BASE, "authMethod": "cli"},
            {},
            Identity(method=Method.CLI, tenant_id="t"),
            id="whoever is signed in",
        ),
    ],
)
def test_identities(
    tmp_path: Path, data: Mapping[str, Any], environment: Mapping[str, str], identity: Identity
) -> None:
    assert read(tmp_path, data, environment).identity == identity


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = read(tmp_path, _SECRET)
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings.identity)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    data = {
        "cloud": "AzureMoon",
        "resourceManagerEndpoint": "http://arm.example",
        "resourceGroup": 5,
        "vmType": "standard",
        "enableVMsAgentPool": "true",
        "enableForceDelete": "perhaps",
        "vmssCacheTTL": "soon",
        "authMethod": "magic",
    }
    lines = refused(tmp_path, data)
    told = [
        "subscriptionId (ARM_SUBSCRIPTION_ID): is required",
        "resourceGroup (ARM_RESOURCE_GROUP): must be a string, not the number 5",
        "cloud (ARM_CLOUD): 'azuremoon' is none of",
        "resourceManagerEndpoint: 'http://arm.example' does not begin with https://",
        "vmType (ARM_VM_TYPE): is 'standard'; only scale sets (vmss) are supported",
        "enableVMsAgentPool (AZURE_ENABLE_VMS_AGENT_POOLS): pools of single virtual machines are not supported",
        "enableForceDelete (AZURE_ENABLE_FORCE_DELETE): must be true or false, not 'perhaps'",
        "must be a whole number of seconds, not 'soon'",
        "authMethod: 'magic' is neither principal nor cli",
        "tenantId (AZURE_TENANT_ID or ARM_TENANT_ID): is required",
        "aadClientId (AZURE_CLIENT_ID or ARM_CLIENT_ID): is required",
        "aadClientSecret (ARM_CLIENT_SECRET): is required",
    ]
    assert [text for text in told if not any(f"cloud-config: {text}" in line or text in line for line in lines)] == []
    assert len(lines) == len(told)


def test_two_identities_exclude_each_other(tmp_path: Path) -> None:
    data = {**_BASE, "useManagedIdentityExtension": True, "useFederatedWorkloadIdentityExtension": True}
    assert "choose one" in refused(tmp_path, data)[0]


@pytest.mark.parametrize("text", ["[1]", "{", "a: b: c"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "azure.json"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=r"azure\.json: "):
        read_settings(str(path), {}, Problems())


# Tokens


class Issuer:
    def __init__(self, *answers: AccessToken | Exception) -> None:
        self.answers = list(answers)
        self.scopes: list[str] = []

    def get_token(self, *scopes: str) -> AccessToken:
        self.scopes.extend(scopes)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_token_is_kept_until_shortly_before_it_expires() -> None:
    now = [1_000.0]
    issuer = Issuer(AccessToken("a", 5_000), AccessToken("b", 9_000), AccessToken("c", 9_000))
    tokens = Tokens(issuer, "https://management.azure.com/.default", lambda: now[0])
    assert [tokens.token(), tokens.token()] == ["a", "a"]
    now[0] = 4_701.0
    assert tokens.token() == "b"
    tokens.refused("a")
    assert tokens.token() == "b"
    tokens.refused("b")
    assert tokens.token() == "c"
    assert set(issuer.scopes) == {"https://management.azure.com/.default"}


def behind(error: Exception, cause: Exception) -> Exception:
    """Return an error that a library raised because of another."""
    error.__cause__ = cause
    return error


def http_error(status: int) -> HttpResponseError:
    error = HttpResponseError("no\nmore lines")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ClientAuthenticationError("AADSTS7000215: invalid client secret"), ProviderError),
        (behind(ClientAuthenticationError("failed"), ServiceRequestError("no such host")), Transient),
        (behind(ClientAuthenticationError("failed"), behind(RuntimeError("msal"), TimeoutError())), Transient),
        (behind(ClientAuthenticationError("failed"), ValueError("no such key")), ProviderError),
        (ServiceRequestError("no route"), Transient),
        (AzureError("odd"), Transient),
        (http_error(429), Throttled),
        (http_error(503), Transient),
        (http_error(400), ProviderError),
        (FileNotFoundError("/token"), ProviderError),
    ],
)
def test_errors_of_signing_in_are_those_of_the_contract(raised: Exception, expected: type[ProviderError]) -> None:
    with pytest.raises(ProviderError) as caught:
        Tokens(Issuer(raised), "scope", lambda: 0.0).token()
    assert type(caught.value) is expected
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "identity",
    [
        Identity(method=Method.CLIENT_SECRET, tenant_id="t", client_id="c", secret="s"),
        Identity(method=Method.MANAGED_IDENTITY),
        Identity(method=Method.MANAGED_IDENTITY, client_id="c"),
        Identity(method=Method.MANAGED_IDENTITY, client_id="/subscriptions/s/userAssignedIdentities/i"),
        Identity(method=Method.WORKLOAD_IDENTITY, tenant_id="t", client_id="c", file="/token"),
        Identity(method=Method.CLI),
    ],
    ids=lambda one: f"{one.method} {one.client_id}",
)
def test_identities_become_credentials_without_asking_for_tokens(identity: Identity) -> None:
    assert tokens_for(identity, AzureCloud("https://arm", "login"), lambda: 0.0) is not None


def test_a_certificate_that_is_not_there_is_a_problem_of_the_configuration() -> None:
    identity = Identity(method=Method.CERTIFICATE, tenant_id="t", client_id="c", file="/nowhere.pem")
    with pytest.raises(Misconfigured, match="client certificate cannot be used"):
        tokens_for(identity, AzureCloud("https://arm", "login"), lambda: 0.0)


# Selection


def selector(*specs: str) -> Selector | None:
    problems = Problems()
    found = read_selector(specs, problems)
    problems.raise_if_any()
    return found


def test_all_specifications_must_match_and_the_narrowest_sizes_count() -> None:
    assert selector() is None
    found = selector("label:enabled=true,cluster=shop,min=1,max=9", "label:tier=web,min=2,max=20")
    assert found == Selector({"enabled": "true", "cluster": "shop", "tier": "web"}, 2, 9)


@pytest.mark.parametrize(
    ("specs", "told"),
    [
        (["asg:tag=x"], "'asg:tag=x' is not label:key=value"),
        (["label"], "'label' is not label:key=value"),
        (["label:a"], "'a' in 'label:a' is not key=value"),
        (["label:a=b=c"], "'a=b=c' in"),
        (["label:a="], "'a=' in"),
        (["label:a=b,min=x"], "'x' in 'label:a=b,min=x' is not a number of nodes"),
        (["label:a=b,min=-1"], "'-1' in"),
        (["label:a=b,min=3,max=2"], "the minimum 3 is above the maximum 2"),
        (["label:min=1,max=2"], "names no tag"),
        (["label:a=b", "label:a=c"], "no scale set has both a=b and a=c"),
    ],
)
def test_selectors_that_make_no_sense_are_refused(specs: list[str], told: str) -> None:
    with pytest.raises(Misconfigured, match="node-group-auto-discovery") as caught:
        selector(*specs)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param({"on": "yes", "min": "1", "max": "5"}, SizedName("s", 1, 5), id="sizes of the tags"),
        pytest.param({"on": "yes", "min": "1"}, SizedName("s", 1, 7), id="the flag's where a tag is missing"),
        pytest.param({"on": "no", "min": "1", "max": "5"}, None, id="another value"),
        pytest.param({}, None, id="no tags"),
        pytest.param({"on": "yes"}, "it has no tag min, and the flag gives none either", id="no minimum"),
        pytest.param({"on": "yes", "min": "x"}, "its sizes are min=x and max=7", id="not a number"),
        pytest.param({"on": "yes", "min": "8"}, "its sizes are min=8 and max=7", id="minimum above maximum"),
    ],
)
def test_sizes_by_tags(tags: Mapping[str, str], expected: SizedName | str | None) -> None:
    assert sized_by_tags("s", tags, Selector({"on": "yes"}, None, 7)) == expected
