"""Command lines as Cluster Autoscaler reads them."""

from collections.abc import Iterable, Mapping, Sequence

from autoscaler.config.flags import flags
from autoscaler.config.settings import Settings, SettingsReader, find_flag
from cloudprovider.nearest import nearest


def parse_flags(argv: Sequence[str], options: Iterable[str] = ()) -> Settings:
    """Read `--flag value`, `--flag=value` and `-flag`; a switch takes its value only after `=`.

    Problems are collected, not raised: the caller adds those of other sources. `options` are others that may have been
    meant where a flag is unknown.
    """
    reading = SettingsReader()
    occurrences: dict[str, list[str]] = {}
    rest = list(reversed(argv))
    while rest:
        word = rest.pop()
        name, equals, value = word.lstrip("-").partition("=")
        dashes = len(word) - len(word.lstrip("-"))
        if not 1 <= dashes <= 2 or not name:
            reading.problem(f"{word}: is not a flag; write a switch as --flag=false, and values with spaces in quotes")
            continue
        flag = find_flag(name)
        if flag is None:
            known = [*options, *(f"--{flag}" for flag in flags())]
            reading.problem(f"{word[:dashes]}{name}: unknown flag{nearest(f'--{name}', known)}")
            if not equals and rest and not rest[-1].startswith("-"):
                rest.pop()  # most likely the value of the unknown flag: one mistake, one line
            continue
        if not equals and flag.is_switch:
            value = "true"
        elif not equals:
            if not rest:
                reading.problem(f"--{flag.name}: needs a value ({flag.unit})")
                continue
            value = rest.pop()
        occurrences.setdefault(flag.name, []).append(value)
    for name, texts in occurrences.items():
        reading.texts(flags()[name], f"--{name}", texts)
    return reading.settings()


def parse_environment(environ: Mapping[str, str]) -> Settings:
    """Read `AUTOSCALER_<FLAG>` variables, such as `AUTOSCALER_SCAN_INTERVAL`; others are none of our business."""
    reading = SettingsReader()
    for flag in flags().values():
        variable = "AUTOSCALER_" + flag.name.replace("-", "_").upper()
        if variable in environ:
            reading.texts(flag, f"${variable}", [environ[variable]])
    return reading.settings()
