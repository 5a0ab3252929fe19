"""Configuration as data: the configuration file, and the options of a scenario."""

from collections.abc import Mapping
from typing import Any

from autoscaler.config.flags import Flag, flags, value_of
from autoscaler.config.presets import defaults_of
from autoscaler.config.settings import Settings, SettingsReader, find_flag
from autoscaler.config.tree import Config
from cloudprovider.document import parse_yaml
from cloudprovider.nearest import nearest

SECTIONS = ("headroom", "reservations")
"""Groups of a file that are trees of their own; the rest are flags."""


def parse_document(text: str, name: str) -> Settings:
    """Read a configuration file: groups of camelCase keys; `name` is for messages."""
    reading = SettingsReader()
    try:
        tree = parse_yaml(text)
    except ValueError as error:
        reading.problem(f"{name}: is not YAML: {error}")
        return reading.settings()
    if tree is not None and not isinstance(tree, dict):
        reading.problem(f"{name}: holds no groups; write for example `loop: {{scanInterval: 10s}}`")
        return reading.settings()
    by_key = {flag.key: flag for flag in flags().values() if flag.name != "config"}
    groups = {key.partition(".")[0] for key in by_key}
    for group, content in (tree or {}).items():
        if f"{group}" in by_key:
            _read_key(reading, by_key, f"{group}", content, name)
        elif group in SECTIONS:
            reading.section(group, content)
        elif f"{group}" not in groups:
            reading.problem(f"{name}: {group}: unknown key{nearest(f'{group}', {*groups, *SECTIONS})}")
        elif content is None:
            continue  # a group whose keys are all commented out
        elif not isinstance(content, dict):
            reading.problem(f"{name}: {group}: is not a group of keys")
        else:
            for key, value in content.items():
                _read_key(reading, by_key, f"{group}.{key}", value, name)
    return reading.settings()


def _read_key(reading: SettingsReader, by_key: Mapping[str, Flag], key: str, value: object, name: str) -> None:
    flag = by_key.get(key)
    if flag is None:
        reading.problem(f"{name}: {key}: unknown key{nearest(key, by_key)}")
    else:
        reading.data(flag, f"{name}: {key}", value)


def parse_options(options: Mapping[str, Any]) -> Settings:
    """Read flags by name, as a scenario's `options` have them; a list is a repeated flag."""
    reading = SettingsReader()
    for name, value in options.items():
        flag = find_flag(name)
        if flag is None:
            reading.problem(f"options.{name}: unknown flag{nearest(name, flags())}")
        elif flag.name == "config":
            reading.problem(f"options.{name}: a scenario reads no file; write its options here")
        else:
            reading.data(flag, f"options.{name}", value)
    return reading.settings()


def to_options(config: Config) -> dict[str, str | list[str]]:
    """Return the flags that reproduce a configuration, as a scenario's `options` have them.

    The rules follow from `compatibility`. What is the default under that preset is left out.
    """
    preset = defaults_of(config.source.compatibility, config.scale_down.scale_down_profile)
    return {
        flag.name: _shown(flag, value)
        for flag in flags().values()
        if flag.name != "config" and (value := value_of(config, flag)) != preset.get(flag.name, flag.default)
    }


def _shown(flag: Flag, value: Any) -> str | list[str]:
    if flag.syntax.repeated:
        return [flag.show((item,)) for item in value]
    return flag.show(value)
