"""The stories of `autoscaler demo`."""

from collections.abc import Callable, Mapping

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.kubelet import DURATION
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.demo_workload import (
    GPU,
    POOL,
    SHOP,
    cloud_of,
    common_objects,
    demo_cloud,
    demo_workload,
    deployment,
    job,
    node_group,
    template,
)
from autoscaler.simulator.storyteller import Act, Command, Scene, Story
from cloudprovider.interface import ErrorClass, InstanceError
from cloudprovider.static.cloud import StaticCloud

_NO_STOCK = InstanceError(ErrorClass.OUT_OF_RESOURCES, "NO_SPOT_CAPACITY", "there are no spot machines")
_POOL_OF_PAUSE_PODS = """
headroom:
  reconcileInterval: 2s
  pools:
    - name: web
      namespace: shop
      resources: {cpu: "1", memory: 1Gi}
      policies: [{name: always, idleCount: 2}]
"""


def _scale(name: str, replicas: int) -> Command:
    text = f"kubectl -n {SHOP} scale deployment {name} --replicas={replicas}"
    return Command(text, lambda storage: storage.scale("deployments.apps", name, replicas, namespace=SHOP))


def _request_cpu(name: str, cpu: str) -> Command:
    container = {"name": name, "resources": {"requests": {"cpu": cpu}}}
    return Command(
        f"kubectl -n {SHOP} set resources deployment {name} --requests=cpu={cpu}",
        _patch(name, {"containers": [container]}),
    )


def _select_pool(name: str, pool: str) -> Command:
    patch = f"""-p '{{"spec":{{"template":{{"spec":\n  {{"nodeSelector":{{"{POOL}":"{pool}"}}}}}}}}}}'"""
    return Command(f"kubectl -n {SHOP} patch deployment {name} {patch}", _patch(name, {"nodeSelector": {POOL: pool}}))


def _patch(name: str, pod_spec: JsonObject) -> Callable[[Storage], object]:
    patch = {"spec": {"template": {"spec": pod_spec}}}

    kind = PatchType.STRATEGIC
    return lambda storage: storage.patch("deployments.apps", name, patch, namespace=SHOP, patch_type=kind)


def _settled(_: Scene, now: Scene) -> bool:
    return now.settled


def _gave_back(group: str) -> Callable[[Scene, Scene], bool]:
    """Return a condition: the group has fewer machines than at first, and nothing is in progress."""
    return lambda first, now: now.machines[group] < first.machines[group] and now.nodes_match and now.settled


def _runs_on_more(group: str) -> Callable[[Scene, Scene], bool]:
    """Return a condition: the group has more machines than at first, and nothing is in progress."""
    return lambda first, now: now.machines[group] > first.machines[group] and now.nodes_match and now.settled


def _basic() -> Story:
    return Story(
        help="room is missing, nodes come, and go when they are not needed any more",
        cloud=demo_cloud(),
        objects=demo_workload(),
        acts=(
            Act(says="a shop starts on one node, which is too small for it", until=_settled),
            Act(
                says="everything runs; now the shop needs less: scale it down, and nodes go within a minute",
                commands=(_scale("web", 4),),
                until=_gave_back("general"),
            ),
        ),
        more=(f"kubectl -n {SHOP} scale deployment web --replicas=40",),
    )


def _spot() -> Story:
    def interrupt(cloud: StaticCloud) -> None:
        for _ in range(
            2
        ):  # the machine with which the cloud replaces the lost one, and the machine that is bought next
            cloud.fail_next("spot", _NO_STOCK)
        for machine in cloud.machines():
            if machine.group == "spot":
                cloud.remove_machine(machine.provider_id)

    return Story(
        help="the cloud takes a spot machine back and has no other; on-demand machines step in",
        cloud=cloud_of(node_group("on-demand", min_size=1, price=0.19), node_group("spot", price=0.06)),
        objects=[*common_objects(), deployment("web", replicas=6, cpu="1", memory="1Gi")],
        acts=(
            Act(says="the shop needs a second machine; spot machines are the cheapest", until=_runs_on_more("spot")),
            Act(
                says="the cloud takes the spot machine back, and has no other",
                does=interrupt,
                until=_runs_on_more("on-demand"),
            ),
        ),
        more=(f"kubectl -n {SHOP} scale deployment web --replicas=12",),
    )


def _gpu() -> Story:
    gpu = node_group("gpu", cpu="8", price=2.1, gpus=1)
    tolerations = [{"key": GPU, "operator": "Exists"}]
    requests = {"cpu": "2", "memory": "4Gi", GPU: "1"}
    pods = template("train", requests, {DURATION: "15s"}, restartPolicy="Never", tolerations=tolerations)
    return Story(
        help="a pod needs a GPU; its machine comes from a group of none, and goes again",
        cloud=cloud_of(node_group("general", min_size=1, price=0.19), gpu),
        objects=[
            *common_objects(),
            deployment("web", replicas=2, cpu="1", memory="1Gi"),
            job("train", SHOP, 1, pods),
        ],
        acts=(
            Act(
                says="a Job needs a GPU, and there is no GPU machine; pods with GPUs wait 30 s for others",
                until=_runs_on_more("gpu"),
            ),
            Act(says="the Job runs; once it is done, nobody needs the machine", until=_gave_back("gpu")),
        ),
        more=(f"kubectl -n {SHOP} get job train",),
    )


def _headroom() -> Story:
    return Story(
        help="pause pods hold room: new pods start at once, and the room comes back",
        cloud=cloud_of(node_group("general", min_size=1, price=0.19)),
        objects=[*common_objects(), deployment("web", replicas=3, cpu="1", memory="1Gi")],
        acts=(
            Act(says="the shop runs; two pause pods ask for room to spare", until=_runs_on_more("general")),
            Act(
                says="there is room to spare; now the shop needs two pods more",
                commands=(_scale("web", 5),),
                until=lambda _, now: now.ready_pods["web"] >= 5,
            ),
            Act(
                says="they ran {took} s after they were asked for, in place of the pause pods, which ask for new room",
                until=lambda first, now: now.settled and now.nodes_match and now != first,
            ),
        ),
        more=(f"kubectl -n {SHOP} scale deployment web --replicas=7",),
        document=_POOL_OF_PAUSE_PODS,
    )


def _stuck() -> Story:
    return Story(
        help="two workloads that no machine can take, and the advice that helps them",
        cloud=cloud_of(node_group("general", min_size=1, price=0.19), node_group("large", cpu="8", price=0.4)),
        objects=[
            *common_objects(),
            deployment("web", replicas=2, cpu="1", memory="1Gi"),
            deployment("search", replicas=2, cpu="1500m", memory="1Gi", nodeSelector={POOL: "genral"}),
            deployment("monolith", replicas=1, cpu="12", memory="2Gi"),
        ],
        acts=(
            Act(
                says="two workloads are stuck: no machine that could be bought would take their pods",
                explains=("search", "monolith"),
                until=lambda _, now: True,
            ),
            Act(
                says="follow the advice, and machines come",
                commands=(_select_pool("search", "general"), _request_cpu("monolith", "6")),
                until=_settled,
            ),
        ),
    )


BASIC = "basic"
STORIES: Mapping[str, Callable[[], Story]] = {
    BASIC: _basic,
    "spot": _spot,
    "gpu": _gpu,
    "headroom": _headroom,
    "stuck": _stuck,
}
"""The stories by the values of `--story`; without the option, the demo plays `BASIC`."""
