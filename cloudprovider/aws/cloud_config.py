"""Reads the endpoints from the INI file of the AWS cloud provider (`--cloud-config`)."""

import configparser
from collections.abc import Mapping

import msgspec

from cloudprovider.file import read_text
from cloudprovider.interface import Misconfigured
from cloudprovider.problems import Problems

_SERVICES = ("autoscaling", "ec2", "eks", "sqs")
_KEYS = ("service", "region", "url", "signingregion", "signingmethod", "signingname")


class Endpoint(msgspec.Struct, frozen=True):
    """A non-default address of a service in one region."""

    url: str
    signing_region: str


Endpoints = Mapping[tuple[str, str], Endpoint]
"""By service and region."""


def read_cloud_config(path: str) -> Endpoints:
    """Return the `[ServiceOverride "..."]` sections; `[Global]` is the cloud controller's and ignored here.

    Raises `Misconfigured` with a line for every problem.
    """
    problems = Problems()
    endpoints: dict[tuple[str, str], Endpoint] = {}
    for name, section in _sections(path).items():
        kind = name.split(maxsplit=1)[0].lower() if name.strip() else name
        if kind == "serviceoverride":
            _override(f"{path}: [{name}]", section, endpoints, problems)
        elif kind != "global":
            problems.add(f"{path}: [{name}]", "is neither [Global] nor [ServiceOverride]")
    problems.raise_if_any()
    return endpoints


def _sections(path: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(
        interpolation=None, allow_no_value=True, inline_comment_prefixes=(";", "#"), default_section="\0", strict=False
    )
    try:
        text = read_text(path)
        # Indentation means nothing in this dialect, whereas here it would continue a value.
        parser.read_string("\n".join(line.strip() for line in text.splitlines()), source=path)
    except (ValueError, configparser.Error) as error:
        raise Misconfigured(f"{path}: {' '.join(str(error).split())}") from error
    return {
        name: {key: (value or "").strip().strip('"') for key, value in parser[name].items()}
        for name in parser.sections()
    }


def _override(
    where: str, section: Mapping[str, str], endpoints: dict[tuple[str, str], Endpoint], problems: Problems
) -> None:
    for key in section.keys() - set(_KEYS):
        problems.add(where, f"{key} is not a known key")
    missing = [key for key in _KEYS[:4] if not section.get(key)]
    for key in missing:
        problems.add(where, f"{key} is missing")
    if missing:
        return
    service, region = section["service"], section["region"]
    if section.get("signingmethod", "v4") not in ("", "v4") or section.get("signingname", "") not in ("", service):
        problems.add(where, "only signing method v4 and the service's own signing name are supported")
    if (service, region) in endpoints:
        problems.add(where, f"{service} in {region} is given twice")
    if service in _SERVICES:
        endpoints[service, region] = Endpoint(section["url"], section["signingregion"])
