"""A kubeconfig file for one server."""

import base64
import os
from pathlib import Path

import yaml

_NAME = "sandbox"


def write(path: Path, url: str, *, token: str | None, ca: Path | None) -> None:
    """Write a kubeconfig with one context; the file is readable by its owner only, since it may hold a token."""
    cluster: dict[str, str] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(content, file, sort_keys=False)
