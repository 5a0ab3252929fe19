"""The status page and the JSON API over HTTP, at a few sizes of the cluster."""

import argparse
import http.client
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from autoscaler.clock import SystemClock
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.http.openapi import about_daemon, with_document
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.status_board import StatusBoard
from benchmarks.measure import Row, seconds_of, show
from tests.shown_cluster import sample_blocks, sample_status

_COMPANIONS = 30
"""Pools of headroom, targets of reservations, and groups whose boots are known."""

URLS = ("/status", "/status?all=1", "/api/v1/status", "/api/v1/nodes", "/api/v1/nodes?limit=10000", "/api/v1/pods")


def rows(nodes: int, pods: int) -> list[Row]:
    with served(nodes, pods) as connection:
        sizes = {url: len(ask(connection, url)) for url in URLS}
        return [timed(connection, url, nodes, size) for url, size in sizes.items()]


def timed(connection: http.client.HTTPConnection, url: str, nodes: int, size: int) -> Row:
    seconds = seconds_of(partial(ask, connection, url), repeat=5)
    return Row(f"GET {url}", nodes, "nodes", seconds, note=f"{size:,} bytes")


@contextmanager
def served(nodes: int, pods: int) -> Iterator[http.client.HTTPConnection]:
    """A connection to a server that shows a cluster of this size."""
    clock, status = SystemClock(), sample_status(nodes, pods)
    board = StatusBoard(status.process)
    board.publish(status)
    health = HealthCheck(StuckLimits(600, 900), clock.now())
    routes = with_document(read_routes(board, Metrics(), health, clock, sample_blocks(_COMPANIONS)), about_daemon("0"))
    server = WebServer("127.0.0.1:0", routes, clock)
    server.start()
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
            yield connection
    finally:
        server.stop()


def ask(connection: http.client.HTTPConnection, url: str) -> bytes:
    connection.request("GET", url)
    return connection.getresponse().read()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.page", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--pods", type=int, default=1_000, help="pods without a node")
    sizes = parser.parse_args(argv)
    nodes: Sequence[int] = sizes.nodes
    for count in nodes:
        show(f"Status page of {count:,} nodes", rows(count, sizes.pods))


if __name__ == "__main__":
    main()
