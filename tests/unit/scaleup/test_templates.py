from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions, TemplateOptions
from autoscaler.objects.node import Node, NodeCondition, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import CsiNode
from autoscaler.objects.workload import DaemonSet, plain_decoder
from autoscaler.reasons import Lack
from autoscaler.registry.readiness import read, ready_terms
from autoscaler.scaleup.templates import TemplateCache, TemplateSource, TemplateTerms, choose_templates
from autoscaler.snapshot.cluster import ClusterView, Related, view_of
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import TEMPLATE_NODE, Template, template_name
from cloudprovider.interface import NodeTemplate, TaintSpec
from tests.builders import a_group, a_node, a_pod
from tests.devices import GPUS, a_slice, with_devices

NOW = Instant(wall=1_700_000_000.0, mono=5000.0)
LONG_AGO, HALF_A_MINUTE_AGO, A_MINUTE_AGO = NOW.wall - 4400, NOW.wall - 30, NOW.wall - 60
CLOUD = NodeTemplate(labels={"from": "cloud"}, capacity={"cpu": "8", "memory": "16Gi", "pods": "110"})
INTERNER = PodInterner()
READY_ONLY = Rules(template_from_all_nodes=False)


def an_example(name: str, since: float = LONG_AGO, **about: Any) -> Node:
    """Return a node of half the cloud's promise, ready since then, whose label `from` tells it from the others."""
    labels = {"from": name, **about.pop("labels", {})}
    return a_node(name, memory="8Gi", since=since, labels=labels, **about)


def a_daemon_set(name: str, **spec: Any) -> DaemonSet:
    return plain_decoder(DaemonSet).one(
        {
            "metadata": {"name": name, "namespace": "kube-system", "uid": f"DaemonSet/{name}"},
            "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
        }
    )


def a_view(
    nodes: Sequence[Node] = (),
    pods: Sequence[Pod] = (),
    daemon_sets: Sequence[DaemonSet] = (),
    cloud: NodeTemplate | None = CLOUD,
    gpu_label: str = "",
    foreign: Sequence[str] = (),
) -> ClusterView:
    group = a_group("web", target=1, template=cloud)
    of_node = {node.name: "web" for node in nodes if node.name not in foreign}
    groups = Groups((group,), of_node, gpu_label=gpu_label)
    related = Related(daemon_sets={daemon_set.key: daemon_set for daemon_set in daemon_sets})
    return view_of(nodes, pods, groups=groups, related=related)


def choose_all(view: ClusterView, cache: TemplateCache) -> tuple[Mapping[str, Template], TemplateCache]:
    options, rules = TemplateOptions(), Rules()
    readings = read(view.nodes, ready_terms(options, "", rules))
    return choose_templates(view, readings, cache, TemplateTerms(options, HealthOptions(), rules, INTERNER), NOW)


def choose(
    view: ClusterView,
    cache: TemplateCache | None = None,
    options: TemplateOptions | None = None,
    rules: Rules | None = None,
    now: Instant = NOW,
) -> tuple[Template | None, TemplateCache]:
    options, rules = options or TemplateOptions(), rules or Rules()
    readings = read(view.nodes, ready_terms(options, view.groups.gpu_label, rules))
    terms = TemplateTerms(options, HealthOptions(), rules, INTERNER)
    templates, after = choose_templates(view, readings, cache or TemplateCache(), terms, now)
    return templates.get("web"), after


def source_of(cache: TemplateCache) -> TemplateSource | None:
    entry = cache.entries.get("web")
    return None if entry is None else entry.source


