"""Room for a `World` to keep: headroom and reservations, and announcements as the listener would get them."""

import json
from collections.abc import Mapping

from autoscaler.objects.meta import JsonObject
from autoscaler.observe.http.routing import Request, match_route, route
from autoscaler.reservations.api import ReservationApi
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.signature import sign
from autoscaler.simulator.world import World

SECRET = b"a-secret-for-tests"

OFFICE = {"name": "office", "periods": ["* 8-17 * * *"], "idleCount": 3, "scaleFactor": "0.1", "idleTime": "10m"}
POOL = {
    "name": "app",
    "namespace": "default",
    "resources": {"cpu": "1", "memory": "256Mi"},
    "active": {"selector": "app=app"},
    "policies": [{"name": "base", "idleCount": 1}, OFFICE],
}
TARGET = {
    "name": "jobs",
    "podTemplate": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
    "podSelector": "app,app!=app",
}
ROOM: Mapping[str, JsonObject] = {
    "headroom": {"pools": [POOL]},
    "reservations": {
        "store": {"namespace": "kube-system"},
        "auth": {"apiSecrets": [{"file": "/etc/reservations/api"}]},
        "targets": [TARGET],
    },
}
"""Headroom and reservations, both in order."""


def post(world: World, target: str, secret: bytes = SECRET) -> int:
    """Announce one pod of a target, and return the status of the answer: 503, for nothing is stored within no time."""
    assert world.replica is not None
    service = world.replica.companion_set.reservations
    assert service is not None
    metrics = ReservationMetrics(world.metrics.companion(RESERVATIONS))
    api = ReservationApi(
        service.commits, service.keeper.statuses, [SECRET], [SECRET], metrics, world.clock, answer_s=0.0
    )
    now, path = world.clock.now(), f"/v1/targets/{target}/scale"
    body, stamp = json.dumps({"amount": 1, "requestId": f"at-{now.mono}"}).encode(), str(int(now.wall))
    headers = {
        "content-type": "application/json",
        "x-ca-timestamp": stamp,
        "x-ca-signature-256": sign(secret, f"{stamp}.".encode() + body),
    }
    answer = route(api.routes, Request("POST", path, headers=headers, body=body))
    metrics.answered(match_route(api.routes, "POST", path)[0], answer.status)
    return answer.status


def a_stranger_knocks(world: World, target: str) -> None:
    """Let somebody try the listener without the secret, where there is one."""
    if world.replica is not None:
        assert post(world, target, b"not-the-secret-at-all") == 401
