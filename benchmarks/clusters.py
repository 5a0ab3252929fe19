"""Clusters of a given size: running pods of many controllers, pending ones of few, several groups' templates."""

import msgspec

from autoscaler.objects.node import HOSTNAME, ZONES, Node
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.template import Template
from tests.builders import a_node, a_pod, a_template, over, term

ZONE = ZONES[0]


def running_nodes(count: int, cpu: str = "16") -> list[Node]:
    return [
        a_node(f"node-{number}", cpu=cpu, memory="64Gi", zone="abc"[number % 3], labels={"pool": f"p{number % 20}"})
        for number in range(count)
    ]


def running_pods(nodes: int, per_node: int, classes: int = 500) -> list[Pod]:
    examples = [
        a_pod(
            cpu=f"{100 + number % 7 * 50}m",
            memory="256Mi",
            labels={"app": f"app-{number}"},
            owner=f"ReplicaSet/{number}",
        )
        for number in range(classes)
    ]
    return [
        msgspec.structs.replace(
            examples[number % classes],
            name=f"run-{number}",
            uid=f"u{number}",
            node=f"node-{number % nodes}",
            phase="Running",
        )
        for number in range(nodes * per_node)
    ]


def pending_pods(count: int, classes: int = 50, *, constrained: bool = False) -> list[Pod]:
    """Pending pods dealt to classes in turn; of constrained ones a fifth spread over zones, a fifth keep apart."""
    examples = [_pending_example(number, constrained=constrained) for number in range(classes)]
    return [
        msgspec.structs.replace(examples[number % classes], name=f"new-{number}", uid=f"n{number}")
        for number in range(count)
    ]


def _pending_example(number: int, *, constrained: bool) -> Pod:
    labels = {"app": f"new-{number}"}
    return a_pod(
        cpu=f"{250 + number % 10 * 125}m",
        memory=f"{256 + number % 8 * 128}Mi",
        labels=labels,
        owner=f"ReplicaSet/new-{number}",
        spread=[over(ZONE, labels=labels)] if constrained and number % 5 == 0 else (),
        away=[term(HOSTNAME, labels=labels)] if constrained and number % 5 == 1 else (),
    )


def templates(count: int) -> list[Template]:
    return [
        a_template(
            a_node(
                f"t{number}", cpu=str(4 + number % 5 * 4), memory=f"{16 + number % 4 * 16}Gi", zone="abc"[number % 3]
            )
        )
        for number in range(count)
    ]
