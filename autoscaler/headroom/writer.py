"""Writes the objects of one pool: its PriorityClass, the deletion costs of its pods, its Deployment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import Headroom, HeadroomPool, OnShutdown, priority_problem
from autoscaler.errors import AutoscalerError, Conflict, Gone, LeadershipLost, Refused
from autoscaler.headroom.cluster import ClusterHeadroom
from autoscaler.headroom.objects import CurrentDeployment, deployment_name, notes, priority_class, read_deployment
from autoscaler.headroom.plan import DeploymentAction, PoolPlan, plan_pool
from autoscaler.headroom.pods import PoolPods, to_give_up
from autoscaler.headroom.policy import CoolDown
from autoscaler.logs import Log
from autoscaler.reasons import HeadroomTrouble
from autoscaler.snapshot.cluster import ClusterView

_TRIES = 4
"""The first attempt, and three more after conflicts."""
_FORBIDDEN = 403

log = Log(__name__)


class PoolFailed(Exception):
    """A pool cannot be reconciled now; the next check tries again."""

    def __init__(self, trouble: HeadroomTrouble, error: object) -> None:
        super().__init__(str(error))
        self.trouble = trouble


class Reconciled(msgspec.Struct, frozen=True):
    """The action, and the problems that remain."""

    plan: PoolPlan
    troubles: tuple[HeadroomTrouble, ...] = ()


class PoolWriter:
    """Writes for the pools of one daemon. All calls raise `LeadershipLost`; each method names its other errors."""

    def __init__(self, objects: ClusterHeadroom, cutoff: int) -> None:
        """`cutoff` is the priority below which pods are expendable."""
        self.objects = objects
        """The port that reads and writes the pools."""
        self._cutoff = cutoff

    def reconcile(
        self,
        pool: HeadroomPool,
        headroom: Headroom,
        view: ClusterView,
        pods: PoolPods,
        held: CoolDown | None,
        now: Instant,
        lead_s: float = 0.0,
    ) -> Reconciled:
        """Reconcile the Deployment; raises `PoolFailed`. With `held` None, no cool-down is remembered."""
        conflict: Conflict | None = None
        for _ in range(_TRIES):
            with _failing_as(HeadroomTrouble.GET_DEPLOYMENT):
                present = self._present(pool)
            plan = plan_pool(pool, headroom, present, pods.active, held, now, lead_s)
            if plan.action is DeploymentAction.CONFLICT:
                raise PoolFailed(HeadroomTrouble.NAME_CONFLICT, f"{deployment_name(pool)} is somebody else's")
            marked = self._mark(plan, pods, view)
            try:
                with _failing_as(HeadroomTrouble.APPLY_STATE):
                    self._apply(plan)
            except Conflict as error:
                conflict = error
                continue
            remaining = ((HeadroomTrouble.PAUSED, plan.paused), (HeadroomTrouble.DELETION_COST, not marked))
            return Reconciled(plan, tuple(trouble for trouble, there in remaining if there))
        raise PoolFailed(HeadroomTrouble.APPLY_STATE, conflict)

    def leave(self, pool: HeadroomPool, headroom: Headroom, wall: float) -> None:
        """Carry out the configured action for a stop of the leader on our Deployment; raises `AutoscalerError`."""
        present = self._present(pool)
        if present is None or not present.of(pool, headroom) or headroom.on_shutdown is OnShutdown.KEEP:
            return
        if headroom.on_shutdown is OnShutdown.DELETE:
            self.objects.delete_deployment(present.namespace, present.name, present.uid)
        elif present.replicas:
            metadata = present.obj["metadata"]
            noted = {**(metadata.get("annotations") or {}), **notes(present.template_hash, 0, wall, wall)}
            spec = {**present.obj["spec"], "replicas": 0}
            self.objects.replace({**present.obj, "metadata": {**metadata, "annotations": noted}, "spec": spec})

    def check_class(self, pool: HeadroomPool, lowest_active: int | None) -> HeadroomTrouble | None:
        """Create the managed PriorityClass if it is missing; raises `PoolFailed` if pause pods could not work.

        Returns the tolerable problems. `lowest_active` is the lowest priority among the pods that the pool is for.
        """
        try:
            with _failing_as(HeadroomTrouble.PRIORITY_CLASS):
                priority_class = self.objects.priority_class(pool.priority_class)
        except _Forbidden as error:
            log.warning("headroom.priority_class_not_seen", name=pool.priority_class, error=str(error))
            return HeadroomTrouble.PRIORITY_CLASS
        if priority_class is None:
            self._create_class(pool)
            return None
        value = int(priority_class.get("value") or 0)
        problem = priority_problem(value, self._cutoff)
        if problem is None and lowest_active is not None and lowest_active <= value:
            problem = f"priority {value} is not below {lowest_active}, that of pods which the pool is for"
        if problem is not None:
            raise PoolFailed(HeadroomTrouble.PRIORITY_UNSUITABLE, f"class {pool.priority_class}: {problem}")
        ours = not pool.priority_class_name
        return HeadroomTrouble.PRIORITY_CLASS_MISMATCH if ours and value != pool.priority_value else None

    def _create_class(self, pool: HeadroomPool) -> None:
        if pool.priority_class_name:
            text = f"there is no PriorityClass {pool.priority_class_name}"
            raise PoolFailed(HeadroomTrouble.PRIORITY_CLASS, text)
        try:
            with _failing_as(HeadroomTrouble.PRIORITY_CLASS):
                self.objects.create(priority_class(pool))
        except Conflict:
            return  # another client was faster
        except _Forbidden as error:
            raise PoolFailed(HeadroomTrouble.PRIORITY_CLASS, error) from error

    def _present(self, pool: HeadroomPool) -> CurrentDeployment | None:
        obj = self.objects.deployment(pool.namespace, deployment_name(pool))
        return None if obj is None else read_deployment(obj)

    def _apply(self, plan: PoolPlan) -> None:
        if plan.obj is not None:
            write: Callable[..., None] = (
                self.objects.create if plan.action is DeploymentAction.CREATE else self.objects.replace
            )
            write(plan.obj)

    def _mark(self, plan: PoolPlan, pods: PoolPods, view: ClusterView) -> bool:
        """Tell the controller which pods to delete first, so that whole nodes become empty; return False if that
        failed.
        """
        if plan.lowers:
            given_up = to_give_up(view, pods, plan.want.target)
            changes = [(pod, True) for pod in pods.bound if pod.key in given_up and not pod.cls.given_up]
        elif len(pods.bound) <= plan.want.target:
            changes = [(pod, False) for pod in pods.bound if pod.cls.given_up]
        else:
            changes = []
        for pod, goes in changes:
            try:
                self.objects.mark(pod, given_up=goes)
            except LeadershipLost:
                raise
            except Gone:
                continue
            except AutoscalerError as error:
                log.warning("headroom.pod_not_marked", pod=pod.key, error=str(error))
                return False
        return True


class _Forbidden(Exception):
    """The API server forbids a write."""


@contextmanager
def _failing_as(trouble: HeadroomTrouble) -> Iterator[None]:
    """Convert errors to `PoolFailed` with the name of the attempt. Conflicts, lost leadership and missing rights stay
    distinct.
    """
    try:
        yield
    except (LeadershipLost, Conflict):
        raise
    except Refused as error:
        if error.status == _FORBIDDEN and trouble is HeadroomTrouble.PRIORITY_CLASS:
            raise _Forbidden(str(error)) from error
        raise PoolFailed(trouble, error) from error
    except AutoscalerError as error:
        raise PoolFailed(trouble, error) from error
