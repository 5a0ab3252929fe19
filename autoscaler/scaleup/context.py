"""The node groups at the start of a scale-up, and which of them it may use."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.reasons import Skip, Skipped
from autoscaler.registry.state import GroupState
from autoscaler.scaleup.capacity_quotas import NO_QUOTAS, Quotas
from autoscaler.scaleup.limits import Allowance, Uncountable, need_of, nodes_left
from autoscaler.scaleup.plan import Increase
from autoscaler.snapshot.contribution import Contribution
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template


class ScaleUpContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the decision depends on, beside the pods and the simulated cluster."""

    groups: Groups
    templates: Mapping[str, Template]
    states: Mapping[str, GroupState]
    allowance: Allowance | Uncountable
    present: int
    """Nodes that count towards `max_nodes_total`, upcoming ones included."""
    max_nodes_total: int
    similar: Mapping[str, tuple[str, ...]] = {}
    """Similar groups by group id; empty where balancing is off."""
    planned: Mapping[str, int] = {}
    """Nodes asked for since the decision began, by group id."""
    quotas: Quotas = NO_QUOTAS
    within: Mapping[str, int] | None = None
    """How many nodes each group may get, by group id, none if it is left out; None: as many as it has room for."""
    paused: Mapping[str, str] = {}
    """Why groups may not grow because somebody paused them, by group id."""
    cooling: frozenset[str] = frozenset()
    """Groups that lost a machine lately, by id: they grow only for pods that no other group takes."""

    @property
    def nodes_left(self) -> int | None:
        """How many nodes the cluster may still get; None: no limit."""
        return nodes_left(self.max_nodes_total, self.present)

    def upcoming(self, group_id: str) -> int:
        """Return how many nodes of a group are on their way."""
        return self.states[group_id].upcoming + self.planned.get(group_id, 0)

    def needs(self, rules: Rules) -> dict[str, Contribution]:
        """Return what one more node of each group adds; groups without a template are left out."""
        return {
            group.id: need_of(group, self.templates[group.id], self.groups, rules, self.quotas)
            for group in self.groups.all
            if group.id in self.templates
        }

    def after(self, increases: Sequence[Increase], needs: Mapping[str, Contribution]) -> "ScaleUpContext":
        """Return the situation once these machines are asked for."""
        grown = {increase.group: increase.delta for increase in increases}
        by_id = self.groups.by_id
        allowance = self.allowance
        if isinstance(allowance, Allowance):
            for increase in increases:
                allowance = allowance.after(needs[increase.group], increase.delta)
        return msgspec.structs.replace(
            self,
            groups=self.groups.sized({name: by_id[name].target_size + delta for name, delta in grown.items()}),
            allowance=allowance,
            present=self.present + sum(grown.values()),
            within=None
            if self.within is None
            else {name: count - grown.get(name, 0) for name, count in self.within.items()},
            planned={**self.planned, **{name: self.planned.get(name, 0) + delta for name, delta in grown.items()}},
        )


def considered(
    situation: ScaleUpContext, needs: Mapping[str, Contribution], rules: Rules
) -> tuple[tuple[Skipped, ...], list[Group]]:
    """Return the groups that may grow, and why the others may not."""
    skipped: list[Skipped] = []
    usable: list[Group] = []
    for group in situation.groups.all:
        if situation.within is not None and situation.within.get(group.id, 0) <= 0:
            continue
        wanted = group.room if group.settings.zero_or_max_node_scaling else 1
        reason = _unusable(group, situation) or _crowded(group, wanted, situation)
        reason = reason or over_limits(group, wanted, situation, needs, rules)
        if reason is None:
            usable.append(group)
        else:
            skipped.append(reason)
    return tuple(skipped), usable


def unfit(group: Group, situation: ScaleUpContext) -> Skipped | None:
    """Return why a group is in no state to grow: paused, backed off, unhealthy, or nothing known of its nodes."""
    if group.id in situation.paused:
        return Skipped(group.id, Skip.PAUSED, "paused", situation.paused[group.id])
    state = situation.states[group.id]
    if state.backoff is not None:
        return Skipped(group.id, Skip.BACKED_OFF, "in backoff after failed scale-up", state.backoff.error.message)
    if not state.healthy:
        return Skipped(group.id, Skip.NOT_READY, "not ready for scale-up", "too many of its nodes are not ready")
    if group.id not in situation.templates:
        return Skipped(group.id, Skip.NO_TEMPLATE, "not ready for scale-up", "nothing tells what its nodes look like")
    return None


def _unusable(group: Group, situation: ScaleUpContext) -> Skipped | None:
    """Like `unfit`, but a full group is called full whether or not its nodes are known."""
    reason = unfit(group, situation)
    if group.room == 0 and (reason is None or reason.reason is Skip.NO_TEMPLATE):
        detail = f"{group.target_size} of {group.max_size}"
        return Skipped(group.id, Skip.MAX_SIZE, "max node group size reached", detail)
    return reason


def _crowded(group: Group, wanted: int, situation: ScaleUpContext) -> Skipped | None:
    left = situation.nodes_left
    if not group.settings.zero_or_max_node_scaling or left is None or wanted <= left:
        return None
    message = "atomic scale-up exceeds cluster node count limit"
    return Skipped(group.id, Skip.ATOMIC_LIMIT, message, f"needs {wanted} nodes, {left} allowed")


def over_limits(
    group: Group, wanted: int, situation: ScaleUpContext, needs: Mapping[str, Contribution], rules: Rules
) -> Skipped | None:
    """Return the resource limits that this many more nodes of a group would exceed."""
    if isinstance(situation.allowance, Uncountable):
        return Skipped(group.id, Skip.LIMIT, "total resources cannot be computed", situation.allowance.group)
    exceeded = situation.allowance.exceeded_by(needs[group.id], wanted)
    if exceeded is None:
        return None
    message = exceeded.message(names_quota=rules.limit_reason_names_quota)
    return Skipped(group.id, Skip.LIMIT, message, ", ".join(exceeded.resources))
