"""The report is one frozen value behind all output. Steps that a pass did not reach are empty in it."""

from autoscaler.errors import ErrorType
from autoscaler.observe.report import PassEnd, PassReport
from cloudprovider.interface import ProviderError
from cloudprovider.static.spec import Call
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting


def test_a_pass_that_saw_nothing_has_nothing_to_show() -> None:
    world = LoopWorld(a_spec("web"))
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    report = world.run()
    nothing = PassReport(
        now=report.now,
        end=PassEnd.FAILED,
        error=report.error,
        error_type=ErrorType.CLOUD_PROVIDER,
        timings=report.timings,
    )
    assert report == nothing
    assert set(report.timings) == {"pass"}


def test_phases_are_parts_of_the_pass() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    timings = world.run().timings
    assert {"snapshot", "update_state", "filter_schedulable", "scale_up", "pass"} <= set(timings)
    assert all(0 <= seconds <= timings["pass"] for seconds in timings.values())
