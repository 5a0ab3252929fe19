"""The cheapest mix of new nodes."""

import pytest

from autoscaler.scaledown.bin_packing import BinType, Item, SearchBudget, cheapest_mix

ANY = (1 << 8) - 1
SMALL, BIG = BinType(0.2, (4,), 10), BinType(0.7, (16,), 10)


def items(*needs: int, bins: int = ANY, kinds: int = ANY) -> list[Item]:
    return [Item((need,), bins, kinds) for need in needs]


@pytest.mark.parametrize(
    ("pods", "bins", "kinds", "price"),
    [
        pytest.param(items(4, 4, 4), [], [SMALL, BIG], 0.6, id="three small ones"),
        pytest.param(items(4, 4, 4, 4), [], [SMALL, BIG], 0.7, id="one big one holds four"),
        pytest.param(items(5, 4), [], [SMALL, BIG], 0.7, id="one pod needs the big one, which takes both"),
        pytest.param(items(4, 4), [(4,)], [SMALL, BIG], 0.2, id="room that there is costs nothing"),
        pytest.param(items(4, 4), [(8,)], [SMALL], 0.0, id="nothing has to be bought"),
        pytest.param(items(4, bins=0), [(8,)], [SMALL], 0.2, id="not every pod may go everywhere"),
        pytest.param(items(4, kinds=0b10), [], [SMALL, BIG], 0.7, id="nor to every new node"),
        pytest.param(items(4, 4), [], [BinType(0.2, (4,), 1), BIG], 0.7, id="there is only one small one"),
        pytest.param(items(3, 3, 2, 2, 2), [], [BinType(1.0, (6,), 9)], 2.0, id="packed better than largest first"),
        pytest.param(items(17), [], [SMALL, BIG], None, id="too large for any"),
    ],
)
def test_the_cheapest_mix(
    pods: list[Item], bins: list[tuple[int, ...]], kinds: list[BinType], price: float | None
) -> None:
    mix = cheapest_mix(pods, bins, kinds, SearchBudget(100_000), below=100.0)
    assert (None if mix is None else mix.price) == (None if price is None else pytest.approx(price))


def test_places_are_those_of_the_pods_as_given() -> None:
    mix = cheapest_mix(items(1, 4), [(1,)], [SMALL], SearchBudget(1000), below=1.0)
    assert mix is not None
    assert (mix.places, mix.new) == ((0, 1), (0,))


def test_what_is_not_cheaper_than_asked_for_is_no_answer() -> None:
    assert cheapest_mix(items(4), [], [SMALL], SearchBudget(1000), below=0.2) is None


def test_work_is_bounded_whatever_the_number_of_pods() -> None:
    steps = SearchBudget(5000)
    pods = items(*(1 + number % 7 for number in range(59)))
    cheapest_mix(pods, [(9,)] * 8, [SMALL, BIG, BinType(0.3, (7,), 9)], steps, below=100.0)
    assert steps.left > -30_000
