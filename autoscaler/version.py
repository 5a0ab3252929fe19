"""The version of the installed package. `setup.cfg` is the only place that states it."""

from importlib import metadata


def version() -> str:
    """Return the version, or `unknown` in a source tree that is not installed."""
    try:
        return metadata.version("node-autoscaler")
    except metadata.PackageNotFoundError:
        return "unknown"
