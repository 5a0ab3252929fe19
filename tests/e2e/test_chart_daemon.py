"""Daemons with the arguments that the chart makes of values written for Cluster Autoscaler's."""

from pathlib import Path

import pytest

from tests.e2e.replica import PATIENT_LEADER, Replica, Sandbox, a_cloud, until
from tests.helm import THEIRS, flags, rendered


@pytest.mark.parametrize("name", THEIRS)
def test_a_daemon_starts_leads_and_scales(name: str, tmp_path: Path) -> None:
    # The kubeconfig of the sandbox replaces that of another cluster, and every expander would do.
    given = [word for word in flags(rendered(THEIRS[name])) if not word.startswith("--kubeconfig=")]
    words = (*given, "--expander=random", *PATIENT_LEADER)
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox, Replica(sandbox.kubeconfig, *words, provider=cloud) as replica:
        sandbox.deploy("web", 1)
        sandbox.until_running(1)
        until(lambda: sandbox.status_map() is not None, "the status is written")
        assert replica.stop() == 0
