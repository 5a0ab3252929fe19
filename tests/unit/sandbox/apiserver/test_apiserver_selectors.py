import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.selectors import from_object, labels_match, parse_fields, parse_labels
from tests.unit.sandbox.apiserver.apiserver_objects import Json

LABELS = {"app": "web", "tier": "front", "size": "3"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==db", False),
        ("app!=db", True),
        ("missing!=x", True),
        ("app in (db, web)", True),
        ("app notin (db,web)", False),
        ("missing notin (a)", True),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("size>2", True),
        ("size<3", False),
        ("app>2", False),
        ("app in (web),tier!=back , size", True),
        ("app=web,tier=back", False),
        ("example.com/x=", False),
    ],
)
def test_label_selectors(text: str, selected: bool) -> None:
    assert labels_match(parse_labels(text), LABELS) is selected


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a>x", "=b"])
def test_bad_label_selectors_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        pytest.param({}, True, id="an empty selector selects everything"),
        pytest.param(None, False, id="no selector selects nothing"),
        pytest.param({"matchLabels": {"app": "web"}}, True, id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, id="not in"
        ),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True, id="absent"),
    ],
)
def test_selector_objects(selector: Json | None, selected: bool) -> None:
    parsed = from_object(selector)
    assert (parsed is not None and labels_match(parsed, LABELS)) is selected


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName=n1,status.phase!=Running", False),
        ("spec.nodeName!=", True),
        ("status.phase==Running", True),
        ("metadata.name=p", False),
    ],
)
def test_field_selectors(text: str, selected: bool) -> None:
    terms = parse_fields(text, ("spec.nodeName", "status.phase"))
    assert all(term.matches({"spec.nodeName": "n1", "status.phase": "Running"}) for term in terms) is selected


def test_fields_a_kind_does_not_offer_are_refused() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.color"):
        parse_fields("spec.color=red", ("spec.nodeName",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("!!", "unable to parse requirement: found '!', expected: identifier"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a==!", "unable to parse requirement: found '!', expected: identifier"),
        ("a>x", "the value must be an integer"),
    ],
)
def test_the_server_says_where_a_label_selector_goes_wrong(text: str, problem: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert problem in caught.value.message
