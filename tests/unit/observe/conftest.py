"""What is shown of clusters of any size."""

from collections.abc import Callable

import pytest

from autoscaler.observe.status import PublishedStatus
from tests.shown_cluster import NOW, sample_status


@pytest.fixture
def status_of() -> Callable[..., PublishedStatus]:
    return sample_status


@pytest.fixture
def now_wall() -> float:
    return NOW
