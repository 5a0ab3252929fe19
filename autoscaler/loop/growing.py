"""The third step: find the pods that need nodes, decide which groups grow, and grow them."""

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.clock import stopwatch
from autoscaler.config.tree import Config
from autoscaler.loop.herald import Herald
from autoscaler.loop.passing import Pass
from autoscaler.loop.repairing import Repairing
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe.metric_table import ErrorType
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.registry import memory as memories
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.memory import Memory
from autoscaler.scaleup.consulting import Consulting, RemoteExpander
from autoscaler.scaleup.expander import Chain, Supplies, build_chain
from autoscaler.scaleup.limits import allowance
from autoscaler.scaleup.minimum import plan_minimum_sizes
from autoscaler.scaleup.pending import Needy, all_new, expendable, filter_schedulable, planned, sort_pending, too_young
from autoscaler.scaleup.plan import Increase, Resized
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scaleup.price import ProviderPrices
from autoscaler.scaleup.priority import config_map_in
from autoscaler.scaleup.similarity import comparison, similar_groups
from autoscaler.scaleup.situation import Situation
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING
from cloudprovider.interface import Pricing


class Growing:
    """Buys nodes."""

    def __init__(
        self,
        config: Config,
        cloud: Cloud,
        repairing: Repairing,
        herald: Herald,
        remote: RemoteExpander | None = None,
    ) -> None:
        self._config = config
        self._cloud = cloud
        self._repairing = repairing
        self._herald = herald
        self._remote = remote
        self._random = Random(config.scale_up.expander_seed)
        claims = config.features.enable_dynamic_resource_allocation
        self._profile = profile_of(config.scheduler, config.rules, device_claims=claims)

    def run(self, p: Pass) -> Pass:
        """Return the pass with pods sorted and groups grown; a failed resize ends it where the rules say so."""
        began = stopwatch()
        p = replace(p, placer=self._simulated(p))
        p, needy = self._needy(p)
        p = p.timed("filter_schedulable", began)
        began = stopwatch()
        young = {pod.key: Waiting.TOO_YOUNG for pod in needy.pods if too_young(pod, self._config.pods, p.report.now)}
        p = p.with_report(replace(p.report, needy=needy.pods, waiting={**needy.waiting, **young}))
        pods = tuple(pod for pod in needy.pods if pod.key not in young)
        held_back = self._held_back(p, pods)
        if held_back is not None:
            return p.with_report(replace(p.report, scale_up_result=held_back))
        return self._decided(p, pods).timed("scale_up", began)

    def raise_to_minimum(self, p: Pass) -> Pass:
        """Return the pass with groups below their minimum raised, where that is asked for."""
        if not self._config.scale_up.enforce_node_group_min_size:
            return p
        increases = plan_minimum_sizes(self._situation(self._repairing.judged_again(p)), self._config.rules)
        if not increases:
            return p
        before = p.report.scale_up_result
        p = self._grown(p, increases)
        failed = ScaleUpResult.ERROR in (before, p.report.scale_up_result)
        result = ScaleUpResult.ERROR if failed else ScaleUpResult.SUCCESSFUL
        return p.with_report(replace(p.report, scale_up_result=result))

    def _simulated(self, p: Pass) -> Placer:
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

    def _needy(self, p: Pass) -> tuple[Pass, Needy]:
        config, placer = self._config, p.placer
        assert placer is not None
        found = sort_pending(p.view.pending, config.pods, config.rules)
        for pod in found.nominated:
            position = p.view.positions.get(pod.nominated_node or "")
            if position is not None and not expendable(pod, config.pods.expendable_pods_priority_cutoff):
                placer.place(pod.cls, position)
        pods = (*found.unschedulable, *found.unprocessed)
        needy = filter_schedulable(placer, pods, config.pods, p.remembered.hints, config.rules)
        nominated = {pod.key: Waiting.NOMINATED for pod in found.nominated}
        needy = replace(needy, waiting={**found.waiting, **nominated, **needy.waiting})
        return replace(p, remembered=replace(p.remembered, hints=needy.hints)), needy

    def _held_back(self, p: Pass, pods: Sequence[Pod]) -> ScaleUpResult | None:
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
        if not config.pods.bypassed_scheduler_names and all_new(pods, p.report.now):
            return ScaleUpResult.IN_COOLDOWN
        return None

    def _decided(self, p: Pass, pods: Sequence[Pod]) -> Pass:
        config = self._config
        assert p.placer is not None
        plan = plan_scale_up(p.placer, pods, self._situation(p), self._chain(p), config.scale_up, config.rules)
        p = p.with_report(replace(p.report, scale_up=plan, scale_up_result=plan.result, scale_up_error=plan.error))
        self._herald.expanders(plan)
        if plan.capped_by_nodes_total:
            self._herald.nodes_total_reached(config.limits.max_nodes_total)
        if plan.increases:
            p = self._grown(p, plan.increases)
            if p.report.scale_up_result is ScaleUpResult.SUCCESSFUL:
                p = replace(p, remembered=replace(p.remembered, hints=planned(p.remembered.hints, plan)))
        self._herald.pods(plan, p.report.scale_up_result)
        if p.report.scale_up_result is ScaleUpResult.ERROR and config.rules.return_scale_up_error:
            return p.failed(ErrorType.CLOUD_PROVIDER, p.report.scale_up_error)
        return p

    def _situation(self, p: Pass) -> Situation:
        config, view, registry = self._config, p.view, p.registry
        groups = view.groups.sized(registry.targets)
        only_ready = config.rules.limits_count_group_targets
        nodes = tuple(registry.readings.ready()) if only_ready else self._standing(p)
        balancing = config.balancing
        return Situation(
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

    def _standing(self, p: Pass) -> tuple[Node, ...]:
        """Return nodes that are not counted as upcoming instead."""
        elsewhere = {name for names in p.registry.upcoming_registered.values() for name in names}
        return tuple(node for node in p.view.nodes if node.name not in elsewhere)

    def _chain(self, p: Pass) -> Chain:
        config, provider = self._config, self._cloud.provider
        supplies = Supplies(
            source=self._random,
            tie_break=config.scale_up.tie_break,
            rules=config.rules,
            cluster_nodes=len(p.view.nodes),
            gpu_label=p.view.groups.gpu_label,
            prices=ProviderPrices(provider) if isinstance(provider, Pricing) else None,
            priorities=config_map_in(p.view.related.config_maps, config.kube.namespace),
            remote=None
            if self._remote is None
            else Consulting(self._remote, p.report.templates, empty_declines=config.rules.grpc_empty_answer_declines),
        )
        return build_chain(config.scale_up.expander, supplies)

    def _grown(self, p: Pass, increases: Sequence[Increase]) -> Pass:
        """Resize group by group; the first failure ends it, what was resized before stays."""
        done: list[Resized] = []
        for increase in increases:
            self._herald.resizing(increase)
            resized = self._cloud.increase(increase.group, increase.delta, expected=increase.before)
            done.append(resized)
            p = p.with_memory(self._noted(p, increase, resized))
            self._herald.resized(resized, increase.max_size)
            if resized.error is not None:
                break
        report = replace(p.report, increases=(*p.report.increases, *done))
        failed = next((one.error for one in done if one.error is not None), None)
        if failed is not None:
            report = replace(report, scale_up_result=ScaleUpResult.ERROR, scale_up_error=failed.message)
            return p.with_report(report)
        return p.with_memory(memories.scale_up_succeeded(p.remembered.registry, p.report.now)).with_report(report)

    def _noted(self, p: Pass, increase: Increase, resized: Resized) -> Memory:
        """Return the memories with what a resize came to: the size read back counts, whatever the error says."""
        health, now, memory = self._config.health, p.report.now, p.remembered.registry
        group = p.view.groups.get(increase.group)
        provision_s = health.max_node_provision_time_s if group is None else provision_time_s(group, health)
        grown = resized.after - resized.before
        if grown > 0:
            memory = memories.scaled_up(memory, increase.group, grown, now, provision_s)
        if resized.error is not None:
            memory = memories.scale_up_failed(memory, increase.group, resized.error, now, health)
        return memory
