"""What `autoscaler pause` and `autoscaler resume` share: the cluster, and the ConfigMap of pauses in it."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autoscaler.cli.arguments import accept_flags, add_repeatable, daemon_config
from autoscaler.clock import SystemClock, ThreadExecutor

if TYPE_CHECKING:
    from autoscaler.actuation.pause_map import ClusterPauseMap


class PauseTarget(msgspec.Struct, frozen=True):
    """The pauses of one autoscaler, from the outside."""

    pauses: "ClusterPauseMap"
    user: str
    """Who runs the command; the kubeconfig's name if the API server does not say."""
    groups: tuple[str, ...]
    """Node groups of the autoscaler; none if they are not known."""


def add_target_arguments(parser: argparse.ArgumentParser, group_help: str) -> None:
    """Declare the groups and the cluster; Cluster Autoscaler's flags are accepted too."""
    add_repeatable(parser, "--group", "GROUP", group_help)
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    accept_flags(parser)
    parser.epilog = (
        "The cluster is that of --kubeconfig (default: $KUBECONFIG, then ~/.kube/config). --namespace and "
        "--pause-config-map-name are the autoscaler's own flags; give them if it does."
    )


@contextmanager
def pause_target(args: argparse.Namespace) -> Iterator[PauseTarget]:
    """Reach the cluster; raises `ConfigError` for what is wrong with the arguments, and `AutoscalerError`."""
    from autoscaler.actuation.pause_map import ClusterPauseMap
    from autoscaler.kube.client import Client, ClientSettings
    from autoscaler.kube.kubeconfig import user_of

    config, clock, executor = daemon_config(args), SystemClock(), ThreadExecutor(1)
    default = Path.home() / ".kube" / "config"
    kubeconfig = config.kube.kubeconfig or os.environ.get("KUBECONFIG") or (str(default) if default.exists() else None)
    settings = ClientSettings(config.provider.user_agent, 0.0)
    client = Client.connect(
        kubeconfig, config.kube.kubernetes, args.context, clock=clock, sleep=executor.sleep, settings=settings
    )
    observe, namespace = config.observe, config.kube.namespace
    try:
        pauses = ClusterPauseMap(client, clock, executor.sleep, namespace, observe.pause_config_map_name)
        user = pauses.user() or (user_of(kubeconfig, args.context) if kubeconfig else "")
        groups = pauses.group_ids(observe.status_config_map_name) if args.group else ()
        yield PauseTarget(pauses, user, tuple(groups))
    finally:
        client.close()
        executor.stop()
