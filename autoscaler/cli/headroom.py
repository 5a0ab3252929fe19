"""`autoscaler headroom`: checks pools of pause pods, plans changes to them, and removes them."""

import argparse
import sys

import msgspec

from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags, add_repeatable, daemon_config
from autoscaler.cli.lead_times import GivenLeads, add_lead
from autoscaler.cli.object_files import add_planner, add_validation, read_cluster
from autoscaler.clock import Instant, SystemClock
from autoscaler.config.headroom import Headroom, warnings
from autoscaler.config.load import load_file
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.headroom.answer import answers
from autoscaler.headroom.cleanup import clean_up
from autoscaler.headroom.objects import CurrentDeployment, read_deployment
from autoscaler.headroom.pods import ahead_of
from autoscaler.objects.meta import JsonObject
from autoscaler.observe.figures import count
from cloudprovider.number import parse_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `plan`, `validate` and `cleanup`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="plan|validate|cleanup")
    plan = add_planner(
        actions,
        "headroom",
        "print what the leader would do to each pool, without a cluster",
        "pods, nodes, deployments and boot times",
    )
    add_repeatable(plan, "--active", "POOL=N", "number of active pods, instead of the counted one", _count)
    add_lead(plan, "pool")
    output.add_output(plan)
    add_validation(actions, "headroom")
    cleanup = actions.add_parser(
        "cleanup",
        help="delete the Deployments and the PriorityClass of headroom; first stop the daemon or remove its section",
    )
    cleanup.add_argument("--pretend", action="store_true", help="print what would be deleted, and delete nothing")
    accept_flags(cleanup)


_LARGEST = 999_999_999


def _count(text: str) -> tuple[str, int]:
    pool, equals, number = text.partition("=")
    count = parse_count(number, _LARGEST)
    if not (pool and equals) or count is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not POOL=N")
    return pool, count


def run(args: argparse.Namespace) -> int:
    """Run the action; raises `ConfigError` for an unusable file."""
    if args.action == "cleanup":
        return _clean_up(daemon_config(args), pretend=args.pretend)
    config = load_file(args.file)
    headroom = _headroom(config, args.file)
    for warning in warnings(headroom):
        print(f"warning: {warning}", file=sys.stderr)
    if args.action == "validate":
        output.write(f"{args.file}: valid, {count(len(headroom.pools), 'pool')}")
        return 0
    unknown = [name for name, _ in args.active if name not in headroom.pool_names]
    if unknown:
        raise ConfigError(f"--active: there is no pool {name}" for name in unknown)
    wall = SystemClock().now().wall if args.now is None else args.now
    deployments: list[CurrentDeployment] = []

    def take(obj: JsonObject) -> None:
        if obj.get("kind") == "Deployment":
            deployments.append(read_deployment(obj))

    view, boots = read_cluster(args.objects, take)
    given = GivenLeads(args.lead, headroom.pool_names, boots, config, wall)
    leads = {pool.name: given.lead(pool.name, pool.lead_time_s, ahead_of(pool, headroom)) for pool in headroom.pools}
    pool_answers = answers(headroom, view, deployments, dict(args.active), leads, Instant(wall, 0.0))
    output.write_records([msgspec.to_builtins(answer) for answer in pool_answers], args.output, args.color)
    return 0


def _headroom(config: Config, path: str) -> Headroom:
    if config.headroom is None:
        raise ConfigError(f"{path}: has no headroom section")
    return config.headroom


def _clean_up(config: Config, *, pretend: bool) -> int:
    headroom = config.headroom or Headroom()
    gone = 0
    for name in clean_up(config, headroom, SystemClock(), pretend=pretend):
        gone += 1
        output.write(f"{name} {'would be deleted' if pretend else 'deleted'}")
    if not gone:
        output.write(f"nothing is there of clusterName {headroom.cluster_name or '(none)'}")
    return 0
