"""Loads the address and credentials of the API server: kubeconfig, in-cluster configuration, tokens and TLS.

This is the only module that uses the official `kubernetes` package, and it uses only its configuration loaders.
Importing the package takes a third of a second, so this module is imported only to make a connection.
"""

import os
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import load_kube_config

from autoscaler.errors import ConfigError, RetryLater, one_line
from autoscaler.kube.config import RestConfig
from cloudprovider.document import parse_yaml
from cloudprovider.file import read_text

# The package has partial type annotations, which differ between versions.
_load_in_cluster: Callable[..., None] = load_incluster_config
_load_kube_config: Callable[..., None] = load_kube_config

_LOADING = (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError)


class KubeconfigCredentials:
    """The identity from a kubeconfig or a service account."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()  # the loaders' refresh hook changes the configuration in place

    def headers(self) -> dict[str, str]:
        """Return the authorization headers of one request.

        Raises `RetryLater` if a token cannot be renewed.
        """
        try:
            with self._lock:
                settings = self._configuration.auth_settings()
        except (ConfigException, OSError, ValueError) as error:
            raise RetryLater(f"credentials could not be renewed: {one_line(error)}") from error
        bearer: Any = settings.get("BearerToken")
        return {bearer["key"]: bearer["value"]} if bearer and bearer["value"] else {}


class _Master(msgspec.Struct, frozen=True):
    """The address flag, parsed: Cluster Autoscaler reads options from its query."""

    url: str
    in_cluster: bool = True
    kubeconfig: str | None = None


def load_endpoint(kubeconfig: str | None = None, master: str | None = None, context: str | None = None) -> RestConfig:
    """Find the API server: from the kubeconfig if one is named, otherwise from the pod's service account.

    `kubeconfig` is a path, or several joined as in `KUBECONFIG`. `master` overrides the server's address. As in Cluster
    Autoscaler, its query may contain `inClusterConfig=false` (no credentials) or `auth=KUBECONFIG`. Raises
    `ConfigError` with one line that names the file and field to fix.
    """
    address = _master(master) if master else None
    path = kubeconfig or (address.kubeconfig if address is not None else None)
    configuration = Configuration()
    if path:
        where = f"kubeconfig {path}"
        _load_kubeconfig(configuration, path, context, where)
    elif address is not None and not (address.in_cluster and address.url.startswith("https:")):
        # Never send a service-account token unencrypted.
        return RestConfig(address.url, tls=_tls(None, address.url, "API server address"))
    else:
        where = "in-cluster configuration"
        try:
            _load_in_cluster(client_configuration=configuration)
        except (ConfigException, OSError) as error:
            raise ConfigError(
                f"{where}: {one_line(error)}; outside a cluster name a kubeconfig file with --kubeconfig"
            ) from error
    url = address.url if address is not None else str(configuration.host)
    return RestConfig(
        url,
        KubeconfigCredentials(configuration),
        _tls(configuration, url, where),
        configuration.tls_server_name or None,
        _proxy(configuration, url),
    )


def namespace_of(kubeconfig: str, context: str | None = None) -> str:
    """Return the namespace in which a context, by default the current one, looks for pods. Raises `ConfigError`."""
    merged = _Kubeconfig(kubeconfig)
    entry = merged.named("contexts", context or merged.current_context, "context")
    return str(entry.get("namespace") or "default")


def user_of(kubeconfig: str, context: str | None = None) -> str:
    """Return the name of the user of a context, by default the current one; empty without any. Raises `ConfigError`."""
    merged = _Kubeconfig(kubeconfig)
    return str(merged.named("contexts", context or merged.current_context, "context").get("user") or "")


def _master(text: str) -> _Master:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"API server address {text!r} (--kubernetes): not a URL such as https://10.0.0.1:6443")
    query = parse_qs(parts.query)
    if unknown := sorted(set(query) - {"inClusterConfig", "auth"}):
        raise ConfigError(
            f"API server address {text!r} (--kubernetes): option {unknown[0]!r} is not known; "
            "known are inClusterConfig and auth"
        )
    return _Master(
        url=f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"),
        in_cluster=query.get("inClusterConfig", ["true"])[-1].lower() not in ("false", "0", "f"),
        kubeconfig=query.get("auth", [None])[-1],
    )


def _load_kubeconfig(configuration: Configuration, path: str, context: str | None, where: str) -> None:
    merged = _Kubeconfig(path)
    chosen = context or merged.current_context
    user = merged.check(chosen)
    try:
        # Never write it back: the file belongs to the user, and is often mounted read-only.
        _load_kube_config(path, context=chosen, client_configuration=configuration, persist_config=False)
    except _LOADING as error:
        raise ConfigError(f"{where}: context {chosen!r} cannot be used: {one_line(error)}") from error
    command = (user.get("exec") or {}).get("command")
    if command and "BearerToken" not in configuration.api_key and not configuration.cert_file:
        raise ConfigError(
            f"{where}: users[].user.exec: command {command!r} gave no credentials; run it by hand to see why"
        )


class _Kubeconfig:
    """The files of a kubeconfig, read only to report exactly what is wrong with them."""

    def __init__(self, path: str) -> None:
        self._where = f"kubeconfig {path}"
        existing = [
            file for file in (Path(part).expanduser() for part in path.split(os.pathsep) if part) if file.exists()
        ]
        if not existing:
            raise ConfigError(f"{self._where}: no such file; name an existing one with --kubeconfig")
        self._documents = [_read(file) for file in existing]

    @property
    def current_context(self) -> str:
        """The default context: that of the first file that names one."""
        for document in self._documents:
            if name := document.get("current-context"):
                return str(name)
        raise ConfigError(f"{self._where}: current-context is not set; set it with `kubectl config use-context NAME`")

    def check(self, context: str) -> Mapping[str, Any]:
        """Follow `context` to its cluster and user; return the user's entry."""
        entry = self.named("contexts", context, "context")
        cluster = self.named("clusters", self._field(entry, "cluster", f"context {context!r}"), "cluster")
        server = self._field(cluster, "server", f"the cluster of context {context!r}")
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{self._where}: cluster.server {server!r} is not an http or https URL")
        user = entry.get("user")
        return self.named("users", str(user), "user") if user else {}

    def _field(self, entry: Mapping[str, Any], field: str, owner: str) -> str:
        if not (value := entry.get(field)):
            raise ConfigError(f"{self._where}: {owner} has no {field!r}; add it")
        return str(value)

    def named(self, section: str, name: str, field: str) -> Mapping[str, Any]:
        """Return what an entry of a section holds in `field`, which says what the entry is."""
        names = []
        for entry in self._entries(section):
            if entry.get("name") == name:
                inner = entry.get(field) or {}
                if not isinstance(inner, dict):
                    raise ConfigError(f"{self._where}: {section}[name={name}].{field} is not a mapping")
                return inner
            names.append(str(entry.get("name")))
        have = ", ".join(names) if names else "none"
        raise ConfigError(f"{self._where}: {section} has no entry named {name!r}; it has: {have}")

    def _entries(self, section: str) -> Iterator[Mapping[str, Any]]:
        for document in self._documents:
            entries = document.get(section) or []
            if not isinstance(entries, list) or not all(isinstance(e, dict) and "name" in e for e in entries):
                raise ConfigError(f"{self._where}: {section} is not a list of named entries")
            yield from entries


