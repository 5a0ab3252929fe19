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
from cloudprovider.fields import Fields, Problems
from cloudprovider.file import read_pem

_TIMEOUT_S = 5.0


class Settings(msgspec.Struct, frozen=True):
    """Where the server is, and how to speak with it."""

    address: str
    timeout_s: float = _TIMEOUT_S
    key: bytes | None = None
    """PEM; None: the connection is not encrypted."""
    cert: bytes | None = None
    cacert: bytes | None = None

    @property
    def encrypted(self) -> bool:
        """Whether both sides show certificates."""
        return self.cert is not None


def read_settings(path: str) -> Settings:
    """Read the file and the certificates that it names; `Misconfigured` has a line for every problem."""
    return read_document(path, _decode)


def _decode(document: Any) -> Settings:
    problems = Problems()
    fields = Fields(document, "", problems)
    address = fields.text("address", required=True) or ""
    if fields.has("address") and not _is_address(address):
        fields.complain("address", f"{address!r} is not host:port")
    timeout_s = fields.duration_s("grpc_timeout")
    if timeout_s == 0:
        fields.complain("grpc_timeout", "must be above 0")
    names = ("key", "cert", "cacert")
    given = [name for name in names if fields.has(name)]
    found = {name: _pem(fields, name) for name in names}
    if given:
        for name in names:
            if name not in given:
                fields.complain(name, f"is required beside {' and '.join(given)}")
    fields.close()
    problems.raise_if_any()
    return Settings(address, timeout_s or _TIMEOUT_S, **found)


def _is_address(text: str) -> bool:
    try:
        return all(parse_address(text.rpartition("/")[2]))  # dns:///host:port is one too
    except ValueError:
        return False


def _pem(fields: Fields, name: str) -> bytes | None:
    path = fields.text(name)
    if not path:
        return None
    try:
        return read_pem(path)
    except ValueError as error:
        fields.complain(name, f"{path} {error}")
        return None
