"""The whole daemon within the limits of its manifest, beside a cluster of a thousand nodes."""

import sys

import pytest

from benchmarks.confined import Share, share_of_manifest
from benchmarks.daemon import Ended, measure

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes are Linux's")


@linux
def test_a_thousand_nodes_fit_into_the_limits_of_the_manifest() -> None:
    used = measure(nodes=1000, per_node=10, changes=0, watched_s=0.0)
    assert used.limit_mib == share_of_manifest().memory_bytes / 2**20 == 1024
    assert used.killed == 0
    assert 50 < used.peak_mib < used.limit_mib / 2, used.how


@linux
def test_a_daemon_beyond_its_limit_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Or the test above would say nothing."""
    with pytest.raises(Ended):
        measure(nodes=3, per_node=1, changes=0, watched_s=0.0, share=Share(cpu_milli=100, memory_bytes=32 * 2**20))
