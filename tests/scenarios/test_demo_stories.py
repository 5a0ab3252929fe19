"""The stories of the demo in virtual time: their text, and that they come to their end."""

import re

import pytest

from autoscaler.config.load import from_documents
from autoscaler.sandbox.demo_workload import SHOP
from autoscaler.simulator.demo import OPTIONS
from autoscaler.simulator.demo_stories import BASIC, STORIES
from autoscaler.simulator.storyteller import NOT_TRIGGERED, Storyteller
from autoscaler.simulator.world import World

MOST_S = 100.0


class Told:
    """A story as it is told within the time."""

    def __init__(self, name: str, *, attended: bool = False, most_s: float = MOST_S) -> None:
        story = STORIES[name]()
        config = from_documents(OPTIONS, {"story.yaml": story.document} if story.document else {})
        said: list[str] = []
        with World(config, story.cloud, story.objects) as self.world:
            self.teller = Storyteller(
                story, self.world.cluster, self.world.cloud, self._advice, said.append, attended=attended
            )
            self.asked_at = most_s
            while not self.teller.ended and self.world.elapsed_s < most_s:
                self.teller.look(self.world.elapsed_s)
                if "kubectl" in "".join(said):
                    self.asked_at = min(self.asked_at, self.world.elapsed_s)
                self.world.run_for(1.0)
        self.took_s = self.world.elapsed_s - self.asked_at
        """From the moment at which something is asked of the user, or done for them."""
        self.text = "\n".join(said)

    def _advice(self, pod: str) -> str:
        events = self.world.storage.list("events", field_selector=f"involvedObject.name={pod.partition('/')[2]}")
        return next(str(event["message"]) for event in events if event["reason"] == NOT_TRIGGERED)


TOLD = {
    "basic": ("12 pods without room", "buys 1 batch, 3 general, 1 memory", "--replicas=4", "gives back 1 general"),
    "spot": ("buys 1 spot", "takes the spot machine back", "gone: spot-1", "buys 1 on-demand", "all 8 pods run"),
    "gpu": ("1 pod without room", "buys 1 gpu", "gives back 1 gpu", "gone: gpu-1"),
    "headroom": ("ready: general-1", "--replicas=5", "they ran 4 s after", "ready: general-2", "all 10 pods run"),
    "stuck": ("explain pod/shop/search-", "explain pod/shop/monolith-", "set resources", "buys 1 large", "all 8 pods"),
}
"""What is told, in this order."""


@pytest.mark.parametrize("name", STORIES)
def test_every_story_comes_to_its_end_by_itself(name: str) -> None:
    told = Told(name)
    assert told.teller.ended, told.text
    assert told.teller.scene.settled
    assert re.search(".*".join(map(re.escape, TOLD[name])), told.text, re.DOTALL), told.text
    assert max(map(len, told.text.splitlines())) <= 80


def test_nodes_go_within_a_minute_of_the_scale_down() -> None:
    told = Told(BASIC)
    assert told.teller.nodes_removed > 0
    assert told.took_s < 60


@pytest.mark.parametrize("name", ["basic", "headroom", "stuck"])
def test_what_is_asked_of_the_user_the_demo_leaves_alone(name: str) -> None:
    told = Told(name, attended=True, most_s=60.0)
    assert not told.teller.ended
    assert "  kubectl -n shop" in told.text
    replicas = {
        deployment["metadata"]["name"]: deployment["spec"]["replicas"]
        for deployment in told.world.storage.list("deployments.apps")
    }
    assert replicas["web"] == {"basic": 10, "headroom": 3, "stuck": 2}[name]


def test_advice_comes_only_for_pods_that_are_stuck() -> None:
    told = Told("stuck", attended=True, most_s=20.0)
    assert re.findall(rf"explain pod/{SHOP}/(\w+)-", told.text) == ["search", "monolith"]
    assert told.world.storage.list("events", field_selector=f"reason={NOT_TRIGGERED}")
