"""Formats metrics as text, in Prometheus' format 0.0.4.

The client library's own writer ends every counter's name in `_total` and adds `_created` series; Cluster Autoscaler
has counters that end otherwise and no such series, so the text is written here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_number: Callable[[float], str] = floatToGoString


class PlainCounter(Collector):
    """A counter whose exact name is kept, without an added suffix."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self._values = Gauge(name, help_text, labels, registry=None)

    def inc(self, amount: float, *labels: str) -> None:
        """Increase the counter; raises for negative amounts."""
        if amount < 0:
            raise ValueError(f"counters only grow: {amount}")
        (self._values.labels(*labels) if labels else self._values).inc(amount)

    def collect(self) -> Iterable[Metric]:
        """Return the series as a counter."""
        for family in self._values.collect():
            counter = Metric(family.name, family.documentation, "counter")
            counter.samples = family.samples
            yield counter


def exposition(families: Iterable[Metric]) -> bytes:
    """Return families as text; those without series are left out."""
    return "".join(line for family in families for line in _family(family)).encode()


def _family(family: Metric) -> Iterator[str]:
    samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    if not samples:
        return
    name = samples[0].name if family.type == "counter" else family.name
    kind = {"unknown": "untyped", "info": "gauge"}.get(family.type, family.type)
    yield f"# HELP {name} {_escaped(family.documentation)}\n"
    yield f"# TYPE {name} {kind}\n"
    for sample in samples:
        yield f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
