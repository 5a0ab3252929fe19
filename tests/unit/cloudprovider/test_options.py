"""Overrides of flags in the tags and annotations of node groups."""

from cloudprovider.options import read_options
from cloudprovider.problems import Problems


def test_overrides_that_cannot_be_read_keep_the_flags() -> None:
    settings = read_options(
        {
            "scaledownutilizationthreshold": "1.4",
            "scaledowngpuutilizationthreshold": "0.5",
            "maxnodeprovisiontime": "-1m",
            "maxnodestartuptime": "20m",
            "ignoredaemonsetsutilization": "True",
        },
        "option ",
        problems := Problems(),
    )
    assert (settings.scale_down_utilization_threshold, settings.scale_down_gpu_utilization_threshold) == (None, 0.5)
    assert (settings.max_node_provision_time_s, settings.max_node_startup_time_s) == (None, 1200)
    assert settings.ignore_daemonsets_utilization is True
    assert problems.lines == (
        "option scaledownutilizationthreshold: '1.4' is not within 0 and 1",
        "option maxnodeprovisiontime: '-1m' is negative",
    )
