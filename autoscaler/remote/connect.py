"""Creates a remote expander from the configuration, or reports clearly why it cannot."""

import importlib.util
import ssl
from typing import TYPE_CHECKING

from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.remote.messages import AS_BYTES, AS_MESSAGES
from cloudprovider.file import read_file

if TYPE_CHECKING:
    from autoscaler.remote.client import GrpcExpanderClient

EXPANDER = "grpc"


def connect(config: Config) -> "GrpcExpanderClient | None":
    """Return the client for a valid configuration; None if it has no such expander. This contacts no server.

    Raises `ConfigError` with every problem: a missing extra, or unusable certificates.
    """
    options = config.scale_up
    if EXPANDER not in options.expander:
        return None
    assert options.grpc_expander_url is not None, "validation demands it"
    assert options.grpc_expander_cert is not None, "validation demands it"
    problems: list[str] = []
    if importlib.util.find_spec("grpc") is None:
        problems.append("expander: grpc needs the package grpcio; install it with pip install 'node-autoscaler[grpc]'")
    try:
        authorities = _certificates(options.grpc_expander_cert)
    except ConfigError as error:
        problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    from autoscaler.remote.client import GrpcExpanderClient

    form = AS_BYTES if config.rules.grpc_messages_as_bytes else AS_MESSAGES
    return GrpcExpanderClient(options.grpc_expander_url, authorities, form)


def _certificates(path: str) -> bytes:
    """Return the content of a PEM file; raises `ConfigError` with one line if it contains no certificate."""
    try:
        content = read_file(path)
    except ValueError as error:
        raise ConfigError(f"grpc-expander-cert: {path} {error}") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"grpc-expander-cert: {path} holds no PEM certificate") from error
    return content
