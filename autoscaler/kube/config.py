"""The address of an API server, and the credentials for it."""

import ssl
from typing import Protocol


class Credentials(Protocol):
    """Identifies us to the server; renews short-lived tokens on use."""

    def headers(self) -> dict[str, str]:
        """Return the authorization headers of one request; raises `RetryLater` if a token cannot be renewed."""
        ...


class Anonymous:
    """No credentials."""

    def headers(self) -> dict[str, str]:
        """Return no headers."""
        return {}


class RestConfig:
    """An API server and how to reach it: base URL, TLS settings, proxy and credentials."""

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        tls_server_name: str | None = None,
        proxy: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.credentials = credentials if credentials is not None else Anonymous()
        self.tls = tls
        self.tls_server_name = tls_server_name
        self.proxy = proxy

    @property
    def verified(self) -> bool:
        """Whether the server must prove its identity; a kubeconfig may switch that off."""
        return self.tls is None or self.tls.verify_mode is ssl.CERT_REQUIRED
