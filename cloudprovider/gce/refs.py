"""Names of Compute Engine resources, parsed from URLs and provider ids."""

import re
from typing import Self

import msgspec

ID_ROOT = "https://www.googleapis.com/compute/v1/"
"""What group ids begin with, as Cluster Autoscaler forms them."""
_NAME = r"([^/?#]+)"
_GROUP = re.compile(rf"(?:https://.*/)?projects/{_NAME}/(zones|regions)/{_NAME}/instanceGroup(?:Manager)?s/{_NAME}")
_INSTANCE = re.compile(rf"(?:https://.*/)?projects/{_NAME}/zones/{_NAME}/instances/{_NAME}")
_TEMPLATE = re.compile(rf"(?:https://.*/)?(projects/{_NAME}/(?:global|regions/{_NAME})/instanceTemplates/{_NAME})")
_PROVIDER_ID = re.compile(r"gce://([^/]+)/([^/]+)/([^/]+)")


class Place(msgspec.Struct, frozen=True, order=True):
    """A zone or a region of a project."""

    project: str
    name: str
    regional: bool = False

    @property
    def path(self) -> str:
        """Path of the place below the API's root."""
        return f"projects/{self.project}/{'regions' if self.regional else 'zones'}/{self.name}"

    @property
    def region(self) -> str:
        """The region that the place is or lies in."""
        return self.name if self.regional else region_of(self.name)


class GroupRef(msgspec.Struct, frozen=True, order=True):
    """A managed instance group."""

    place: Place
    name: str

    @property
    def path(self) -> str:
        """Path of its manager below the API's root."""
        return f"{self.place.path}/instanceGroupManagers/{self.name}"

    @property
    def id(self) -> str:
        """The group's id: the URL of its instance group."""
        return f"{ID_ROOT}{self.place.path}/instanceGroups/{self.name}"

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """Read the URL or the path of an instance group or its manager; None where it is neither."""
        match = _GROUP.fullmatch(url)
        if match is None:
            return None
        project, kind, place, name = match.groups()
        return cls(Place(project, place, kind == "regions"), name)


def region_of(zone: str) -> str:
    """Return the region that a zone is in."""
    return zone.rpartition("-")[0]


def last_part(url: str) -> str:
    """Return the name that a URL ends with."""
    return url.rpartition("/")[2]


def provider_id_of(instance_url: str) -> str | None:
    """Return the `spec.providerID` of the node on an instance; None where the URL is not one of an instance."""
    match = _INSTANCE.fullmatch(instance_url)
    return None if match is None else "gce://{}/{}/{}".format(*match.groups())


def instance_path(provider_id: str) -> str | None:
    """Return the path of the instance below the API's root; None where this is no provider id of Compute Engine."""
    match = _PROVIDER_ID.fullmatch(provider_id)
    return None if match is None else "projects/{}/zones/{}/instances/{}".format(*match.groups())


def template_path(url: str) -> str | None:
    """Return the path of a global or regional instance template below the API's root."""
    match = _TEMPLATE.fullmatch(url)
    return None if match is None else match[1]
