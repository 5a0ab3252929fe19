"""The status ConfigMap rule by rule, after whole passes in virtual time: what is in it, since when, and what keeps it.

`status_map.yaml` is the document of a cluster in which much goes on at once, written by the rules of Cluster
Autoscaler's status.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from autoscaler.config.process import Kube, Observe
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaledown import ScaleDown
from autoscaler.config.scaleup import ScaleUp
from autoscaler.config.tree import Config
from autoscaler.errors import RetryLater
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.node import Node
from autoscaler.observe.report import PassEnd
from autoscaler.observe.status_map import status_config_map
from autoscaler.reasons import ScaleDownResult
from cloudprovider.interface import NodeRef, OutOfCapacity, ProviderError
from cloudprovider.static.spec import GPU_LABEL, Call
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, a_spec, waiting
from tests.unit.observe.published_world import STATUS_MAP, PublishedWorld

DOCUMENT = Path(__file__).with_name("status_map.yaml")
T0, T1, T2 = "2026-08-01T10:00:00Z", "2026-08-01T10:15:01Z", "2026-08-01T10:15:16Z"
AS_1_31 = Config(rules=rules_of_1_31())
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
NOTHING: dict[str, Any] = {
    "registered": {
        "total": 0,
        "ready": 0,
        "notStarted": 0,
        "suspended": 0,
        "unready": {"total": 0, "resourceUnready": 0},
    },
    "longUnregistered": 0,
    "unregistered": 0,
}
"""Counts that older versions leave out."""
UNREADY = [(a_node(f"n{number}", ready=False), "web") for number in range(5)]


def a_busy_world(rules: Rules = Rules()) -> PublishedWorld:  # noqa: B008  # frozen
    """Return a world after three passes in which nodes and groups are in every state that the status tells of."""
    nodes = [
        (a_node("idle-1"), "idle"),
        (a_node("idle-2"), "idle"),
        (a_node("broken-1"), "broken"),
        *((a_node(f"broken-{number}", ready=False), "broken") for number in range(2, 6)),
        (a_node("starting-1", ready=False, created=NOW + 600), "starting"),
        (a_node("gpu-1", labels={GPU_LABEL: "a100"}), "gpu"),
        (a_node("paused-1", conditions=[{"type": "Suspended", "status": "True"}]), "paused"),
        (a_node("leaving-1"), "leaving"),
        (a_node("leaving-2"), "leaving"),
    ]
    world = PublishedWorld(
        a_spec("idle"),
        a_spec("broken", min_size=5),
        a_spec("starting", min_size=1),
        a_spec("gpu", min_size=1),
        a_spec("paused", min_size=1),
        replace(a_spec("leaving", min_size=1), node_names=("leaving-2",)),
        a_spec("lost", min_size=1, boot_s=0),
        a_spec("growing", boot_s=60, labels={"pool": "growing"}),
        a_spec("full", labels={"pool": "full"}),
        nodes=nodes,
        config=Config(rules=rules),
    )
    world.cluster.put_node(a_node("of-no-group"))
    for name in ("idle-2", "broken-1", "leaving-1"):
        world.submit(a_pod(f"on-{name}", cpu="3", node=name))
    world.static.group("lost").increase(1)
    world.run()
    world.static.fail_next("full", OutOfCapacity("no m5 left: try later"))
    for pool in ("growing", "full"):
        world.submit(a_pod(pool, cpu="3", selector={"pool": pool}, unschedulable=True, created=NOW))
    world.static.group("leaving").delete([NodeRef("leaving-2", "test://leaving-2")])
    world.run(after_s=901)
    world.run(after_s=15.5)
    return world


class TestDocument:
    def test_of_a_cluster_in_which_much_goes_on(self) -> None:
        assert a_busy_world().text() == DOCUMENT.read_text()

    def test_says_the_same_in_the_form_of_older_versions(self) -> None:
        status = a_busy_world().board.view.status
        older = yaml.safe_load(status_config_map(status, NOW + 916.5, Rules(status_by_json=False)))
        assert list(older) == ["time", "autoscalerStatus", "clusterWide", "nodeGroups"]
        assert older["clusterWide"]["health"]["lastProbeTime"] == "2026-08-01T10:15:16.5Z"
        for group in older["nodeGroups"]:
            counts = {**NOTHING, **group["health"].get("nodeCounts", {})}
            counts["registered"] = {**NOTHING["registered"], **counts["registered"]}
            group["health"]["nodeCounts"] = counts
            group["scaleUp"].setdefault("backoffInfo", {})
        text = yaml.safe_dump(older).replace("10:15:16.5Z", "10:15:16Z")
        assert yaml.safe_load(text) == yaml.safe_load(DOCUMENT.read_text())

    def test_of_1_31_has_keys_as_declared_fractions_of_seconds_and_nothing_empty(self) -> None:
        world = PublishedWorld(a_spec("web"), a_spec("none"), nodes=[(a_node("n1"), "web")], config=AS_1_31)
        world.submit(a_pod("p1", cpu="3", node="n1"))
        world.run(after_s=0.25)
        assert world.text() == (
            "time: 2026-08-01 10:00:00.25 +0000 UTC\n"
            "autoscalerStatus: Running\n"
            "clusterWide:\n"
            "  health:\n"
            "    status: Healthy\n"
            "    nodeCounts:\n"
            "      registered:\n"
            "        total: 1\n"
            "        ready: 1\n"
            "        notStarted: 0\n"
            "      longUnregistered: 0\n"
            "      unregistered: 0\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleUp:\n"
            "    status: NoActivity\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleDown:\n"
            "    status: NoCandidates\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "nodeGroups:\n"
            "- name: web\n"
            "  health:\n"
            "    status: Healthy\n"
            "    nodeCounts:\n"
            "      registered:\n"
            "        total: 1\n"
            "        ready: 1\n"
            "        notStarted: 0\n"
            "      longUnregistered: 0\n"
            "      unregistered: 0\n"
            "    cloudProviderTarget: 1\n"
            "    minSize: 0\n"
            "    maxSize: 10\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleUp:\n"
            "    status: NoActivity\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleDown:\n"
            "    status: NoCandidates\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "- name: none\n"
            "  health:\n"
            "    status: Healthy\n"
            "    cloudProviderTarget: 0\n"
            "    minSize: 0\n"
            "    maxSize: 10\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleUp:\n"
            "    status: NoActivity\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
            "  scaleDown:\n"
            "    status: NoCandidates\n"
            '    lastProbeTime: "2026-08-01T10:00:00.25Z"\n'
            '    lastTransitionTime: "2026-08-01T10:00:00.25Z"\n'
        )


class TestStart:
    def test_before_the_first_pass_it_says_initializing_and_knows_nothing(self) -> None:
        assert PublishedWorld(a_spec("web")).text() == (
            "autoscalerStatus: Initializing\n"
            "clusterWide:\n"
            "  health:\n"
            "    lastProbeTime: null\n"
            "    lastTransitionTime: null\n"
            "    nodeCounts:\n"
            "      longUnregistered: 0\n"
            "      registered:\n"
            "        notStarted: 0\n"
            "        ready: 0\n"
            "        suspended: 0\n"
            "        total: 0\n"
            "        unready:\n"
            "          resourceUnready: 0\n"
            "          total: 0\n"
            "      unregistered: 0\n"
            "  scaleDown:\n"
            "    lastProbeTime: null\n"
            "    lastTransitionTime: null\n"
            "  scaleUp:\n"
            "    lastProbeTime: null\n"
            "    lastTransitionTime: null\n"
            "time: 2026-08-01 10:00:00 +0000 UTC\n"
        )

    def test_in_older_versions_without_what_is_empty(self) -> None:
        world = PublishedWorld(a_spec("web"), config=AS_1_31)
        assert world.text() == "time: 2026-08-01 10:00:00 +0000 UTC\nautoscalerStatus: Initializing\n"

    @pytest.mark.parametrize(
        ("nodes", "message"),
        [
            pytest.param([], "Cluster has no nodes.", id="no node"),
            pytest.param([(a_node("n1", ready=False), "web")], "Cluster has no ready nodes.", id="no ready one"),
        ],
    )
    def test_an_empty_cluster_is_initializing_with_a_message_until_there_is_a_node(
        self, nodes: list[tuple[Node, str]], message: str
    ) -> None:
        config = Config(scale_up=ScaleUp(scale_up_from_zero=False))
        world = PublishedWorld(a_spec("web"), config=config, nodes=nodes)
        assert world.run().end is PassEnd.EMPTY_CLUSTER
        status = world.status()
        assert (status["autoscalerStatus"], status["message"]) == ("Initializing", message)
        assert "nodeGroups" not in status
        assert status["clusterWide"]["health"]["lastProbeTime"] is None
        world.cluster.put_node(a_node("n2"))
        world.run(after_s=15)
        status = world.status()
        assert (status["autoscalerStatus"], "message" in status) == ("Running", False)
        assert status["clusterWide"]["health"]["nodeCounts"]["registered"]["ready"] == 1

    def test_nothing_about_starting_without_nodes_where_the_first_may_be_bought(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run()
        assert (world.status()["autoscalerStatus"], "message" in world.status()) == ("Running", False)


def times(world: PublishedWorld, part: str, group: str = "web") -> tuple[str | None, str | None]:
    found = world.group(group)[part]
    return found["lastProbeTime"], found["lastTransitionTime"]


class TestTimes:
    def test_probes_are_of_the_pass_and_a_transition_stays_while_the_status_does(self) -> None:
        world = PublishedWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
        world.submit(a_pod("p1", cpu="3", node="n1"))
        world.run()
        world.run(after_s=901)
        for part in ("health", "scaleUp", "scaleDown"):
            assert times(world, part) == (T1, T0)
            whole = world.status()["clusterWide"][part]
            assert (whole["lastProbeTime"], whole["lastTransitionTime"]) == (T1, T0)

    def test_each_condition_of_each_group_changes_by_itself(self) -> None:
        world = PublishedWorld(a_spec("web"), a_spec("other"))
        world.run()
        world.submit(waiting("p1"))
        world.run(after_s=901)
        assert world.group("web")["scaleUp"]["status"] == "InProgress"
        assert times(world, "scaleUp", "web") == (T1, T1)
        assert times(world, "health", "web") == (T1, T0)
        assert times(world, "scaleUp", "other") == (T1, T0)
        whole = world.status()["clusterWide"]["scaleUp"]
        assert (whole["status"], whole["lastTransitionTime"]) == ("InProgress", T1)

    def test_there_and_back_is_two_transitions(self) -> None:
        world = PublishedWorld(a_spec("web", max_size=1, boot_s=1), nodes=[])
        world.run()
        world.submit(waiting("p1"))
        world.run(after_s=886)
        assert world.group("web")["scaleUp"]["status"] == "InProgress"
        world.clock.advance(1)
        world.boot()
        world.run(after_s=14)
        assert world.group("web")["scaleUp"]["status"] == "NoActivity"
        assert times(world, "scaleUp") == (T1, T1)

    def test_a_group_that_comes_back_begins_anew(self) -> None:
        world = PublishedWorld(a_spec("web"), a_spec("other"))
        world.run()
        world.cloud.taken.add("web")
        world.run(after_s=15)
        assert [group["name"] for group in world.status()["nodeGroups"]] == ["other"]
        world.cloud.taken.clear()
        world.run(after_s=886)
        assert times(world, "health", "web") == (T1, T1)
        assert times(world, "health", "other") == (T1, T0)


class TestScaleDownProbe:
    """It is the last time that it was looked for nodes that could go."""

    def test_stays_where_a_scale_up_ends_the_pass(self) -> None:
        world = PublishedWorld(a_spec("web"), nodes=[(a_node("n1"), "web")], config=AS_1_31)
        world.run()
        world.submit(waiting("p1"), waiting("p2"))
        assert world.run(after_s=901).scale_down.result is ScaleDownResult.NOT_TRIED
        assert times(world, "scaleDown") == ("2026-08-01T10:00:00Z", "2026-08-01T10:00:00Z")
        assert times(world, "scaleUp")[0] == "2026-08-01T10:15:01Z"
        assert world.group("web")["scaleDown"]["candidates"] == 1

    def test_moves_on_in_a_cool_down(self) -> None:
        world = PublishedWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
        world.run()
        world.submit(waiting("p1"), waiting("p2"))
        assert world.run(after_s=901).scale_down.result is ScaleDownResult.IN_COOLDOWN
        assert times(world, "scaleDown")[0] == T1

    def test_is_unknown_until_it_has_been_looked_for_any(self) -> None:
        config = Config(scale_down=ScaleDown(scale_down_enabled=False))
        world = PublishedWorld(a_spec("web"), nodes=[(a_node("n1"), "web")], config=config)
        world.run()
        assert world.group("web")["scaleDown"] == {
            "status": "NoCandidates",
            "lastProbeTime": None,
            "lastTransitionTime": None,
        }
        older = PublishedWorld(a_spec("web"), config=replace(config, rules=rules_of_1_31()))
        older.run()
        assert older.group("web")["scaleDown"] == {"status": "NoCandidates"}

    def test_an_unhealthy_cluster_has_no_candidates(self) -> None:
        world = PublishedWorld(a_spec("web", max_size=20), nodes=[(a_node(f"n{n}"), "web") for n in range(8)])
        world.run()
        assert world.status()["clusterWide"]["scaleDown"]["candidates"] == 8
        for number in range(5):
            world.cluster.put_node(a_node(f"n{number}", ready=False))
        assert world.run(after_s=901).end is PassEnd.UNHEALTHY
        whole = world.status()["clusterWide"]
        assert whole["health"]["status"] == "Unhealthy"
        assert whole["scaleDown"] == {"status": "NoCandidates", "lastProbeTime": T1, "lastTransitionTime": T1}


class TestScaleUpOfAGroup:
    def test_backoff_shows_why_until_it_is_over(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
        world.submit(waiting("p1"))
        world.run()
        shown = world.group("web")["scaleUp"]
        assert (shown["status"], shown["backoffInfo"]) == (
            "Backoff",
            {"errorCode": "OUT_OF_RESOURCES", "errorMessage": "no m5 left"},
        )
        world.cluster.remove_pod("default/p1")
        world.run(after_s=301)
        shown = world.group("web")["scaleUp"]
        assert (shown["status"], shown["backoffInfo"]) == ("NoActivity", {})

    def test_in_progress_comes_before_backoff_and_tells_no_error(self) -> None:
        world = PublishedWorld(a_spec("web", boot_s=60))
        world.submit(waiting("p1"))
        world.run()
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
        world.submit(waiting("p2"))
        world.run(after_s=15)
        shown = world.group("web")["scaleUp"]
        assert (shown["status"], shown["backoffInfo"]) == ("InProgress", {})
        assert world.board.view.status.groups[0].backoff is not None

    def test_unhealthy_comes_before_backoff(self) -> None:
        extra = [(a_node(f"other-{number}"), "other") for number in range(6)]
        world = PublishedWorld(a_spec("web"), a_spec("other", min_size=6), nodes=[*UNREADY[:4], *extra])
        world.static.fail_next("other", OutOfCapacity("none"))
        world.run()
        assert world.group("web")["scaleUp"]["status"] == "Unhealthy"
        assert world.group("web")["health"]["status"] == "Unhealthy"
        assert world.status()["clusterWide"]["health"]["status"] == "Healthy"

    @pytest.mark.parametrize(
        ("error", "shown"),
        [
            pytest.param(ProviderError("odd", code=""), {"errorMessage": "odd"}, id="without a code"),
            pytest.param(
                ProviderError("m" * 2000, code="X"),
                {"errorCode": "X", "errorMessage": "m" * 489 + "<truncated>"},
                id="a long message is cut to 500 characters",
            ),
            pytest.param(
                ProviderError('quota: "a"\nline 2\x7f', code="123"),
                {"errorCode": "123", "errorMessage": 'quota: "a"\nline 2\x7f'},
                id="whatever is in it comes back",
            ),
        ],
    )
    def test_errors_are_told_as_the_cloud_told_them(self, error: ProviderError, shown: dict[str, str]) -> None:
        world = PublishedWorld(a_spec("web"))
        world.static.fail_next("web", error)
        world.submit(waiting("p1"))
        world.run()
        assert world.group("web")["scaleUp"]["backoffInfo"] == shown


@pytest.mark.parametrize(
    "name",
    ["123", "true", "No", "null", "~", "a: b", "a #b", "- a", "1e3", "2026-08-01", "https://x/y-z", "é", "it's", "{a}"],
)
def test_names_of_groups_come_back_as_they_are(name: str) -> None:
    world = PublishedWorld(a_spec(name))
    world.run()
    assert world.group(name)["name"] == name


class TestWriting:
    def test_the_annotation_has_the_time_of_the_document(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run(after_s=1.0625)
        assert world.status()["time"] == "2026-08-01 10:00:01.0625 +0000 UTC"
        annotations = world.writes.objects[STATUS_MAP]["metadata"]["annotations"]
        assert annotations == {LAST_UPDATED: "2026-08-01 10:00:01.0625 +0000 UTC"}

    def test_what_others_put_there_stays(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.writes.put_config_map("kube-system", "cluster-autoscaler-status", {"note": "x"}, {"owner": "us"})
        world.run()
        held = world.writes.objects[STATUS_MAP]
        assert set(held["data"]) == {"status", "note"}
        assert set(held["metadata"]["annotations"]) == {LAST_UPDATED, "owner"}

    def test_it_is_where_flags_say(self) -> None:
        config = Config(kube=Kube(namespace="scaling"), observe=Observe(status_config_map_name="mine"))
        world = PublishedWorld(a_spec("web"), config=config)
        world.run()
        assert "autoscalerStatus: Running" in world.text(ObjectRef("v1", "ConfigMap", "mine", "scaling"))
        assert STATUS_MAP not in world.writes.objects

    def test_it_is_not_written_where_nobody_wants_it(self) -> None:
        world = PublishedWorld(a_spec("web"), config=Config(observe=Observe(write_status_configmap=False)))
        world.submit(waiting("p1"))
        world.run()
        world.publisher.stop()
        assert world.writes.objects == {}
        assert world.reasons("ConfigMap") == []

    def test_an_outage_of_the_cloud_leaves_the_old_one(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run()
        before = world.text()
        world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
        assert world.run(after_s=15).end is PassEnd.FAILED
        assert world.text() == before
        world.run(after_s=15)
        assert world.status()["time"] == "2026-08-01 10:00:30 +0000 UTC"

    def test_so_does_an_outage_of_the_api_server(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run()
        before = world.text()
        world.unreachable = "away"
        world.run(after_s=15)
        assert world.text() == before

    def test_passes_that_end_early_write_it(self) -> None:
        unhealthy = PublishedWorld(a_spec("web"), nodes=UNREADY)
        assert unhealthy.run(after_s=15).end is PassEnd.UNHEALTHY
        assert unhealthy.status()["clusterWide"]["health"]["status"] == "Unhealthy"
        assert unhealthy.status()["time"] == "2026-08-01 10:00:15 +0000 UTC"
        fixed = PublishedWorld(a_spec("web", target=3))
        fixed.run()
        assert fixed.run(after_s=901).end is PassEnd.SIZES_FIXED
        assert fixed.group("web")["health"]["cloudProviderTarget"] == 0

    def test_a_clean_stop_deletes_it_and_once_more_does_no_harm(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run()
        world.publisher.stop()
        assert STATUS_MAP not in world.writes.objects
        world.publisher.stop()

    def test_one_that_somebody_deletes_is_there_again_after_the_next_pass(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.run()
        world.writes.delete(STATUS_MAP)
        world.run(after_s=15)
        assert world.status()["autoscalerStatus"] == "Running"

    def test_a_write_that_fails_holds_nothing_up_and_is_made_up_for(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.status_map.failure = RetryLater("500")
        world.submit(waiting("p1"))
        world.run(after_s=15)
        assert world.calls == [("increase", "web", 1)]
        assert world.status()["autoscalerStatus"] == "Initializing"
        world.status_map.failure = None
        world.run(after_s=886)
        assert times(world, "scaleUp") == (T1, "2026-08-01T10:00:15Z")


class TestSize:
    def test_the_groups_that_fit_are_shown_eventful_ones_first(self) -> None:
        specs = [a_spec(f"group-of-the-cluster-{number:04}") for number in range(2000)]
        world = PublishedWorld(*specs)
        world.static.fail_next("group-of-the-cluster-1999", OutOfCapacity("no m5 left"))
        world.static.group("group-of-the-cluster-1998").increase(1)
        for at in (1997, 1996):
            world.static.group(f"group-of-the-cluster-{at:04}").increase(1)
        world.run()
        assert 1024 * 1024 - 2000 < len(world.text().encode()) <= 1024 * 1024
        status = world.status()
        shown = [group["name"] for group in status["nodeGroups"]]
        assert status["message"] == f"{len(shown)} of 2000 node groups are shown: a ConfigMap holds no more than 1 MiB"
        growing = [f"group-of-the-cluster-{number}" for number in (1996, 1997, 1998)]
        assert shown == [spec.id for spec in specs[: len(shown) - 3]] + growing
        assert status["clusterWide"]["scaleUp"]["status"] == "InProgress"
