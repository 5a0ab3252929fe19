"""The address of an API server, and the credentials for it."""

import ssl
from typing import Protocol


class Credentials(Protocol):
    """Says who we are; short-lived tokens are renewed when they are asked for."""

    def headers(self) -> dict[str, str]:
        """Return the authorization headers of one request; raises `RetryLater` when a token cannot be renewed."""
        ...


class Anonymous:
    """Credentials of nobody."""

    def headers(self) -> dict[str, str]:
        """Return no headers."""
        return {}


class RestConfig:
    """An API server to talk to: base URL, TLS settings, proxy and credentials."""

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
        """Whether the server has to prove its identity; a kubeconfig may say that it need not."""
        return self.tls is None or self.tls.verify_mode is ssl.CERT_REQUIRED