@pytest.mark.parametrize(
    ("nodes", "origin", "source"),
    [
        pytest.param(
            [an_example("a"), an_example("b")], "a", TemplateSource.NODE, id="the first good node is the example"
        ),
        pytest.param(
            [an_example("a", ready=False), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="an unready node is passed over",
        ),
        pytest.param(
            [an_example("a", HALF_A_MINUTE_AGO), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="a young node is passed over",
        ),
        pytest.param(
            [an_example("a", A_MINUTE_AGO)], "cloud", TemplateSource.PROVIDER, id="exactly one minute is too young"
        ),
        pytest.param(
            [an_example("a", cordoned=True), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="a cordoned node is passed over",
        ),
        pytest.param(
            [an_example("a", taints=("ToBeDeletedByClusterAutoscaler",)), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="a node being deleted is passed over",
        ),
        pytest.param(
            [an_example("a", taints=("startup-taint.cluster-autoscaler.kubernetes.io/x",)), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="a starting node is passed over",
        ),
        pytest.param(
            [an_example("a", labels={"gpu": "t4"}), an_example("b")],
            "b",
            TemplateSource.NODE,
            id="a node whose GPUs are not there yet is passed over",
        ),
        pytest.param([], "cloud", TemplateSource.PROVIDER, id="without nodes the cloud is asked"),
    ],
)
def test_the_example(nodes: list[Node], origin: str, source: TemplateSource) -> None:
    template, cache = choose(a_view(nodes, gpu_label="gpu"))
    assert template is not None
    assert (template.node.labels["from"], source_of(cache)) == (origin, source)


@pytest.mark.parametrize(
    ("node", "rules", "found"),
    [
        pytest.param(an_example("a", ready=False), Rules(), True, id="an unready node is better than nothing"),
        pytest.param(an_example("a", ready=False), READY_ONLY, False, id="but not where only ready nodes count"),
        pytest.param(an_example("a", cordoned=True), READY_ONLY, False, id="nor does a cordoned one"),
        pytest.param(an_example("a", HALF_A_MINUTE_AGO), READY_ONLY, True, id="a young node counts there"),
    ],
)
def test_the_last_resort(node: Node, rules: Rules, found: bool) -> None:
    template, cache = choose(a_view([node], cloud=None), rules=rules)
    assert (template is not None) is found
    assert source_of(cache) is (TemplateSource.UNFIT_NODE if found else None)


def test_each_group_has_its_own_example_and_others_nodes_are_nobodys() -> None:
    groups = Groups(
        tuple(a_group(name, target=1) for name in ("web", "db", "none")),
        {"w1": "web", "w2": "web", "d1": "db", "x1": "vanished"},
    )
    view = view_of([an_example(name) for name in ("alien", "x1", "w1", "w2", "d1")], [], groups=groups)
    templates = choose_all(view, TemplateCache())[0]
    assert {name: one.node.labels["from"] for name, one in templates.items()} == {"web": "w1", "db": "d1"}
    assert list(templates) == ["web", "db"]


def test_the_cache_outlives_the_node_until_it_expires() -> None:
    options = TemplateOptions(node_info_cache_expire_time_s=600.0)
    first, cache = choose(a_view([an_example("a")]), options=options)
    later, cache = choose(a_view(), cache, options, now=NOW.later(600))
    assert later is first
    assert source_of(cache) is TemplateSource.CACHE
    expired, cache = choose(a_view(), cache, options, now=NOW.later(601))
    assert expired is not None
    assert (expired.node.labels["from"], source_of(cache)) == ("cloud", TemplateSource.PROVIDER)


def test_a_node_seen_again_renews_the_cache() -> None:
    options = TemplateOptions(node_info_cache_expire_time_s=600.0)
    view = a_view([an_example("a")])
    first, cache = choose(view, options=options)
    _, cache = choose(view, cache, options, now=NOW.later(500))
    later, _ = choose(a_view(), cache, options, now=NOW.later(1000))
    assert later is first


def test_what_the_cloud_says_is_not_cached() -> None:
    _, cache = choose(a_view())
    template, cache = choose(a_view(cloud=None), cache)
    assert template is None
    assert cache.entries == {}


def test_entries_of_vanished_groups_go() -> None:
    _, cache = choose(a_view([an_example("a")]))
    templates, cache = choose_all(view_of([], []), cache)
    assert templates == {}
    assert cache.entries == {}


def test_the_clouds_description_becomes_a_node() -> None:
    cloud = NodeTemplate(
        labels={
            "node.kubernetes.io/instance-type": "m5",
            "topology.kubernetes.io/region": "eu",
            "topology.kubernetes.io/zone": "eu-a",
        },
        taints=(TaintSpec("dedicated", "web"), TaintSpec("node.kubernetes.io/not-ready")),
        capacity={"cpu": "4", "memory": "8Gi", "pods": "110"},
        allocatable={"cpu": "3500m"},
    )
    template, _ = choose(a_view(cloud=cloud))
    assert template is not None
    name = template_name("web")
    assert template.node == Node(
        name=name,
        uid=name,
        labels={
            "kubernetes.io/hostname": name,
            TEMPLATE_NODE: "true",
            "node.kubernetes.io/instance-type": "m5",
            "beta.kubernetes.io/instance-type": "m5",
            "topology.kubernetes.io/region": "eu",
            "failure-domain.beta.kubernetes.io/region": "eu",
            "topology.kubernetes.io/zone": "eu-a",
            "failure-domain.beta.kubernetes.io/zone": "eu-a",
        },
        taints=(Taint(key="dedicated", effect="NoSchedule", value="web"),),
        capacity={"cpu": 4000, "memory": 8 << 30, "pods": 110},
        allocatable={"cpu": 3500, "memory": 8 << 30, "pods": 110},
        conditions=(NodeCondition(type="Ready", status="True"),),
    )


def test_rules_leave_the_mark_out() -> None:
    template, _ = choose(a_view([an_example("a")]), rules=Rules(template_node_label=False))
    assert template is not None
    assert TEMPLATE_NODE not in template.node.labels


def test_a_broken_description_is_a_fault_of_its_group() -> None:
    template, cache = choose(a_view(cloud=NodeTemplate(capacity={"cpu": "plenty"})))
    assert template is None
    assert "plenty" in cache.faults["web"]
    bad_pod = NodeTemplate(capacity={"cpu": "4"}, pods=({"metadata": {"name": 7}},))
    _, cache = choose(a_view([an_example("a", ready=False)], cloud=bad_pod))
    assert source_of(cache) is TemplateSource.UNFIT_NODE
    assert "web" in cache.faults


def names(template: Template | None) -> list[str]:
    assert template is not None
    end = template.node.name.removeprefix("template-node-for-web")
    assert all(pod.name.endswith(end) and pod.node == template.node.name for pod in template.pods)
    return [pod.name.removesuffix(end) for pod in template.pods]


MIRROR: dict[str, Any] = {"annotations": {"kubernetes.io/config.mirror": "x"}}
CRITICAL = a_daemon_set("critical", priorityClassName="system-node-critical")
LOG = a_daemon_set("log")


@pytest.mark.parametrize(
    ("pods", "daemon_sets", "force", "expected"),
    [
        pytest.param([a_pod("log-1", node="a", owner="DaemonSet/log")], [LOG], False, ["log-1"], id="a daemon stays"),
        pytest.param(
            [a_pod("kubelet-x", node="a", owner=None, **MIRROR)], [], False, ["kubelet-x"], id="a mirror pod stays"
        ),
        pytest.param(
            [a_pod("x", node="a", annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"})],
            [],
            False,
            ["x"],
            id="a pod annotated as a daemon stays",
        ),
        pytest.param([a_pod("web-1", node="a", owner="ReplicaSet/web")], [], False, [], id="a replica goes"),
        pytest.param([], [LOG], False, [], id="a DaemonSet without a pod on the example is not added"),
        pytest.param([], [LOG], True, ["log"], id="unless daemons are forced"),
        pytest.param([], [CRITICAL], False, ["critical"], id="or it is critical to the node"),
        pytest.param(
            [],
            [a_daemon_set("polite", priorityClassName="system-node-critical", preemptionPolicy="Never")],
            False,
            [],
            id="a critical one that does not preempt is not added",
        ),
        pytest.param(
            [a_pod("log-1", node="a", owner="DaemonSet/log")],
            [LOG],
            True,
            ["log-1"],
            id="a running daemon is not doubled",
        ),
        pytest.param(
            [a_pod("log-1", node="a", owner="DaemonSet/log", deleted=LONG_AGO)],
            [LOG],
            True,
            ["log"],
            id="a terminating daemon is replaced by a new one",
        ),
        pytest.param(
            [], [a_daemon_set("gpu", nodeSelector={"gpu": "t4"})], True, [], id="a daemon of other nodes is not added"
        ),
    ],
)
def test_pods_of_a_real_example(
    pods: list[Pod], daemon_sets: list[DaemonSet], force: bool, expected: list[str]
) -> None:
    template, _ = choose(a_view([an_example("a")], pods, daemon_sets), options=TemplateOptions(force_ds=force))
    assert names(template) == expected


@pytest.mark.parametrize(
    ("daemon_set", "added"),
    [
        pytest.param(LOG, False, id="an untolerated taint keeps it off"),
        pytest.param(a_daemon_set("t", tolerations=[{"operator": "Exists"}]), True, id="a tolerated one does not"),
        pytest.param(
            a_daemon_set(
                "s", nodeSelector={"beta.kubernetes.io/instance-type": "m5"}, tolerations=[{"operator": "Exists"}]
            ),
            True,
            id="deprecated labels can be selected",
        ),
        pytest.param(
            a_daemon_set("n", nodeName="elsewhere", tolerations=[{"operator": "Exists"}]),
            False,
            id="a daemon bound to another node stays there",
        ),
    ],
)
def test_daemons_of_the_clouds_description(daemon_set: DaemonSet, added: bool) -> None:
    cloud = NodeTemplate(
        labels={"node.kubernetes.io/instance-type": "m5"},
        taints=(TaintSpec("dedicated"),),
        capacity={"cpu": "4"},
        pods=({"metadata": {"name": "proxy", "annotations": {"kubernetes.io/config.mirror": "x"}}},),
    )
    template, _ = choose(a_view(daemon_sets=[daemon_set], cloud=cloud))
    assert names(template) == (["proxy", daemon_set.name] if added else ["proxy"])


def test_a_passing_taint_does_not_keep_daemons_off() -> None:
    node = an_example("a", taints=("status-taint.cluster-autoscaler.kubernetes.io/busy",))
    template, _ = choose(a_view([node], daemon_sets=[LOG]), options=TemplateOptions(force_ds=True))
    assert names(template) == ["log"]


def test_an_added_daemon_counts_with_its_requests_and_its_owner() -> None:
    heavy = a_daemon_set("heavy", containers=[{"resources": {"requests": {"cpu": "250m"}}}])
    template, _ = choose(a_view(daemon_sets=[heavy]))
    assert template is not None
    cls = template.pods[0].cls
    assert cls.requests == {"cpu": 250}
    assert cls.labels == {"app": "heavy"}
    assert cls.daemonset
    assert cls.namespace == "kube-system"


def test_the_same_inputs_give_the_same_object() -> None:
    view = a_view([an_example("a")], [a_pod("log-1", node="a", owner="DaemonSet/log")], [LOG])
    first, cache = choose(view)
    second, cache = choose(view, cache)
    assert second is first
    assert cache.entries["web"].example is view.nodes[0]


def test_changes_that_do_not_matter_give_the_same_object() -> None:
    first, cache = choose(a_view([an_example("a")], [], [LOG]))
    heartbeat = an_example("a", since=NOW.wall - 2600)
    newer = msgspec.structs.replace(LOG, metadata=msgspec.structs.replace(LOG.metadata, resource_version="2"))
    second, _ = choose(a_view([heartbeat], [a_pod("web-1", node="a", owner="ReplicaSet/web")], [newer]), cache)
    assert second is first


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(a_view([an_example("a", labels={"zone": "b"})], [], [LOG]), id="a label"),
        pytest.param(
            a_view([an_example("a")], [a_pod("log-1", node="a", owner="DaemonSet/log")], [LOG]), id="a daemon's pod"
        ),
        pytest.param(a_view([an_example("a")], [], [LOG, CRITICAL]), id="a DaemonSet"),
    ],
)
def test_changes_that_matter_give_another_template(view: ClusterView) -> None:
    first, cache = choose(a_view([an_example("a")], [], [LOG]))
    second, _ = choose(view, cache)
    assert second != first


def test_a_changed_description_gives_another_template() -> None:
    first, cache = choose(a_view())
    same, cache = choose(a_view(cloud=NodeTemplate(labels=dict(CLOUD.labels), capacity=dict(CLOUD.capacity))), cache)
    other, _ = choose(a_view(cloud=NodeTemplate(labels={"from": "cloud"}, capacity={"cpu": "16"})), cache)
    assert same is first
    assert other is not None
    assert other.node.capacity == {"cpu": 16000}


def test_a_cordoned_example_can_be_uncordoned() -> None:
    view = a_view([an_example("a", cordoned=True)], cloud=None)
    kept, _ = choose(view)
    freed, _ = choose(view, options=TemplateOptions(scale_from_unschedulable=True))
    assert kept is not None
    assert kept.node.unschedulable
    assert freed is not None
    assert not freed.node.unschedulable


class TestNodesThatOfferLess:
    """A node called `small` has half the CPU of the others."""

    PROMISE = NodeTemplate(capacity={"cpu": "4", "memory": "8Gi", "pods": "110"})

    @staticmethod
    def small(since: float = LONG_AGO, created: float = 2.0, **about: Any) -> Node:
        return an_example("small", since, created=created, allocatable={"cpu": "2"}, **about)

    @staticmethod
    def old(**about: Any) -> Node:
        return an_example("old", created=1.0, **about)

    def cpu(self, view: ClusterView, cache: TemplateCache | None = None, **about: Any) -> tuple[int, TemplateCache]:
        template, after = choose(view, cache, **about)
        assert template is not None
        return template.node.allocatable["cpu"], after

    def test_the_newest_speaks_for_its_group(self) -> None:
        found, cache = self.cpu(a_view([self.old(), self.small()]))
        assert (found, source_of(cache)) == (2000, TemplateSource.NODE)

    def test_an_older_one_does_not(self) -> None:
        found, _ = self.cpu(a_view([self.old(), self.small(created=0.5)]))
        assert found == 4000

    def test_the_first_does_where_rules_say_so(self) -> None:
        rules = Rules(nodes_correct_templates=False)
        found, cache = self.cpu(a_view([self.old(), self.small()]), rules=rules)
        assert (found, cache.shortfalls) == (4000, ())

    def test_what_may_befall_a_single_node_does_not_count(self) -> None:
        old = self.old(allocatable={"example.com/device": "8"})
        hurt = an_example("hurt", taints=("maintenance",), created=2.0)
        template, _ = choose(a_view([old, hurt]))
        assert template is not None
        assert (template.node.taints, template.node.allocatable["example.com/device"]) == ((), 8)

    def test_what_it_told_outlives_it(self) -> None:
        _, cache = self.cpu(a_view([self.old(), self.small()]))
        found, cache = self.cpu(a_view([self.old()]), cache)
        assert (found, source_of(cache)) == (2000, TemplateSource.CACHE)

    def test_a_newer_one_refutes_it(self) -> None:
        _, cache = self.cpu(a_view([self.old(), self.small()]))
        newer = an_example("newer", created=3.0)
        found, cache = self.cpu(a_view([self.old(), newer]), cache)
        assert (found, source_of(cache)) == (4000, TemplateSource.NODE)

    def test_so_does_another_description_of_the_group(self) -> None:
        _, cache = self.cpu(a_view([self.old(), self.small()]))
        described = NodeTemplate(capacity={"cpu": "16"})
        found, _ = self.cpu(a_view([self.old()], cloud=described), cache)
        assert found == 4000

    def test_a_young_one_cuts_the_template_down_until_more_is_known(self) -> None:
        view = a_view([self.small(HALF_A_MINUTE_AGO, labels={"new": "yes"})], cloud=self.PROMISE)
        template, cache = choose(view)
        assert template is not None
        assert (template.node.allocatable["cpu"], source_of(cache)) == (2000, TemplateSource.PROVIDER)
        assert "new" not in template.node.labels
        assert choose(view, cache)[0] is template
        found, _ = self.cpu(a_view(cloud=self.PROMISE), cache)
        assert found == 4000, "nothing was learnt of a node that went at once"

    def test_a_young_one_without_devices_may_still_get_them(self) -> None:
        promise = NodeTemplate(capacity={"cpu": "4", "example.com/device": "1"})
        template, _ = choose(a_view([self.small(HALF_A_MINUTE_AGO)], cloud=promise))
        assert template is not None
        assert template.node.allocatable["example.com/device"] == 1

    def test_it_is_told_once(self) -> None:
        _, cache = choose(a_view(cloud=self.PROMISE))
        _, cache = choose(a_view([self.small()], cloud=self.PROMISE), cache)
        (found,) = cache.shortfalls
        assert (found.group, found.node, [(one.kind, one.name) for one in found.lacking]) == (
            "web",
            "small",
            [(Lack.RESOURCE, "cpu")],
        )
        _, cache = choose(a_view([self.small()], cloud=self.PROMISE), cache)
        assert cache.shortfalls == ()

    def test_memory_of_like_machines_may_differ_a_little(self) -> None:
        _, cache = choose(a_view(cloud=NodeTemplate(capacity={"cpu": "4", "memory": "8270Mi"})))
        _, cache = choose(a_view([an_example("real")], cloud=None), cache)
        assert cache.shortfalls == ()


class TestNodesWithoutTheirDevices:
    PROMISE = NodeTemplate(labels={"gpu": "t4"}, capacity={"cpu": "4", "nvidia.com/gpu": "1"})

    def view(self, *, age_s: float, daemons: Sequence[DaemonSet] = (), gone: bool = False) -> ClusterView:
        node = an_example("bare", labels={"gpu": "t4"}, created=NOW.wall - age_s)
        return a_view([] if gone else [node], daemon_sets=daemons, cloud=self.PROMISE, gpu_label="gpu")

    def gpus(self, view: ClusterView, cache: TemplateCache | None = None) -> tuple[int, TemplateCache]:
        template, after = choose(view, cache)
        assert template is not None
        return template.node.allocatable.get("nvidia.com/gpu", 0), after

    def test_have_time_to_get_them(self) -> None:
        found, cache = self.gpus(self.view(age_s=899))
        assert (found, source_of(cache)) == (1, TemplateSource.PROVIDER)

    def test_are_taken_as_they_are_after_that(self) -> None:
        found, cache = self.gpus(self.view(age_s=900))
        assert (found, source_of(cache)) == (0, TemplateSource.INCOMPLETE_NODE)
        found, cache = self.gpus(self.view(age_s=0, gone=True), cache)
        assert (found, source_of(cache)) == (0, TemplateSource.CACHE)

    def test_are_forgotten_once_other_daemons_may_bring_them(self) -> None:
        _, cache = self.gpus(self.view(age_s=900))
        found, cache = self.gpus(self.view(age_s=0, gone=True, daemons=[a_daemon_set("driver")]), cache)
        assert (found, source_of(cache)) == (1, TemplateSource.PROVIDER)

    def test_are_given_another_chance_after_some_hours(self) -> None:
        _, cache = self.gpus(self.view(age_s=900))
        later = NOW.later(HealthOptions().node_group_backoff_reset_timeout_s)
        template, _ = choose(self.view(age_s=0, gone=True), cache, now=later)
        assert template is not None
        assert "nvidia.com/gpu" not in template.node.allocatable
        template, _ = choose(self.view(age_s=0, gone=True), cache, now=later.later(1))
        assert template is not None
        assert template.node.allocatable["nvidia.com/gpu"] == 1

    @pytest.mark.parametrize(
        ("ages_s", "gpus"),
        [
            pytest.param([2000.0], 1, id="one failure among good nodes proves nothing"),
            pytest.param([2000.0, 1000.0], 0, id="the latest two do"),
            pytest.param([9000.0, 1000.0], 1, id="one of them before the last good node does not count"),
        ],
    )
    def test_beside_nodes_in_good_order(self, ages_s: list[float], gpus: int) -> None:
        working, t4 = {"nvidia.com/gpu": "1"}, {"gpu": "t4"}
        good = an_example("good", labels=t4, created=NOW.wall - 5000, allocatable=working)
        bare = [an_example(f"bare-{age_s}", labels=t4, created=NOW.wall - age_s) for age_s in ages_s]
        found, cache = self.gpus(a_view([good, *bare], cloud=self.PROMISE, gpu_label="gpu"))
        assert found == gpus
        found, _ = self.gpus(a_view([good], cloud=self.PROMISE, gpu_label="gpu"), cache)
        assert found == gpus, "and that is remembered when they are gone"


def test_the_cache_knows_how_many_pools_of_devices_the_example_has() -> None:
    view = a_view([an_example("a")])
    slices = [a_slice("a"), a_slice("a", pool="second"), a_slice("a", pool="third", slices=2), a_slice("b")]
    with_slices = msgspec.structs.replace(view, related=with_devices(slices))
    _, cache = choose(with_slices)
    assert cache.pools == {"web": {GPUS: (1, 1)}}
    _, later = choose(a_view([]), cache)
    assert (source_of(later), later.pools) == (TemplateSource.CACHE, {"web": {GPUS: (1, 1)}})
    _, without = choose(view, cache)
    assert without.pools == {}


def test_a_cloud_promises_no_pools_of_devices() -> None:
    _, cache = choose(a_view([]))
    assert (source_of(cache), cache.pools) == (TemplateSource.PROVIDER, {})


def limited(name: str, **limits: int | None) -> CsiNode:
    drivers = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in limits.items()
    ]
    return plain_decoder(CsiNode).one({"metadata": {"name": name}, "spec": {"drivers": drivers}})


def with_csi_nodes(view: ClusterView, *csi_nodes: CsiNode) -> ClusterView:
    related = msgspec.structs.replace(view.related, csi_nodes={one.name: one for one in csi_nodes})
    return msgspec.structs.replace(view, related=related)


def told_devices(**spec: object) -> ClusterView:
    return a_view(cloud=msgspec.structs.replace(CLOUD, resource_slices=[{"spec": {"driver": GPUS, **spec}}]))


def test_devices_of_a_node_from_zero_are_its_own_and_complete() -> None:
    pool = {"name": "gpus", "generation": 3, "resourceSliceCount": 7}
    template, cache = choose(told_devices(devices=[{"name": "gpu-0"}, {"name": "gpu-1"}], pool=pool, allNodes=True))
    assert template is not None
    (found,) = template.pools
    assert (found.label, [device.name for device in found.devices()]) == (f"{GPUS}/gpus", ["gpu-0", "gpu-1"])
    assert found.slices[0].spec.node_name == template.node.name
    assert cache.pools == {"web": {GPUS: (2,)}}
    again, _ = choose(told_devices(devices=[{"name": "gpu-0"}, {"name": "gpu-1"}], pool=pool, allNodes=True), cache)
    assert again is template


def test_devices_from_zero_that_cannot_be_read_are_a_fault_of_the_description() -> None:
    template, cache = choose(told_devices(devices=7))
    assert template is None
    assert "devices" in cache.faults["web"]


def test_devices_from_zero_can_be_left_out() -> None:
    options, rules, view = TemplateOptions(), Rules(), told_devices(devices=[{"name": "gpu-0"}])
    terms = TemplateTerms(options, HealthOptions(), rules, INTERNER, devices=False)
    readings = read(view.nodes, ready_terms(options, "", rules))
    templates, _ = choose_templates(view, readings, TemplateCache(), terms, NOW)
    assert templates["web"].pools == ()


TOLD = msgspec.structs.replace(CLOUD, attach_limits={"disk": 7, "share": 2})


@pytest.mark.parametrize(
    ("nodes", "csi_node", "expected"),
    [
        pytest.param([], None, {"disk": 7, "share": 2}, id="what the cloud says"),
        pytest.param(["a"], None, {"disk": 7, "share": 2}, id="what the cloud says before the node says anything"),
        pytest.param(["a"], limited("a", disk=3, tape=1), {"disk": 3, "share": 2, "tape": 1}, id="what the node says"),
        pytest.param(["a"], limited("a", disk=None), {"disk": 7, "share": 2}, id="a driver without a limit"),
        pytest.param(["a"], limited("b", disk=3), {"disk": 7, "share": 2}, id="not what another node says"),
    ],
)
def test_limits_of_volumes(nodes: list[str], csi_node: CsiNode | None, expected: dict[str, int]) -> None:
    view = a_view([an_example(name) for name in nodes], cloud=TOLD)
    template, _ = choose(with_csi_nodes(view, *([] if csi_node is None else [csi_node])))
    assert template is not None
    assert template.attach_limits == expected


def test_limits_of_volumes_follow_the_node_and_outlive_it() -> None:
    view = a_view([an_example("a")])
    _, cache = choose(view)
    limits = []
    for seen in (with_csi_nodes(view, limited("a", disk=3)), with_csi_nodes(view, limited("a", disk=4)), a_view()):
        template, cache = choose(seen, cache)
        assert template is not None
        limits.append(template.attach_limits)
    assert limits == [{"disk": 3}, {"disk": 4}, {"disk": 4}]


def test_limits_of_volumes_can_be_left_out() -> None:
    options, rules, view = TemplateOptions(), Rules(), a_view(cloud=TOLD)
    readings = read(view.nodes, ready_terms(options, "", rules))
    terms = TemplateTerms(options, HealthOptions(), rules, INTERNER, attach_limits=False)
    templates, _ = choose_templates(view, readings, TemplateCache(), terms, NOW)
    assert templates["web"].attach_limits == {}


@pytest.mark.parametrize(
    ("cloud", "nodes", "expected"),
    [
        pytest.param((), {}, set(), id="nothing is known"),
        pytest.param(("A",), {}, {"A"}, id="what the cloud says"),
        pytest.param((), {"web": ("A", "B"), "other": ("B",)}, {"A", "B"}, id="what a node of the group declares"),
        pytest.param(("C",), {"web": ("A",)}, {"A"}, id="not what the cloud says of a group with nodes"),
        pytest.param((), {"other": ("A", "B"), "more": ("B",)}, {"B"}, id="what all other nodes declare"),
        pytest.param((), {"other": ("A", "B"), "more": ()}, set(), id="what not every other node declares"),
        pytest.param(("A",), {"other": ("B",)}, {"A"}, id="the cloud before other nodes"),
    ],
)
def test_features_that_a_new_node_declares(
    cloud: tuple[str, ...], nodes: dict[str, tuple[str, ...]], expected: set[str]
) -> None:
    told = msgspec.structs.replace(CLOUD, declared_features=cloud)
    made = [an_example(name, features=has) for name, has in nodes.items()]
    view = a_view(made, cloud=told, foreign=("other", "more"))
    template, _ = choose(view)
    assert template is not None
    assert template.node.declared_features == expected


def test_features_of_a_new_node_follow_the_nodes_there_are() -> None:
    _, cache = choose(a_view(cloud=CLOUD))
    template, _ = choose(a_view([an_example("other", features="A")], foreign=("other",)), cache)
    assert template is not None
    assert template.node.declared_features == {"A"}


@pytest.mark.parametrize(
    ("nodes", "csi_node", "expected"),
    [
        pytest.param([], None, None, id="nobody knows"),
        pytest.param(["a"], None, None, id="the node has said nothing yet"),
        pytest.param(["a"], limited("a", disk=3, tape=None), {"disk", "tape"}, id="what the node says"),
        pytest.param(["a"], limited("a"), set(), id="the node runs none"),
        pytest.param(["a"], limited("b", disk=3), None, id="not what another node says"),
    ],
)
def test_csi_drivers_of_a_new_node(nodes: list[str], csi_node: CsiNode | None, expected: set[str] | None) -> None:
    view = a_view([an_example(name) for name in nodes], cloud=TOLD)
    template, cache = choose(with_csi_nodes(view, *([] if csi_node is None else [csi_node])))
    assert template is not None
    assert template.csi_drivers == expected
    assert cache.csi_drivers == ({"web": expected} if expected else {})
