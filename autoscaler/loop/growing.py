"""Find the pods that need nodes, decide which groups grow, and grow them."""

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.config.scaleup import GroupsPerPass
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.buffering import Buffering
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.passing import PassState
from autoscaler.loop.provisioning import Provisioning
from autoscaler.loop.repairing import Repairing
from autoscaler.loop.resizing import Resizing
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe import event_texts
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.registry import memory as memories
from autoscaler.scaledown.displaced_pods import displaced
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.expander import ExpanderChain, ExpanderInputs, build_chain
from autoscaler.scaleup.grpc_expander import GrpcExpander, RemoteExpander
from autoscaler.scaleup.limits import allowance
from autoscaler.scaleup.minimum_size import plan_minimum_sizes
from autoscaler.scaleup.pause_pods import filter_yielding
from autoscaler.scaleup.pending import UnschedulablePods, all_new, expendable, planned, sort_pending, too_young
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan, continued
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scaleup.priority import config_map_in
from autoscaler.scaleup.similarity import comparison, similar_groups
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING

_LONGEST_S = 60.0
"""Seconds after which a pass that is still trying one failing group after the other leaves the rest to the next."""


def counted_nodes(p: PassState, config: Config) -> tuple[Node, ...]:
    """Return the nodes that limits of the cluster count: those not counted as upcoming, or, by rule, ready ones."""
    if config.rules.limits_count_group_targets:
        return tuple(p.registry.readings.ready())
    elsewhere = {name for names in p.registry.upcoming_registered.values() for name in names}
    return tuple(node for node in p.view.nodes if node.name not in elsewhere)