def _read(path: Path) -> dict[str, Any]:
    where = f"kubeconfig {path}"
    try:
        text = read_text(str(path))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    try:
        document = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{where}: is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: is not a kubeconfig (it holds no mapping); write one with `kubectl config view`")
    return document


def _tls(configuration: Configuration | None, url: str, where: str) -> ssl.SSLContext | None:
    if not url.startswith("https:"):
        return None
    ca_file: str | None = configuration.ssl_ca_cert if configuration is not None else None
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{where}: certificate-authority: no usable certificate: {one_line(error)}") from error
    if configuration is None:
        return context
    # Cluster CAs often lack extensions that newer Pythons require; the chain is still verified.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if configuration.cert_file:
        try:
            context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{where}: client-certificate and client-key do not load: {one_line(error)}") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy(configuration: Configuration, url: str) -> str | None:
    proxy: str | None = configuration.proxy
    host = urlsplit(url).hostname or ""
    if not proxy or host in ("localhost", "::1") or host.startswith("127."):
        return None
    return None if _bypasses(host, (configuration.no_proxy or "").split(",")) else proxy


def _bypasses(host: str, rules: Sequence[str]) -> bool:
    suffixes = [rule.strip().lstrip(".").lower() for rule in rules if rule.strip()]
    return any(rule == "*" or host == rule or host.endswith(f".{rule}") for rule in suffixes)
