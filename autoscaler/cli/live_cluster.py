"""Reads a live cluster for offline commands: each object once, without any write."""

from collections.abc import Sequence

from autoscaler.cli.progress import progress
from autoscaler.clock import SystemClock, ThreadExecutor
from autoscaler.config.flags import flags, value_of
from autoscaler.config.tree import Config
from autoscaler.errors import Gone, Refused
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.listing import read_all
from autoscaler.kube.watch import NAME_FIELD
from autoscaler.scenario.dump import CONFIG_MAP, Dump, DumpText, read_dump
from autoscaler.scenario.kinds import KINDS
from autoscaler.scenario.scenario import PRIORITY_CONFIG

_INDISPENSABLE = ("Node", "Pod")


def read_live(config: Config, clock: SystemClock, context: str | None = None) -> Dump:
    """Read a cluster with get and list only. A kind that the user may not read is left out, with a warning.

    `context` is a context of the kubeconfig, by default the current one.
    """
    executor = ThreadExecutor(1)
    settings = ClientSettings(config.provider.user_agent, 0.0)
    client = Client.connect(
        config.kube.kubeconfig, config.kube.kubernetes, context, clock=clock, sleep=executor.sleep, settings=settings
    )
    known = flags()
    paths = [
        (kind, versions)
        for kind, dumped in KINDS.items()
        if not dumped.features or any(value_of(config, known[flag]) for flag in dumped.features)
        for versions in dumped.collections
    ]
    if "priority" in config.scale_up.expander:
        paths.append((CONFIG_MAP, (f"/api/v1/namespaces/{config.kube.namespace}/configmaps/{PRIORITY_CONFIG}",)))
    texts: list[DumpText] = []
    missing: list[str] = []
    try:
        with progress("reading") as bar:
            for done, (kind, versions) in enumerate(paths):
                bar(done, len(paths))
                try:
                    texts.extend(_read_kind(client, versions))
                except (Refused, Gone) as error:
                    if kind in _INDISPENSABLE:
                        raise
                    if isinstance(error, Gone) and kind in KINDS and versions[0] in KINDS[kind].other_paths:
                        continue
                    missing.append(f"{kind} objects cannot be read and are left out: {error}")
        try:
            texts.extend(_read_pauses(client, config))
        except (Refused, Gone) as error:
            missing.append(f"pauses cannot be read and are left out: {error}")
    finally:
        client.close()
        executor.stop()
    dump = read_dump(texts)
    dump.warnings.extend(missing)
    return dump


def _read_pauses(client: Client, config: Config) -> list[DumpText]:
    """Read the ConfigMap of pauses, if there is one, with the permission to list it by its name."""
    path = f"/api/v1/namespaces/{config.kube.namespace}/configmaps"
    selection = {"fieldSelector": f"{NAME_FIELD}{config.observe.pause_config_map_name}"}
    return [DumpText(path, body) for body in read_all(client, path, selection)]


def _read_kind(client: Client, versions: Sequence[str]) -> list[DumpText]:
    """Read a collection in the first of these versions that the API server serves.

    Raises `Refused`, and `Gone` for a kind with one version. A kind with several versions is new and may be absent.
    """
    for path in versions:
        try:
            return [DumpText(path, body) for body in read_all(client, path)]
        except Gone:
            if len(versions) == 1:
                raise
    return []