class Growing:
    """Buys nodes."""

    def __init__(
        self,
        config: Config,
        cloud: Cloud,
        repairing: Repairing,
        herald: PassEventWriter,
        provisioning: Provisioning,
        buffering: Buffering,
        remote: RemoteExpander | None = None,
    ) -> None:
        self._config = config
        self._provisioning = provisioning
        self._buffering = buffering
        self._cloud = cloud
        self._repairing = repairing
        self._resizing = Resizing(config, cloud, herald)
        self._herald = herald
        self._remote = remote
        profile = profile_of(config.scheduler, config.rules, device_claims=config.device_claims_count)
        self._profile = replace(profile, most_work=config.pods.max_pod_evaluation_work)

    def simulate(self, p: PassState) -> PassState:
        """Return the pass with a simulated cluster: its upcoming nodes are there, and nothing has moved yet."""
        return replace(p, placer=self._simulated(p))

    def run(self, p: PassState) -> PassState:
        """Return the pass with pods sorted and groups grown; a failed scale-up ends it where the rules say so."""
        with p.time.phase("filter_schedulable"):
            p, needy = self._needy(self._buffering.filled(p))
            needy = self._provisioning.without_consumers(needy)
        young = {pod.key: Waiting.TOO_YOUNG for pod in needy.pods if too_young(pod, self._config.pods, p.report.now)}
        p = p.with_report(replace(p.report, needy=needy.pods, waiting={**needy.waiting, **young}))
        pods = tuple(pod for pod in needy.pods if pod.key not in young)
        held_back = self._held_back(p, pods)
        p, requests = self._provisioning.taken(p)
        if requests and not self._config.rules.requests_force_scale_up:
            held_back = self._held_back(p, (*pods, *(pod for _, asked_for in requests for pod in asked_for)))
            requests = requests if held_back is None else ()
        if requests and self._provisioning.goes_first(p, pods_wait=held_back is None and bool(pods)):
            with p.time.phase("scale_up"):
                return self._provisioning.served(p, requests, self._bought_whole)
        if held_back is not None:
            return p.with_report(replace(p.report, scale_up_result=held_back))
        with p.time.phase("scale_up"):
            return self._provisioning.turned(self._decided(p, pods), pods_next=False)

    def raise_to_minimum(self, p: PassState) -> PassState:
        """Return the pass with groups below their minimum raised, where that is asked for."""
        if not self._config.scale_up.enforce_node_group_min_size:
            return p
        increases = plan_minimum_sizes(self.situation(self._repairing.judged_again(p)), self._config.rules)
        if not increases:
            return p
        before = p.report.scale_up_result
        p, done = self._resizing.run(p, increases)
        failures = [one.error for one in done if one.error is not None]
        if not failures:
            p = p.with_memory(memories.scale_up_succeeded(p.remembered.registry, p.report.now))
        result = ScaleUpResult.ERROR if failures or before is ScaleUpResult.ERROR else ScaleUpResult.SUCCESSFUL
        error = p.report.scale_up_error or event_texts.resize_errors(failures)
        p = p.with_report(replace(p.report, scale_up_result=result, scale_up_error=error))
        if failures and self._config.rules.return_min_size_error:
            return p.failed(ErrorType.CLOUD_PROVIDER, event_texts.resize_errors(failures))
        return p

    def plan_for(self, p: PassState, pods: Sequence[Pod], situation: ScaleUpContext) -> ScaleUpPlan:
        """Decide how to find room for pods that have to leave their nodes, in as many groups as that takes."""
        assert p.placer is not None
        options = replace(self._config.scale_up, groups_per_pass=GroupsPerPass.ALL)
        _, chain = self._chain(p)  # nothing is chosen yet, so luck stays
        return plan_scale_up(p.placer, pods, situation, chain, options, self._config.rules)

    def buy(self, p: PassState, increases: Sequence[Increase]) -> tuple[PassState, tuple[Resized, ...]]:
        """Carry out increases; no cool-down begins, and the result of the pass stays."""
        return self._resizing.run(p, increases)

    def _simulated(self, p: PassState) -> Placer:
        """Return the cluster with its upcoming nodes, those that registered but have not started counted only once."""
        trial = Trial(p.view)
        for group_id, count in p.registry.upcoming.items():
            template = p.report.templates.get(group_id)
            if template is None:
                continue
            for name in p.registry.upcoming_registered.get(group_id, ()):
                trial.remove(p.view.positions[name])
            trial.add(template, count, UPCOMING, numbered=0)
        return Placer(trial, self._profile)

    def _needy(self, p: PassState) -> tuple[PassState, UnschedulablePods]:
        """Return the pods that need nodes, and the pass with what fits, then what requests hold, in its place."""
        config, placer = self._config, p.placer
        assert placer is not None
        found = sort_pending(p.view.pending, config.pods, config.rules)
        for pod in found.nominated:
            position = p.view.positions.get(pod.nominated_node or "")
            if position is not None and not expendable(pod, config.pods.expendable_pods_priority_cutoff):
                placer.place(pod.cls, position)
        moving = self._displaced(p)
        pods = (*found.unschedulable, *found.unprocessed, *moving, *p.room)
        needy = filter_yielding(placer, pods, config.pods, p.remembered.hints, config.rules, p.report.now)
        p = replace(p, housed=_housed(moving, needy, p.under_way.nodes))
        nominated = {pod.key: Waiting.NOMINATED for pod in found.nominated}
        keys = {pod.key for pod in moving}
        verdicts = {key: why for key, why in needy.waiting.items() if key not in keys}
        needy = replace(needy, waiting={**found.waiting, **nominated, **verdicts})
        return self._provisioning.booked(replace(p, remembered=replace(p.remembered, hints=needy.hints))), needy

    def _displaced(self, p: PassState) -> tuple[Pod, ...]:
        """Return pods of nodes being removed; those of replaced nodes have had room bought for them."""
        replaced = () if p.remembered.replacements is None else p.remembered.replacements.in_progress
        names = p.under_way.nodes - {name for one in replaced for name in one.nodes}
        return displaced(p.view, names, p.report.now.wall, self._config.rules)

    def _held_back(self, p: PassState, pods: Sequence[Pod]) -> ScaleUpResult | None:
        """Return why no scale-up is tried; None where one is."""
        config = self._config
        if not pods:
            return ScaleUpResult.NOT_NEEDED
        ready = sum(1 for _ in p.registry.readings.ready())
        if 0 < config.limits.max_nodes_total <= ready:
            if not config.rules.max_nodes_total_result_limited:
                return ScaleUpResult.NO_OPTIONS
            self._herald.no_more_nodes(pods, config.limits.max_nodes_total)
            return ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        work = [pod for pod in pods if pod.cls.headroom is None]
        if not config.pods.bypassed_scheduler_names and all_new(work, p.report.now):
            return ScaleUpResult.IN_COOLDOWN
        return None

    def _decided(self, p: PassState, pods: Sequence[Pod]) -> PassState:
        """Plan and resize; where resizes fail, plan again for the pods that this leaves without nodes.

        A group that failed is backed off, so each fails once at most; what has grown is counted on.
        """
        simulated, out_of_time = p.placer, p.time.box(TimeBox.FAILED_SCALE_UPS, _LONGEST_S)
        last, p, done = self._attempt(p, pods)
        plan, wanted = last, {pod.key for pod in last.triggered}
        while self._others_may_help(done, out_of_time):
            p, pods = self._left(p, plan, pods)
            last, p, done = self._attempt(p, pods)
            plan = continued(plan, last, pods, p.report.refused)
            wanted.update(pod.key for pod in last.triggered)
        missed = wanted.difference(pod.key for pod in last.triggered)
        lost = any(one.error is not None for one in done) or any(pod.key in missed for pod in pods)
        return self._concluded(replace(p, placer=simulated), plan, lost=lost)

    def _attempt(self, p: PassState, pods: Sequence[Pod]) -> tuple[ScaleUpPlan, PassState, tuple[Resized, ...]]:
        """Return a plan for the pods, the pass with its increases, and what became of these."""
        config = self._config
        p, chain = self._chain(p)
        assert p.placer is not None
        situation = self.situation(p)
        with p.time.phase("estimate"):
            plan = plan_scale_up(p.placer, pods, situation, chain, config.scale_up, config.rules)
        self._herald.expanders(plan)
        if plan.capped_by_nodes_total:
            self._herald.nodes_total_reached(config.limits.max_nodes_total)
        return (plan, *self._resizing.run(p, plan.increases))

    def _others_may_help(self, done: Sequence[Resized], out_of_time: Callable[[], bool]) -> bool:
        """Whether to look for another group now: not while the cloud wants fewer calls, is slow, or may have agreed."""
        failed = any(one.error is not None for one in done)
        welcome = self._resizing.carries_on and not any(one.hold for one in done)
        return failed and welcome and not out_of_time()

    def _left(self, p: PassState, plan: ScaleUpPlan, pods: Sequence[Pod]) -> tuple[PassState, tuple[Pod, ...]]:
        """Return the pass with groups as they are by now, and the pods that neither their nodes nor others can take."""
        p = self._repairing.judged_again(p)
        p = replace(p, remembered=replace(p.remembered, hints=planned(p.remembered.hints, plan)))
        p, needy = self._needy(replace(p, placer=self._simulated(p)))
        asking = {pod.key for pod in pods}
        return p, tuple(pod for pod in needy.pods if pod.key in asking)

    def _concluded(self, p: PassState, plan: ScaleUpPlan, *, lost: bool) -> PassState:
        """Return the pass with the scale-up in its report; it failed where pods `lost` the nodes meant for them."""
        report, rules = p.report, self._config.rules
        failures = [one.error for one in report.increases if one.error is not None]
        result = ScaleUpResult.ERROR if lost else plan.result
        error = event_texts.resize_errors(failures) if failures else plan.error
        p = p.with_report(replace(report, scale_up=plan, scale_up_result=result, scale_up_error=error))
        grown = self._resizing.carries_on and any(one.after > one.before for one in report.increases)
        if grown or result is ScaleUpResult.SUCCESSFUL:
            p = p.with_memory(memories.scale_up_succeeded(p.remembered.registry, report.now))
            p = replace(p, remembered=replace(p.remembered, hints=planned(p.remembered.hints, plan)))
        self._herald.pods(plan, result, report.refused)
        if result is ScaleUpResult.ERROR and rules.return_scale_up_error:
            return p.failed(ErrorType.CLOUD_PROVIDER, error)
        return p

    def _bought_whole(self, p: PassState, pods: Sequence[Pod]) -> PassState:
        """Buy nodes of one group, and of those like it, for all the pods, or none."""
        config, situation = self._config, self.situation(p)
        p, chain = self._chain(p)
        assert p.placer is not None
        with p.time.phase("estimate"):
            plan = plan_scale_up(p.placer, pods, situation, chain, config.scale_up, config.rules, all_or_nothing=True)
        self._herald.expanders(plan)
        if plan.capped_by_nodes_total:
            self._herald.nodes_total_reached(config.limits.max_nodes_total)
        p, done = self._resizing.run(p, plan.increases, atomic=True)
        failures = [one.error for one in done if one.error is not None]
        result = ScaleUpResult.ERROR if failures else plan.result
        error = event_texts.resize_errors(failures) if failures else plan.error
        if result is ScaleUpResult.SUCCESSFUL:
            p = p.with_memory(memories.scale_up_succeeded(p.remembered.registry, p.report.now))
        return p.with_report(replace(p.report, scale_up=plan, scale_up_result=result, scale_up_error=error))

    def situation(self, p: PassState) -> ScaleUpContext:
        """Return the groups as a scale-up finds them now."""
        config, view, registry = self._config, p.view, p.registry
        groups = view.groups.sized(registry.targets)
        nodes = counted_nodes(p, config)
        balancing = config.balancing
        return ScaleUpContext(
            groups=groups,
            templates=p.report.templates,
            states=registry.groups,
            allowance=allowance(config.limits, config.rules, groups, p.report.templates, nodes, registry.upcoming),
            present=len(nodes) + sum(registry.upcoming.values()),
            max_nodes_total=config.limits.max_nodes_total,
            similar=similar_groups(p.report.templates, comparison(balancing, self._cloud.provider.name))
            if balancing.balance_similar_node_groups
            else {},
        )

    def _chain(self, p: PassState) -> tuple[PassState, ExpanderChain]:
        """Return the expanders for one plan, and the pass whose next plan has other luck."""
        config = self._config
        supplies = ExpanderInputs(
            dice=p.remembered.luck.dice(),
            tie_break=config.scale_up.tie_break,
            rules=config.rules,
            cluster_nodes=len(p.view.nodes),
            gpu_label=p.view.groups.gpu_label,
            prices=self._cloud.prices(),
            priorities=config_map_in(p.view.related.config_maps, config.kube.namespace),
            remote=None
            if self._remote is None
            else GrpcExpander(self._remote, p.report.templates, empty_declines=config.rules.grpc_empty_answer_declines),
        )
        p = replace(p, remembered=replace(p.remembered, luck=p.remembered.luck.next()))
        return p, build_chain(config.scale_up.expander, supplies)


def _housed(moving: Sequence[Pod], needy: UnschedulablePods, leaving: Collection[str]) -> frozenset[str]:
    """Return which pods have found room on nodes that stay."""
    fits = (Waiting.FITS, Waiting.TAKES_HEADROOM)
    return frozenset(
        pod.key for pod in moving if needy.waiting.get(pod.key) in fits and needy.hints.get(pod) not in leaving
    )
