from collections.abc import Callable

import pytest

from benchmarks import cost, decode, estimator, page, placement, snapshot


@pytest.mark.parametrize(
    ("main", "sizes", "title"),
    [
        pytest.param(decode.main, "--pods 600 --nodes 20", "Decode", id="decode"),
        pytest.param(placement.main, "--pods 100 --nodes 20", "Placement on 20 nodes", id="placement"),
        pytest.param(estimator.main, "--pods 100 --nodes 20 --groups 2", "Estimator beside 20 nodes", id="estimator"),
        pytest.param(
            cost.main,
            str(cost.SCENARIOS[0]),
            "Price of the first pass for an hour, and what is saved against the first expander",
            id="cost",
        ),
        pytest.param(page.main, "--nodes 20 --pods 5", "Status page of 20 nodes", id="page"),
        pytest.param(snapshot.main, "--nodes 20 --per-node 5", "Snapshot of 20 nodes", id="snapshot"),
    ],
)
def test_a_benchmark_prints_its_table_at_any_size(
    main: Callable[[list[str]], None], sizes: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(sizes.split())
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == title
    assert len(lines) >= 4
