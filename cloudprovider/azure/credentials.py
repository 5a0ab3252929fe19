"""Tokens for the resource manager, from `azure-identity`; its errors become those of the provider contract."""

import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol

from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.identity import (
    AzureCliCredential,
    CertificateCredential,
    ClientSecretCredential,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)

from cloudprovider.azure.settings import AzureCloud, Identity, Method
from cloudprovider.causes import causes
from cloudprovider.interface import Misconfigured, ProviderError, Throttled, Transient

_CONNECT_S, _READ_S = 5, 20
_RETRIES = 1
_RENEW_BEFORE_S = 300.0
_UNAUTHENTICATED = "UNAUTHENTICATED"
_UNREACHABLE = (ServiceRequestError, ServiceResponseError, ConnectionError, TimeoutError, socket.gaierror)
"""Errors that mean no answer came. `azure-identity` wraps them in an error that says that authentication failed."""


class Credential(Protocol):
    """The one method of an `azure-identity` credential that is used."""

    def get_token(self, *scopes: str) -> AccessToken:
        """Return a token; raises `AzureError`."""
        ...


class Tokens:
    """Bearer tokens, renewed before they expire. Safe from any thread."""

    def __init__(self, credential: Credential, scope: str, now: Callable[[], float]) -> None:
        self._credential = credential
        self._scope = scope
        self._now = now
        self._lock = threading.Lock()
        self._token: AccessToken | None = None

    def token(self) -> str:
        """Return a token that is valid for minutes; raises `Transient`, `Throttled` or `ProviderError`."""
        with self._lock:
            if self._token is None or self._now() > self._token.expires_on - _RENEW_BEFORE_S:
                self._token = _issued(self._credential, self._scope)
            return self._token.token

    def refused(self, token: str) -> None:
        """Forget a token that was rejected."""
        with self._lock:
            if self._token is not None and self._token.token == token:
                self._token = None


def tokens_for(identity: Identity, cloud: AzureCloud, now: Callable[[], float]) -> Tokens:
    """Return an identity's token source. Requests no token yet. `Misconfigured` for an unusable certificate."""
    try:
        credential = _credential(identity, cloud)
    except (ValueError, OSError) as error:
        raise Misconfigured(f"cloud-config: the {identity.method} cannot be used: {_line(error)}") from error
    return Tokens(credential, f"{cloud.resource_manager}/.default", now)


def _credential(identity: Identity, cloud: AzureCloud) -> Credential:
    limits: dict[str, Any] = {"connection_timeout": _CONNECT_S, "read_timeout": _READ_S, "retry_total": _RETRIES}
    tenant, client = identity.tenant_id, identity.client_id
    match identity.method:
        case Method.WORKLOAD_IDENTITY:
            return WorkloadIdentityCredential(
                tenant_id=tenant,
                client_id=client,
                token_file_path=identity.file,
                authority=cloud.login_host,
                **limits,
            )
        case Method.MANAGED_IDENTITY if client.startswith("/"):
            return ManagedIdentityCredential(identity_config={"resource_id": client}, **limits)
        case Method.MANAGED_IDENTITY:
            return ManagedIdentityCredential(client_id=client or None, **limits)
        case Method.CERTIFICATE:
            return CertificateCredential(
                tenant,
                client,
                identity.file,
                password=identity.secret or None,
                authority=cloud.login_host,
                **limits,
            )
        case Method.CLI:
            return AzureCliCredential(tenant_id=tenant, process_timeout=_READ_S)
        case Method.CLIENT_SECRET:
            return ClientSecretCredential(tenant, client, identity.secret, authority=cloud.login_host, **limits)


def _issued(credential: Credential, scope: str) -> AccessToken:
    try:
        return credential.get_token(scope)
    except ClientAuthenticationError as error:
        if any(isinstance(cause, _UNREACHABLE) for cause in causes(error)):
            raise Transient(f"no token from Microsoft Entra ID: {_line(error)}") from error
        raise ProviderError(f"no token from Microsoft Entra ID: {_line(error)}", _UNAUTHENTICATED) from error
    except HttpResponseError as error:
        text = f"no token from Microsoft Entra ID: {_line(error)}"
        if error.status_code == 429:
            raise Throttled(text) from error
        raise Transient(text) if (error.status_code or 500) >= 500 else ProviderError(text, _UNAUTHENTICATED) from error
    except AzureError as error:
        raise Transient(f"no token from Microsoft Entra ID: {_line(error)}") from error
    except (ValueError, OSError) as error:
        raise ProviderError(f"no token from Microsoft Entra ID: {_line(error)}", _UNAUTHENTICATED) from error


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
