import base64
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kubernetes.client.configuration import Configuration

from autoscaler.clock import VirtualClock
from autoscaler.errors import ConfigError, RetryLater
from autoscaler.kube.call import JSON
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.kubeconfig import KubeconfigCredentials, load_endpoint
from tests.unit.kube.scripted import Reply, ScriptedApi, Sleeps, ok, read_until_aborted, scripted_api

TLS = Path(__file__).parent / "tls"
POD = "/api/v1/pods"


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def a_kubeconfig(
    server: str = "https://10.0.0.1:6443", cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [
            {"name": "dev", "context": {"cluster": "c", "user": "u"}},
            {"name": "prod", "context": {"cluster": "p", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": server, **(cluster or {})}},
            {"name": "p", "cluster": {"server": "https://prod.example:443/k8s/clusters/c-1/"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    def to_file(content: Any) -> str:
        path = tmp_path / "config"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return to_file


def test_the_current_context_decides_unless_another_is_named(write: Callable[[Any], str]) -> None:
    path = write(a_kubeconfig())
    assert load_endpoint(path).url == "https://10.0.0.1:6443"
    assert load_endpoint(path, context="prod").url == "https://prod.example:443/k8s/clusters/c-1"


def test_a_token_goes_into_every_request(write: Callable[[Any], str]) -> None:
    endpoint = load_endpoint(write(a_kubeconfig(user={"token": "s3cret"})))
    assert endpoint.credentials.headers() == {"authorization": "Bearer s3cret"}
    assert endpoint.verified


def test_an_address_overrides_the_kubeconfigs(write: Callable[[Any], str]) -> None:
    endpoint = load_endpoint(write(a_kubeconfig(user={"token": "s3cret"})), master="https://other:6443/")
    assert endpoint.url == "https://other:6443"
    assert endpoint.credentials.headers() == {"authorization": "Bearer s3cret"}


def test_an_address_may_name_the_kubeconfig(write: Callable[[Any], str]) -> None:
    path = write(a_kubeconfig(user={"token": "s3cret"}))
    endpoint = load_endpoint(master=f"https://other?inClusterConfig=false&auth={path}")
    assert endpoint.url == "https://other"
    assert endpoint.credentials.headers() == {"authorization": "Bearer s3cret"}


def test_an_address_alone_needs_no_credentials() -> None:
    assert load_endpoint(master="http://127.0.0.1:8001").credentials.headers() == {}
    assert load_endpoint(master="https://h:1?inClusterConfig=false").credentials.headers() == {}


def test_several_files_are_joined(tmp_path: Path) -> None:
    whole = a_kubeconfig(user={"token": "t"})
    users, rest = tmp_path / "users", tmp_path / "rest"
    users.write_text(yaml.safe_dump({"users": whole.pop("users")}))
    rest.write_text(yaml.safe_dump(whole))
    path = os.pathsep.join([str(rest), str(tmp_path / "missing"), str(users)])
    assert load_endpoint(path).credentials.headers() == {"authorization": "Bearer t"}


def without(key: str) -> dict[str, Any]:
    config = a_kubeconfig()
    del config[key]
    return config


NOT_BASE64 = "%%%"
EMPTY_CA = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "is not a kubeconfig", id="empty file"),
        pytest.param("a: b\nc: [1, 2", " is not YAML: ", id="broken YAML"),
        pytest.param("- a\n- b\n", "is not a kubeconfig", id="a list"),
        pytest.param("\x00\x01", "is not YAML", id="binary"),
        pytest.param(without("current-context"), "current-context is not set; set it with", id="no context chosen"),
        pytest.param(without("contexts"), "contexts has no entry named 'dev'; it has: none", id="no contexts"),
        pytest.param(without("clusters"), "clusters has no entry named 'c'", id="no clusters"),
        pytest.param(without("users"), "users has no entry named 'u'", id="no users"),
        pytest.param(a_kubeconfig() | {"clusters": {"c": 1}}, "clusters is not a list of named", id="clusters as map"),
        pytest.param(a_kubeconfig() | {"users": [{"name": "u", "user": "x"}]}, "user is not a mapping", id="odd user"),
        pytest.param(a_kubeconfig(server=""), "has no 'server'; add it", id="no server"),
        pytest.param(a_kubeconfig(server="10.0.0.1:6443"), "is not an http or https URL", id="server without scheme"),
        pytest.param(
            a_kubeconfig(cluster={"certificate-authority": "/none/ca.crt"}), "/none/ca.crt", id="CA file missing"
        ),
        pytest.param(
            a_kubeconfig(cluster={"certificate-authority-data": NOT_BASE64}),
            "certificate-authority: no",
            id="CA not base64",
        ),
        pytest.param(
            a_kubeconfig(cluster={"certificate-authority-data": EMPTY_CA}), "certificate-authority: no", id="no CA"
        ),
        pytest.param(
            a_kubeconfig(user={"client-certificate-data": EMPTY_CA, "client-key-data": EMPTY_CA}),
            "client-certificate and client-key do not load",
            id="client certificate is none",
        ),
        pytest.param(a_kubeconfig(user={"tokenFile": "/none/token"}), "/none/token", id="token file missing"),
        pytest.param(
            a_kubeconfig(
                user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/none/get-token"}}
            ),
            "'/none/get-token' gave no credentials; run it by hand",
            id="exec plug-in missing",
        ),
    ],
)
def test_a_bad_kubeconfig_is_explained_in_one_line(write: Callable[[Any], str], content: Any, words: str) -> None:
    path = write(content)
    with pytest.raises(ConfigError) as raised:
        load_endpoint(path)
    assert len(raised.value.problems) == 1
    line = raised.value.problems[0]
    assert words in line
    assert line.startswith(f"kubeconfig {path}: ")
    assert "\n" not in line


def test_an_unknown_context_is_explained_with_the_known_ones(write: Callable[[Any], str]) -> None:
    with pytest.raises(ConfigError, match="no entry named 'staging'; it has: dev, prod"):
        load_endpoint(write(a_kubeconfig()), context="staging")


def test_a_missing_kubeconfig_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: no such file; name an existing one with --kubeconfig"):
        load_endpoint(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("master", "words"),
    [
        pytest.param("10.0.0.1", "not a URL", id="no scheme"),
        pytest.param("ftp://h", "not a URL", id="another scheme"),
        pytest.param("https://h?insecure=true", "'insecure' is not known", id="TLS cannot be switched off here"),
    ],
)
def test_a_bad_address_is_explained(master: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_endpoint(master=master)


def test_outside_a_cluster_the_way_out_is_named() -> None:
    with pytest.raises(ConfigError, match=r"in-cluster configuration: .* name a kubeconfig file with --kubeconfig"):
        load_endpoint()


class TestExecPlugin:
    def plugin(self, tmp_path: Path, expires: str) -> dict[str, Any]:
        """A plug-in whose n-th answer is token-n."""
        script = tmp_path / "get-token"
        script.write_text(
            f"""#!/bin/sh
echo x >> {tmp_path}/calls
n=$(wc -l < {tmp_path}/calls)
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
"status": {{"token": "token-'$((n))'", "expirationTimestamp": "{expires}"}}}}'
"""
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}

    def test_is_asked_once_while_its_token_lasts(self, tmp_path: Path, write: Callable[[Any], str]) -> None:
        user = self.plugin(tmp_path, "2999-01-01T00:00:00Z")
        endpoint = load_endpoint(write(a_kubeconfig(user=user)))
        assert [endpoint.credentials.headers()["authorization"] for _ in range(3)] == ["Bearer token-1"] * 3

    def test_is_asked_again_when_its_token_expired(self, tmp_path: Path, write: Callable[[Any], str]) -> None:
        user = self.plugin(tmp_path, "2001-01-01T00:00:00Z")
        endpoint = load_endpoint(write(a_kubeconfig(user=user)))
        first, second = (endpoint.credentials.headers()["authorization"] for _ in range(2))
        assert first != second


def test_credentials_that_cannot_be_renewed_are_a_reason_to_retry() -> None:
    class Broken(Configuration):  # type: ignore[misc,unused-ignore]  # untyped in some versions
        def auth_settings(self) -> Any:
            raise OSError("token file vanished")

    with pytest.raises(RetryLater, match="credentials could not be renewed: token file vanished"):
        KubeconfigCredentials(Broken()).headers()


@pytest.fixture
def tls_api() -> Iterator[ScriptedApi]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with scripted_api(context) as api:
        yield api


def client_for(path: str) -> Client:
    clock = VirtualClock()
    return Client.connect(path, clock=clock, sleep=Sleeps(clock), settings=ClientSettings(user_agent="test"))


class TestTls:
    def test_a_server_of_the_clusters_own_ca_is_trusted(
        self, tls_api: ScriptedApi, write: Callable[[Any], str]
    ) -> None:
        ca = base64.b64encode((TLS / "certificate.pem").read_bytes()).decode()
        config = a_kubeconfig(tls_api.url, {"certificate-authority-data": ca}, {"token": "s3cret"})
        tls_api.script(f"GET {POD}", ok({"n": 1}))
        client = client_for(write(config))
        assert msgspec.json.decode(client.get(POD)) == {"n": 1}
        client.close()
        assert tls_api.asked[0].headers["authorization"] == "Bearer s3cret"

    def test_any_other_server_is_not_sent_anything(self, tls_api: ScriptedApi, write: Callable[[Any], str]) -> None:
        client = client_for(write(a_kubeconfig(tls_api.url, user={"token": "s3cret"})))
        with pytest.raises(RetryLater, match="certificate verify failed"):
            client.get(POD)
        client.close()
        assert tls_api.asked == []

    def test_a_server_of_another_name_is_refused(self, tls_api: ScriptedApi, write: Callable[[Any], str]) -> None:
        cluster = {"certificate-authority": str(TLS / "certificate.pem"), "tls-server-name": "api.example"}
        client = client_for(write(a_kubeconfig(tls_api.url, cluster)))
        with pytest.raises(RetryLater, match=r"hostname 'api\.example' doesn't match"):
            client.get(POD)
        client.close()

    def test_verification_that_is_switched_off_is_said_once(
        self, tls_api: ScriptedApi, write: Callable[[Any], str], caplog: pytest.LogCaptureFixture
    ) -> None:
        tls_api.script(f"GET {POD}", ok({}))
        client = client_for(write(a_kubeconfig(tls_api.url, {"insecure-skip-tls-verify": True})))
        client.get(POD)
        client.get(POD)
        client.close()
        assert caplog.text.count("kube.tls_not_verified") == 1

    def test_a_blocked_watch_is_woken(self, tls_api: ScriptedApi, write: Callable[[Any], str]) -> None:
        tls_api.script("GET /w", Reply(chunks=[b"{}\n"], held=True))
        client = client_for(write(a_kubeconfig(tls_api.url, {"certificate-authority": str(TLS / "certificate.pem")})))
        stream = client.watch("/w", {}, JSON, 600)
        read_until_aborted(stream)
        client.close()
