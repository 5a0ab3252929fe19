"""`autoscaler explain`: says why a pod, node or node group stays as it is, and what would change that.

It asks a running daemon first, because the daemon knows what it decided. Without a daemon, it plans for the cluster or
a file.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from autoscaler import logs
from autoscaler.cli import output, sources
from autoscaler.cli.arguments import accept_flags, daemon_config
from autoscaler.cli.explanation_text import explanation_text
from autoscaler.cli.output import OutputFormat
from autoscaler.clock import SystemClock, ThreadExecutor
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError, ConfigError
from autoscaler.explain.answer import PlanExplanation

if TYPE_CHECKING:
    from autoscaler.explain.explain import ExplainTarget

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "node": "node",
    "nodes": "node",
    "no": "node",
    "group": "group",
    "groups": "group",
}
_DAEMON_NAMESPACE = "kube-system"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the targets and the sources of the answer; Cluster Autoscaler's flags are accepted too."""
    parser.add_argument(
        "target",
        nargs="+",
        metavar="TARGET",
        help="pod/NAMESPACE/NAME, pod/NAME, node/NAME or group/ID; or a kind and names, as in: pod web-1 web-2",
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="namespace of the pods (default: that of the context)"
    )
    parser.add_argument("--daemon", metavar="URL", help="ask the daemon at this address, such as http://127.0.0.1:8085")
    parser.add_argument(
        "--daemon-namespace",
        default=_DAEMON_NAMESPACE,
        metavar="NAMESPACE",
        help=f"namespace of the daemon that is asked through the API server (default: {_DAEMON_NAMESPACE})",
    )
    parser.add_argument("--scenario", metavar="FILE", help="explain the last run of a scenario file instead")
    sources.add_objects_argument(parser)
    sources.add_dump_arguments(parser)
    output.add_output(parser)
    accept_flags(parser)
    parser.epilog = (
        "Without --daemon, --scenario and --objects: the daemon in the cluster of --kubeconfig (default: $KUBECONFIG, "
        "then ~/.kube/config) answers through the API server's proxy. If none does, or it has not seen what is asked "
        "for, the command reads the cluster and plans for it, with Cluster Autoscaler's flags. It writes nothing."
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation. Raises `ConfigError` if a target does not exist, and `AutoscalerError` if no daemon
    answers.
    """
    logs.silence()
    config = daemon_config(args)
    if args.scenario or args.objects:
        explanation = _planned(args, _targets(args.target, args.namespace or "default"))
    elif args.daemon:
        explanation = _asked(args.daemon, _targets(args.target, args.namespace or "default"))
    else:
        explanation = _of_cluster(args, config)
    if args.output is OutputFormat.TABLE:
        output.show(explanation_text(explanation), args.color)
    else:
        output.write(output.to_text(explanation, args.output, compact=True))
    return 0


def _targets(typed: Sequence[str], namespace: str) -> Sequence["ExplainTarget"]:
    """Read targets in the syntax of `kubectl`; raises `ConfigError` that names every invalid word."""
    from autoscaler.explain.explain import parse_targets  # imports all remedies, which completion does not need

    kind, *names = typed
    if "/" not in kind and names:
        typed = [f"{kind}/{name}" for name in names]
    return parse_targets(_whole(word, namespace) for word in typed)


def _whole(word: str, namespace: str) -> str:
    typed, slash, name = word.partition("/")
    kind = _KINDS.get(typed)
    if kind is None or not slash:
        return word
    return f"{kind}/{namespace}/{name}" if kind == "pod" and "/" not in name else f"{kind}/{name}"


def _planned(args: argparse.Namespace, targets: Sequence["ExplainTarget"]) -> PlanExplanation:
    from autoscaler.cli.plan_text import import_notes
    from autoscaler.simulator.play import play_and_explain

    if args.scenario:
        return play_and_explain(sources.scenario_at(args.scenario, args.flags), targets)
    imported = sources.imported(args)
    output.show(import_notes(imported), args.color, sys.stderr)
    return play_and_explain(imported.scenario, targets)


def _asked(url: str, targets: Sequence["ExplainTarget"]) -> PlanExplanation:
    import ssl

    from autoscaler.cli.running_daemon import Place, ask, check
    from autoscaler.kube.client import Client, ClientSettings
    from autoscaler.kube.config import RestConfig

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise ConfigError(f"--daemon: {url!r} is not a URL such as http://127.0.0.1:8085")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    executor = ThreadExecutor(1)
    client = Client(RestConfig(url, tls=tls), SystemClock(), executor.sleep, ClientSettings(server_name="the daemon"))
    try:
        check(client, Place(url))
        return ask(client, Place(url), targets)
    finally:
        client.close()
        executor.stop()


def _of_cluster(args: argparse.Namespace, config: Config) -> PlanExplanation:
    from autoscaler.cli.running_daemon import ask_any, places_in
    from autoscaler.kube.client import Client, ClientSettings
    from autoscaler.kube.kubeconfig import namespace_of

    kubeconfig = config.kube.kubeconfig or os.environ.get("KUBECONFIG") or _default_kubeconfig()
    namespace = args.namespace or (namespace_of(kubeconfig, args.context) if kubeconfig else "default")
    targets = _targets(args.target, namespace)
    executor = ThreadExecutor(1)
    settings = ClientSettings(config.provider.user_agent, 0.0)
    client = Client.connect(
        kubeconfig,
        config.kube.kubernetes,
        args.context,
        clock=SystemClock(),
        sleep=executor.sleep,
        settings=settings,
    )
    try:
        places = places_in(client, args.daemon_namespace)
        try:
            explanation = ask_any(client, places, targets)
            output.write(f"the autoscaler {explanation.name} answers", sys.stderr)
            return explanation
        except AutoscalerError as error:
            why = "; ".join(str(error).splitlines())
            output.write(f"{why}; reading the cluster instead", sys.stderr)
    finally:
        client.close()
        executor.stop()
    kube_flags = {"kubeconfig": kubeconfig, "namespace": args.daemon_namespace}
    args.flags = [*args.flags, *(f"--{name}={value}" for name, value in kube_flags.items() if value)]
    return _planned(args, targets)


def _default_kubeconfig() -> str | None:
    path = Path.home() / ".kube" / "config"
    return str(path) if path.exists() else None
