import pytest

from autoscaler.objects.meta import (
    LabelSelector,
    ObjectMeta,
    Operator,
    OwnerReference,
    Requirement,
    Resource,
    controller_of,
    optional_seconds,
    rfc3339,
    selects,
    unix_seconds,
)


@pytest.mark.parametrize(
    ("operator", "values", "label", "matches"),
    [
        pytest.param("In", ["a", "b"], "b", True, id="In: a listed value"),
        pytest.param("In", ["a", "b"], "c", False, id="In: another value"),
        pytest.param("In", ["a"], None, False, id="In: no such key"),
        pytest.param("In", [""], "", True, id="In: the empty value is a value"),
        pytest.param("NotIn", ["a"], "b", True, id="NotIn: another value"),
        pytest.param("NotIn", ["a"], "a", False, id="NotIn: a listed value"),
        pytest.param("NotIn", ["a"], None, True, id="NotIn: no such key"),
        pytest.param("Exists", [], "", True, id="Exists: even empty"),
        pytest.param("Exists", [], None, False, id="Exists: no such key"),
        pytest.param("DoesNotExist", [], None, True, id="DoesNotExist: no such key"),
        pytest.param("DoesNotExist", [], "", False, id="DoesNotExist: empty is not absent"),
        pytest.param("Gt", ["5"], "6", True, id="Gt: more"),
        pytest.param("Gt", ["5"], "5", False, id="Gt: equal"),
        pytest.param("Gt", ["5"], "10", True, id="Gt: compares numbers, not texts"),
        pytest.param("Gt", ["-5"], "-4", True, id="Gt: negative numbers"),
        pytest.param("Gt", ["5"], None, False, id="Gt: no such key"),
        pytest.param("Gt", ["5"], "six", False, id="Gt: no number"),
        pytest.param("Gt", ["1"], "1_000", False, id="Gt: an underscore is no digit"),
        pytest.param("Gt", ["5"], "6.5", False, id="Gt: no integer"),
        pytest.param("Gt", ["5"], "9223372036854775808", False, id="Gt: beyond 64 bits"),
        pytest.param("Gt", ["five"], "6", False, id="Gt: the bound is no number"),
        pytest.param("Gt", [], "6", False, id="Gt: no bound"),
        pytest.param("Gt", ["1", "2"], "6", False, id="Gt: two bounds"),
        pytest.param("Lt", ["5"], "4", True, id="Lt: less"),
        pytest.param("Lt", ["5"], "5", False, id="Lt: equal"),
        pytest.param("Lt", ["5"], None, False, id="Lt: no such key"),
    ],
)
def test_a_requirement(operator: str, values: list[str], label: str | None, matches: bool) -> None:
    assert Requirement(key="k", operator=Operator(operator), values=values).matches(label) is matches


EMPTY = LabelSelector()
WEB = LabelSelector(match_labels={"app": "web"})
WEB_OUTSIDE_TEST = LabelSelector(
    match_labels={"app": "web"},
    match_expressions=[Requirement(key="env", operator=Operator.NOT_IN, values=["test"])],
)


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        pytest.param(None, {"app": "web"}, False, id="an absent selector selects nothing"),
        pytest.param(EMPTY, {}, True, id="an empty selector selects even what has no labels"),
        pytest.param(WEB, {"app": "web", "x": "y"}, True, id="further labels do not matter"),
        pytest.param(WEB, {"app": "db"}, False, id="another value"),
        pytest.param(WEB, {}, False, id="no such label"),
        pytest.param(WEB_OUTSIDE_TEST, {"app": "web"}, True, id="both parts hold"),
        pytest.param(WEB_OUTSIDE_TEST, {"app": "web", "env": "test"}, False, id="one part fails"),
    ],
)
def test_a_label_selector(selector: LabelSelector | None, labels: dict[str, str], matches: bool) -> None:
    assert selects(selector, labels) is matches


def test_only_a_selector_with_nothing_to_satisfy_is_empty() -> None:
    assert [EMPTY.empty, WEB.empty, WEB_OUTSIDE_TEST.empty] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0.0, id="the beginning"),
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_000.0, id="whole seconds"),
        pytest.param("2023-11-14T22:13:20.250000Z", 1_700_000_000.25, id="microseconds, as leases have"),
        pytest.param("2023-11-15T00:13:20+02:00", 1_700_000_000.0, id="another zone"),
    ],
)
def test_a_time_is_unix_seconds(text: str, seconds: float) -> None:
    assert unix_seconds(text) == seconds
    assert optional_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("yesterday", id="a word"),
        pytest.param("", id="nothing"),
        pytest.param("2023-11-14T22:13:20", id="no zone: it would mean another moment on another machine"),
        pytest.param("2023-11-14", id="a date"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unix_seconds(text)


def test_no_time_is_none() -> None:
    assert optional_seconds(None) is None


@pytest.mark.parametrize("seconds", [0.0, 1_700_000_000.0, 1_700_000_000.9])
def test_times_are_written_in_utc_without_fractions(seconds: float) -> None:
    text = rfc3339(seconds)
    assert text.endswith("Z")
    assert unix_seconds(text) == int(seconds)


@pytest.mark.parametrize(
    ("owners", "name"),
    [
        pytest.param([], None, id="no owner"),
        pytest.param([OwnerReference("Node", "n1")], None, id="an owner that does not manage"),
        pytest.param(
            [OwnerReference("Node", "n1", controller=False)], None, id="an owner that says it does not manage"
        ),
        pytest.param(
            [OwnerReference("Node", "n1"), OwnerReference("ReplicaSet", "web", controller=True)],
            "web",
            id="the managing one of two",
        ),
    ],
)
def test_the_controller_is_the_managing_owner(owners: list[OwnerReference], name: str | None) -> None:
    controller = controller_of(owners)
    assert (controller.name if controller else None) == name


@pytest.mark.parametrize(
    ("namespace", "key"), [pytest.param("web", "web/a", id="with namespace"), pytest.param("", "a", id="without")]
)
def test_the_key_of_a_resource(namespace: str, key: str) -> None:
    one = Resource(metadata=ObjectMeta(name="a", namespace=namespace, uid="u"))
    assert (one.key, one.name, one.namespace, one.uid) == (key, "a", namespace, "u")
