"""Provider ids: `azure://` and the resource id of a machine, with the name of its resource group in lower case.

Azure writes names in whatever case it likes, so ids are compared by their `key`.
"""

import re

import msgspec

_PREFIX = "azure://"
_GROUP = re.compile(r"(/subscriptions/[^/]+/resourceGroups/)([^/]+)(/.*)", re.IGNORECASE)
_OF_SCALE_SET = re.compile(
    r"azure:///subscriptions/(?P<subscription>[^/]+)/resourcegroups/(?P<group>[^/]+)"
    r"/providers/microsoft\.compute/virtualmachinescalesets/(?P<name>[^/]+)"
    r"/(?:virtualmachines|unfulfilled)/[^/]+"
)


class Owner(msgspec.Struct, frozen=True):
    """A scale set as a provider id names it, in lower case."""

    subscription: str
    resource_group: str
    name: str


def provider_id(resource_id: str) -> str:
    """Return the provider id of a machine, which equals `spec.providerID` of its node."""
    match = _GROUP.fullmatch(resource_id)
    return _PREFIX + (f"{match[1]}{match[2].lower()}{match[3]}" if match else resource_id)


def key(provider_id: str) -> str:
    """Return the key that provider ids are compared by."""
    return provider_id.lower()


def owner_of(key: str) -> Owner | None:
    """Return the scale set that a key names; None for anything else, such as machines of flexible scale sets."""
    match = _OF_SCALE_SET.fullmatch(key)
    return Owner(match["subscription"], match["group"], match["name"]) if match else None


def unfulfilled(scale_set_id: str, since: float, number: int) -> str:
    """Return the id of a failed request. The time keeps it apart from later failures."""
    return f"{provider_id(scale_set_id)}/unfulfilled/{int(since)}-{number}"


def instance_id(provider_id: str) -> str:
    """Return the instance id of a machine in Azure's calls on a scale set."""
    return provider_id.rpartition("/")[2]
