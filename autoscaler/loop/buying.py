"""Plans a scale-up on the simulated cluster and resizes the groups; writes events and updates the memory."""

from collections.abc import Sequence

from msgspec.structs import replace

from autoscaler.config.expanders import PREFERRED
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass
from autoscaler.config.tree import Config
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.stages import Observed, ObservedT, Simulated, SimulatedT, remember
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe import event_texts
from autoscaler.observe.report import ScaleUpReport
from autoscaler.reasons import ScaleUpResult
from autoscaler.registry import memory as memories
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.memory import Memory
from autoscaler.registry.state import Registry
from autoscaler.scaledown.pause import paused_groups
from autoscaler.scaleup.capacity_quotas import NO_QUOTAS, Quotas, obeyed
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.expander import ExpanderChain, ExpanderInputs, build_chain
from autoscaler.scaleup.gang_planner import GangDemand, plan_with_gangs
from autoscaler.scaleup.gangs import Gang, GangCensus
from autoscaler.scaleup.grpc_expander import GrpcExpander
from autoscaler.scaleup.limits import allowance
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scaleup.preferred import PreferredExpander
from autoscaler.scaleup.priority import config_map_in
from autoscaler.scaleup.similarity import comparison, similar_groups
from autoscaler.snapshot.cluster import ClusterView


def counted_nodes(view: ClusterView, registry: Registry, rules: Rules) -> tuple[Node, ...]:
    """Return the nodes that count towards cluster limits: all but the upcoming ones, or only the ready ones if the
    rules say so.
    """
    if rules.limits_count_group_targets:
        return tuple(registry.readings.ready())
    upcoming = {name for names in registry.upcoming_registered.values() for name in names}
    return tuple(node for node in view.nodes if node.name not in upcoming)


def quotas_in(view: ClusterView, config: Config) -> Quotas:
    """Return the CapacityQuotas that limit what is bought."""
    return obeyed(view.related.capacity_quotas.values()) if config.limits.capacity_quotas_enabled else NO_QUOTAS


def tries_other_groups(config: Config) -> bool:
    """Whether the same pass tries other groups after an increase fails."""
    several = config.scale_up.groups_per_pass is not GroupsPerPass.ONE
    return config.rules.next_group_after_failed_increase and several


