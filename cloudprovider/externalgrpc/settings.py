"""The configuration file of an external gRPC provider, as Cluster Autoscaler's reads it.

address: cloud.kube-system.svc:8086   # host:port
key: /etc/ssl/client/tls.key          # without key and cert the connection is not encrypted
cert: /etc/ssl/client/tls.crt
cacert: /etc/ssl/ca/ca.crt
grpc_timeout: 5s                      # of each call
"""

from typing import Any

import msgspec

from cloudprovider.address import parse_address
from cloudprovider.document import read_document
from cloudprovider.file import read_pem
from cloudprovider.problems import Problems
from cloudprovider.structure import Seconds, Strict, StructReader

_TIMEOUT_S = 5.0


class Settings(msgspec.Struct, frozen=True):
    """The server's address and the connection settings."""

    address: str
    timeout_s: float = _TIMEOUT_S
    key: bytes | None = None
    """PEM; None: the connection is not encrypted."""
    cert: bytes | None = None
    cacert: bytes | None = None

    @property
    def encrypted(self) -> bool:
        """Whether both sides present certificates."""
        return self.cert is not None


def read_settings(path: str) -> Settings:
    """Read the file and the certificates that it names; `Misconfigured` has a line for every problem."""
    return read_document(path, _decode)


class _File(Strict, frozen=True, kw_only=True):
    address: str
    grpc_timeout: Seconds = msgspec.field(default=_TIMEOUT_S, name="grpc_timeout")
    key: str = ""
    cert: str = ""
    cacert: str = ""


def _decode(document: Any) -> Settings:
    problems = Problems()
    fields = StructReader(problems).fields(_File, document)
    file = _File(**{"address": "", **fields})
    if "address" in fields and not _is_address(file.address):
        problems.add("address", f"{file.address!r} is not host:port")
    if file.grpc_timeout == 0:
        problems.add("grpc_timeout", "must be above 0")
    paths = {"key": file.key, "cert": file.cert, "cacert": file.cacert}
    given = [name for name in paths if name in fields]
    for name in paths if given else ():
        if name not in given:
            problems.add(name, f"is required beside {' and '.join(given)}")
    contents = {name: _pem(name, path, problems) for name, path in paths.items()}
    problems.raise_if_any()
    return Settings(file.address, file.grpc_timeout, **contents)


def _is_address(text: str) -> bool:
    try:
        return all(parse_address(text.rpartition("/")[2]))  # dns:///host:port is one too
    except ValueError:
        return False


def _pem(name: str, path: str, problems: Problems) -> bytes | None:
    if not path:
        return None
    try:
        return read_pem(path)
    except ValueError as error:
        problems.add(name, f"{path} {error}")
        return None
