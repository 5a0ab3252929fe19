import sys
from pathlib import Path

import pytest

from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.remote.client import GrpcExpanderClient
from autoscaler.remote.connect import connect
from tests.unit.remote.server import TLS


def configured(certificate: Path) -> Config:
    return load(["--expander=grpc", "--grpc-expander-url=127.0.0.1:1", f"--grpc-expander-cert={certificate}"])


def problems_of(config: Config) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        connect(config)
    return raised.value.problems


def test_only_a_chain_with_grpc_in_it_needs_a_client() -> None:
    assert connect(Config()) is None


def test_a_client_is_made_without_contacting_anybody() -> None:
    client = connect(configured(TLS / "certificate.pem"))
    assert isinstance(client, GrpcExpanderClient)
    client.close()


def test_the_extra_to_install_is_named_beside_what_else_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    missing, unreadable = problems_of(configured(tmp_path / "none.pem"))
    assert "node-autoscaler[grpc]" in missing
    assert "none.pem cannot be read: No such file or directory" in unreadable


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_certificate_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    assert problems_of(configured(path)) == (f"grpc-expander-cert: {path} holds no PEM certificate",)