class Buying:
    """Increases group sizes, one group after the other or all at the same time (`--parallel-scale-up`)."""

    def __init__(self, ports: PassPorts) -> None:
        self._cloud = ports.cloud
        self._events = ports.events
        self._remote = ports.remote

    def context(self, stage: Observed) -> ScaleUpContext:
        """Return the current state of the groups as input for a scale-up plan."""
        config, registry = stage.config, stage.registry
        groups = stage.view.groups.sized(registry.targets)
        nodes = counted_nodes(stage.view, registry, config.rules)
        balancing, quotas = config.balancing, quotas_in(stage.view, config)
        replacements = stage.memory.replacements
        return ScaleUpContext(
            groups=groups,
            templates=stage.templates,
            states=registry.groups,
            allowance=allowance(config.limits, config.rules, groups, stage.templates, nodes, registry.upcoming, quotas),
            present=len(nodes) + sum(registry.upcoming.values()),
            max_nodes_total=config.limits.max_nodes_total,
            paused=paused_groups(stage.pauses, groups),
            cooling=frozenset() if replacements is None else frozenset(replacements.cooling),
            quotas=quotas,
            similar=similar_groups(stage.templates, comparison(balancing, self._cloud.provider.name))
            if balancing.balance_similar_node_groups
            else {},
        )

    def plan_room(self, stage: Simulated, pods: Sequence[Pod], context: ScaleUpContext) -> ScaleUpPlan:
        """Plan room for pods that must leave their nodes, in as many groups as necessary."""
        options = replace(stage.config.scale_up, groups_per_pass=GroupsPerPass.ALL)
        _, chain = self._chain(stage)  # no option has been chosen yet, so the seed does not change
        return plan_scale_up(stage.placer, pods, context, chain, options, stage.config.rules)

    def attempt(
        self, stage: SimulatedT, pods: Sequence[Pod], *, atomic: bool = False
    ) -> tuple[SimulatedT, ScaleUpPlan, tuple[Resized, ...]]:
        """Plan nodes for the pods and buy them. With `atomic`, one group and groups like it must take all the pods;
        otherwise nothing is bought.

        Returns the stage with the increases, the plan, and the result of each increase.
        """
        config = stage.config
        stage, chain = self._chain(stage)
        with stage.time.phase("estimate"):
            gangs = self._gangs(stage, pods) if config.gangs_count and not atomic else ()
            context, options, rules = self.context(stage), config.scale_up, config.rules
            if gangs:
                demand = GangDemand(tuple(pods), gangs)
                plan = plan_with_gangs(stage.placer, demand, context, chain, options, rules)
            else:
                plan = plan_scale_up(stage.placer, pods, context, chain, options, rules, all_or_nothing=atomic)
        self._events.expanders(plan)
        if plan.capped_by_nodes_total:
            self._events.nodes_total_reached(config.limits.max_nodes_total)
        stage, done = self.buy(stage, plan.increases, atomic=atomic)
        return stage, plan, done

    def _gangs(self, stage: Simulated, pods: Sequence[Pod]) -> tuple[Gang, ...]:
        if all(pod.cls.gang is None for pod in pods):
            return ()
        candidates = (*stage.view.pending, *stage.fake_pods)
        return GangCensus(candidates, stage.view, stage.placer.trial).gangs(pods)

    def buy(
        self, stage: ObservedT, increases: Sequence[Increase], *, atomic: bool = False
    ) -> tuple[ObservedT, tuple[Resized, ...]]:
        """Try the increases; return the stage with each increase that was tried, and their results. No cool-down
        begins.

        Successful increases are kept even if others fail. The remaining increases are not tried after a result that
        asks to wait, nor, if the rules say so, after any failure.
        """
        config = stage.config
        done: list[Resized] = []
        step = max(1, len(increases)) if config.scale_up.parallel_scale_up else 1
        for start in range(0, len(increases), step):
            together = increases[start : start + step]
            for increase in together:
                self._events.resizing(increase)
            for increase, resized in zip(together, self._cloud.increase_together(together, atomic=atomic), strict=True):
                stage = remember(stage, registry=_noted(stage, increase, resized))
                self._events.resized(resized, increase.max_size)
                done.append(resized)
            if any(resized.hold or (resized.error is not None and not tries_other_groups(config)) for resized in done):
                break
        return replace(stage, increases=(*stage.increases, *done)), tuple(done)

    def _chain(self, stage: SimulatedT) -> tuple[SimulatedT, ExpanderChain]:
        """Return the stage with the seed of the next plan, and the chain of expanders for one plan."""
        config, seed = stage.config, stage.memory.luck
        prices = self._cloud.prices()
        weighs = config.scale_up.weigh_soft_constraints or PREFERRED in config.scale_up.expander
        inputs = ExpanderInputs(
            dice=seed.dice(),
            tie_break=config.scale_up.tie_break,
            rules=config.rules,
            cluster_nodes=len(stage.view.nodes),
            gpu_label=stage.view.groups.gpu_label,
            prices=prices,
            priorities=config_map_in(stage.view.related.config_maps, config.kube.namespace),
            preferred=PreferredExpander(stage.placer, prices, config.scale_up.soft_constraint_price_margin)
            if weighs
            else None,
            remote=None
            if self._remote is None
            else GrpcExpander(self._remote, stage.templates, empty_declines=config.rules.grpc_empty_answer_declines),
        )
        return remember(stage, luck=seed.next()), build_chain(config.scale_up.expander, inputs)


def scale_up_report(plan: ScaleUpPlan, done: Sequence[Resized], result: ScaleUpResult) -> ScaleUpReport:
    """Return the report of a plan and its increases.

    Some increases may have failed even though others replaced them.
    """
    errors = [resized.error for resized in done if resized.error is not None]
    return ScaleUpReport(
        result=result,
        plan=plan,
        error=event_texts.resize_errors(errors) if errors else plan.error,
    )


def _noted(stage: Observed, increase: Increase, resized: Resized) -> Memory:
    """Return the memory of groups after a resize.

    The size that was read back counts, even if the call returned an error.
    """
    health, now, memory = stage.config.health, stage.now, stage.memory.registry
    group = stage.view.groups.get(increase.group)
    provision_s = health.max_node_provision_time_s if group is None else provision_time_s(group, health)
    grown = resized.after - resized.before
    if grown > 0:
        memory = memories.scaled_up(memory, increase.group, grown, now, provision_s)
    if resized.error is not None:
        memory = memories.scale_up_failed(memory, increase.group, resized.error, now, health)
    return memory
