"""Flags, files and environment of the AWS provider, and what errors of the SDK become."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from cloudprovider.aws.cloud_config import Endpoint, read_cloud_config
from cloudprovider.aws.connection import connect
from cloudprovider.aws.failures import AccessDenied, asked, failure
from cloudprovider.aws.provider import create
from cloudprovider.interface import (
    Accelerators,
    KnowsInstances,
    Misconfigured,
    NotFound,
    OutOfCapacity,
    Pricing,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from tests.fakes.aws import FakeAws, an_error

# Flags


@pytest.mark.parametrize(
    ("nodes", "discovery", "complaint"),
    [
        ((), (), "no node groups: set --nodes"),
        (("1:web",), (), "'1:web' is not min:max:name"),
        ((), ("mig:namePrefix=x",), "is not asg:tag=KEY"),
        ((), ("asg:name=x",), "is not asg:tag=KEY"),
        ((), ("asg:tag=",), "is not asg:tag=KEY"),
        ((), ("asg:tag=a,,b",), "is not asg:tag=KEY"),
        ((), ("asg:tag=a=1", "asg:tag=a=2"), "no group has both '1' and '2' as a"),
    ],
)
def test_flags_that_select_nothing_are_refused(nodes: Sequence[str], discovery: Sequence[str], complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        create(ProviderContext(node_specs=nodes, discovery_specs=discovery))


def test_every_problem_of_the_flags_is_told_at_once() -> None:
    with pytest.raises(Misconfigured) as found:
        create(ProviderContext(node_specs=["x", "5:1:web"], discovery_specs=["asg:x"]))
    assert len(str(found.value).splitlines()) == 3


def test_the_provider_knows_machines_and_accelerators_and_with_a_list_prices(tmp_path: Path) -> None:
    cloud = FakeAws()
    cloud.add_group("web")
    plain = cloud.open("0:9:web")
    assert isinstance(plain, KnowsInstances)
    assert isinstance(plain, Accelerators)
    assert not isinstance(plain, Pricing)
    assert plain.gpu_label == "k8s.amazonaws.com/accelerator"
    assert {"nvidia-tesla-v100", "nvidia-a10g", "nvidia-l40s"} <= set(plain.gpu_types())
    prices = tmp_path / "prices.yaml"
    prices.write_text("instanceTypes: {m5.large: 0.5}")
    priced = cloud.open("0:9:web", price_file=str(prices))
    assert isinstance(priced, Pricing)
    template = priced.groups()[0].template()
    assert template is not None
    assert priced.node_price(template, 2.0) == 1.0


# Cloud config


def a_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "cloud.conf"
    path.write_text(text)
    return str(path)


def test_the_cloud_config_gives_endpoints_and_the_rest_is_not_for_us(tmp_path: Path) -> None:
    text = """
    [Global]
      Zone=eu-west-1a
      KubernetesClusterID = prod ; a comment
      DisableSecurityGroupIngress
    [ServiceOverride "1"]
      Service = autoscaling
      Region=eu-west-1
        URL="https://scaling.example.com"
      SigningRegion=eu-west-1
    [ServiceOverride "2"]
      Service=s3
      Region=eu-west-1
      URL=https://s3.example.com
      SigningRegion=eu-west-1
    """
    assert read_cloud_config(a_file(tmp_path, text)) == {
        ("autoscaling", "eu-west-1"): Endpoint("https://scaling.example.com", "eu-west-1")
    }


def test_a_wrong_cloud_config_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    text = """
    [Other]
    [ServiceOverride "1"]
    Service=ec2
    Port=1
    [ServiceOverride "2"]
    Service=ec2
    Region=r
    URL=u
    SigningRegion=r
    SigningMethod=v2
    """
    with pytest.raises(Misconfigured) as found:
        read_cloud_config(a_file(tmp_path, text))
    assert len(str(found.value).splitlines()) == 6, "a section, a key, three missing keys, a method"


@pytest.mark.parametrize("text", ["key without section", "[Global\nx=1"])
def test_a_cloud_config_that_is_no_ini_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Misconfigured, match=r"cloud\.conf"):
        read_cloud_config(a_file(tmp_path, text))


def test_a_cloud_config_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_cloud_config(str(tmp_path / "none"))


# Connecting


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


def meta(client: Any) -> Any:
    """Return what the SDK knows about a client."""
    return client.meta


def test_clients_are_of_the_region_that_the_environment_names() -> None:
    for environment in ({"AWS_REGION": "eu-west-3", "AWS_DEFAULT_REGION": "x"}, {"AWS_DEFAULT_REGION": "eu-west-3"}):
        clients = connect(environment, {}, "cluster-autoscaler")
        assert clients.region == "eu-west-3"
        assert meta(clients.reading).region_name == "eu-west-3"


def test_without_a_named_region_the_machine_tells_it() -> None:
    assert connect({}, {}, "x", metadata_region=lambda: "us-east-2").region == "us-east-2"
    with pytest.raises(Misconfigured, match="set AWS_REGION"):
        connect({}, {}, "x", metadata_region=lambda: None)


def test_reading_is_tried_again_and_writing_never() -> None:
    clients = connect({"AWS_REGION": "eu-west-1", "AWS_MAX_ATTEMPTS": "7"}, {}, "cluster autoscaler (1)")
    configs = [meta(client).config for client in (clients.reading, clients.ec2, clients.eks, clients.writing)]
    assert [config.retries["total_max_attempts"] for config in configs] == [7, 7, 7, 1]
    assert {(config.connect_timeout, config.read_timeout) for config in configs} == {(5.0, 20.0)}
    assert {config.user_agent_extra for config in configs} == {"cluster autoscaler -1-"}


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_senseless_attempts_are_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="AWS_MAX_ATTEMPTS"):
        connect({"AWS_REGION": "eu-west-1", "AWS_MAX_ATTEMPTS": text}, {}, "x")


def test_an_endpoint_of_this_region_is_used_and_others_are_not() -> None:
    endpoints = {
        ("ec2", "eu-west-1"): Endpoint("https://ec2.example.com", "us-east-1"),
        ("eks", "eu-west-2"): Endpoint("https://eks.example.com", "us-east-1"),
    }
    clients = connect({"AWS_REGION": "eu-west-1"}, endpoints, "x")
    metas = [meta(client) for client in (clients.ec2, clients.eks)]
    assert [(one.endpoint_url, one.region_name) for one in metas] == [
        ("https://ec2.example.com", "us-east-1"),
        ("https://eks.eu-west-1.amazonaws.com", "eu-west-1"),
    ]


def test_an_endpoint_that_is_no_address_and_a_profile_that_is_unknown_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Misconfigured, match="nonsense"):
        connect({"AWS_REGION": "eu-west-1"}, {("ec2", "eu-west-1"): Endpoint("nonsense", "eu-west-1")}, "x")
    monkeypatch.setenv("AWS_PROFILE", "unheard-of")
    with pytest.raises(Misconfigured, match="unheard-of"):
        connect({"AWS_REGION": "eu-west-1"}, {}, "x")


def test_without_credentials_the_start_ends_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    context = ProviderContext(node_specs=["0:5:web"], environment={"AWS_REGION": "eu-west-1"})
    with pytest.raises(Misconfigured, match="Unable to locate credentials"):
        create(context)


def test_a_web_identity_without_its_token_ends_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/autoscaler")
    context = ProviderContext(node_specs=["0:5:web"], environment={"AWS_REGION": "eu-west-1"})
    with pytest.raises(Misconfigured, match="token"):
        create(context)


# Errors


def behind(error: Exception, cause: Exception) -> Exception:
    """Return an error that a library raised because of another."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (an_error("Throttling"), Throttled),
        (an_error("RequestLimitExceeded", status=503), Throttled),
        (an_error("Whatever", status=429), Throttled),
        (an_error("InsufficientInstanceCapacity", status=500), OutOfCapacity),
        (an_error("LimitExceeded"), QuotaExceeded),
        (an_error("VcpuLimitExceeded"), QuotaExceeded),
        (an_error("ScalingActivityInProgress"), Transient),
        (an_error("ResourceContention", status=500), Transient),
        (an_error("Whatever", status=502), Transient),
        (an_error("ExpiredToken", status=403), Transient),
        (an_error("AccessDenied", status=403), AccessDenied),
        (an_error("InvalidClientTokenId", status=403), AccessDenied),
        (an_error("ResourceNotFoundException", status=404), NotFound),
        (an_error("ValidationError", "AutoScalingGroup name not found - null"), NotFound),
        (an_error("ValidationError", "Group is too large"), ProviderError),
        (sdk.ConnectTimeoutError(endpoint_url="u"), Transient),
        (sdk.ReadTimeoutError(endpoint_url="u"), Transient),
        (sdk.EndpointConnectionError(endpoint_url="u"), Transient),
        (sdk.ConnectionClosedError(endpoint_url="u"), Transient),
        (sdk.SSLError(endpoint_url="u", error="e"), Transient),
        (sdk.ProxyConnectionError(proxy_url="u"), Transient),
        (ResponseParserError("half an answer"), Transient),
        (sdk.NoCredentialsError(), AccessDenied),
        (sdk.CredentialRetrievalError(provider="p", error_msg="m"), AccessDenied),
        (
            behind(
                sdk.CredentialRetrievalError(provider="q", error_msg="m"), sdk.ConnectTimeoutError(endpoint_url="u")
            ),
            Transient,
        ),
        (sdk.PartialCredentialsError(provider="p", cred_var="v"), AccessDenied),
        (FileNotFoundError("/var/run/secrets/token"), AccessDenied),
        (sdk.ParamValidationError(report="r"), ProviderError),
        (sdk.UnknownServiceError(service_name="s", known_service_names="k"), ProviderError),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:60],
)
def test_errors_of_the_sdk_are_named_for_what_happens_next(error: Exception, kind: type[ProviderError]) -> None:
    def fails(**_: object) -> dict[str, object]:
        raise error

    with pytest.raises(ProviderError) as raised:
        asked(fails)
    assert type(raised.value) is kind


def test_the_wait_that_aws_asks_for_is_passed_on() -> None:
    found = [failure(an_error("Throttling", retry_after=text)) for text in ("30", "soon")]
    assert [error.retry_after for error in found if isinstance(error, Throttled)] == [30.0, None]


def test_codes_become_metric_labels_and_signed_requests_no_log_line() -> None:
    assert failure(an_error("InsufficientInstanceCapacity")).code == "InsufficientInstanceCapacity"
    assert failure(an_error("ValidationError", "odd")).code == "ValidationError"
    told = str(failure(an_error("SignatureDoesNotMatch", "does not match.\nx-amz-security-token:SECRET")))
    assert told == "Operation: SignatureDoesNotMatch: does not match."
    told = str(failure(an_error("UnauthorizedOperation", "No. Encoded authorization failure message: AAAA")))
    assert told == "Operation: UnauthorizedOperation: No."
    assert len(str(failure(an_error("X", "long" * 1000)))) <= 300
