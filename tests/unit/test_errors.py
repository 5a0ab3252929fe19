import pytest

from autoscaler.errors import AutoscalerError, Blocked, ConfigError, Conflict, Gone, LeadershipLost, Refused, RetryLater


@pytest.mark.parametrize(
    ("problems", "told"),
    [
        pytest.param("one", ("one",), id="one problem"),
        pytest.param(["one", "two"], ("one", "two"), id="several problems"),
        pytest.param((text for text in ("one", "two")), ("one", "two"), id="problems as they are found"),
    ],
)
def test_a_config_error_tells_every_problem_on_a_line(problems: list[str], told: tuple[str, ...]) -> None:
    error = ConfigError(problems)
    assert error.problems == told
    assert str(error) == "\n".join(told)


def test_what_to_try_again_may_say_when() -> None:
    assert RetryLater("busy").retry_after_s is None
    assert RetryLater("busy", 3.0).retry_after_s == 3.0
    assert Refused("no", 422).status == 422


@pytest.mark.parametrize(
    ("error", "handled_as"),
    [(Conflict("changed"), RetryLater), (Blocked("budget", 429), Refused), (Gone("gone"), AutoscalerError)],
)
def test_special_cases_are_handled_as_what_they_are_cases_of(error: Exception, handled_as: type[Exception]) -> None:
    assert isinstance(error, handled_as)


def test_a_lost_leadership_is_neither_tried_again_nor_refused() -> None:
    assert not isinstance(LeadershipLost("gone"), RetryLater | Refused)
