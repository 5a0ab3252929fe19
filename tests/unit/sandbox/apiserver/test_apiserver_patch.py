import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.jsonpatch import json_patch, merge_patch
from autoscaler.sandbox.apiserver.strategic import strategic_merge
from tests.unit.sandbox.apiserver.apiserver_objects import Json

A, B, C = {"name": "a", "image": "x"}, {"name": "b", "image": "y"}, {"name": "c", "image": "z"}
SPREAD = {"topologyKey": "zone", "maxSkew": 1}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"x": 3}}, {"a": {"x": 3, "y": 2}}, id="objects merge"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="a value gives way to an object"),
    ],
)
def test_merge_patch(target: Json, patch: Json, result: Json) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        pytest.param([{"op": "add", "path": "/b", "value": 2}], {"a": [1, 2], "b": 2}, id="add to an object"),
        pytest.param([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}, id="add inserts in a list"),
        pytest.param([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}, id="add appends"),
        pytest.param([{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove from a list"),
        pytest.param([{"op": "replace", "path": "/a", "value": 0}], {"a": 0}, id="replace"),
        pytest.param([{"op": "move", "from": "/a", "path": "/x~1y"}], {"x/y": [1, 2]}, id="move, escaped path"),
        pytest.param([{"op": "copy", "from": "/a/1", "path": "/b"}], {"a": [1, 2], "b": 2}, id="copy"),
        pytest.param([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}, id="a test that holds"),
    ],
)
def test_json_patch(operations: list[Json], result: Json) -> None:
    target = {"a": [1, 2]}
    assert json_patch(target, operations) == result
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/a/0", "value": 7}, id="a test that fails"),
        pytest.param({"op": "replace", "path": "/missing", "value": 7}, id="replacing nothing"),
        pytest.param({"op": "remove", "path": "/a/7"}, id="removing past the end"),
        pytest.param({"op": "grow", "path": "/a"}, id="an unknown operation"),
        pytest.param({"op": "add", "path": "a", "value": 1}, id="a path that is no pointer"),
    ],
)
def test_json_patch_refuses(operation: Json) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": [1, 2]}, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"containers": [A, B]}, {"containers": [{"name": "b", "image": "n"}]},
                     {"containers": [A, {"name": "b", "image": "n"}]}, id="containers merge by name"),
        pytest.param({"containers": [A, B]}, {"containers": [C]},
                     {"containers": [C, A, B]}, id="new elements come first"),
        pytest.param({"containers": [A, B]}, {"containers": [{"name": "a", "$patch": "delete"}]},
                     {"containers": [B]}, id="$patch delete takes an element out"),
        pytest.param({"containers": [A, B]}, {"containers": [C, {"$patch": "replace"}]},
                     {"containers": [C]}, id="$patch replace replaces the list"),
        pytest.param({"containers": [A, B]}, {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
                     {"containers": [B, A]}, id="$setElementOrder reorders"),
        pytest.param({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]},
                     {"tolerations": [{"key": "b"}]}, id="tolerations are atomic"),
        pytest.param({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]},
                     {"taints": [{"key": "b"}]}, id="taints are atomic"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]},
                     {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
                     {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}, id="$retainKeys drops the old source"),
        pytest.param({"nodeSelector": {"a": "b", "c": "d"}}, {"nodeSelector": {"a": None}},
                     {"nodeSelector": {"c": "d"}}, id="null removes a key"),
        pytest.param({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"$patch": "replace", "e": "f"}},
                     {"nodeSelector": {"e": "f"}}, id="$patch replace replaces a map"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}]},
                     {"conditions": [{"type": "Ready", "status": "False"}]},
                     {"conditions": [{"type": "Ready", "status": "False"}]}, id="conditions merge by type"),
        pytest.param({"finalizers": ["a", "b"]}, {"finalizers": ["c"]},
                     {"finalizers": ["c", "a", "b"]}, id="finalizers are a set"),
        pytest.param({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]},
                     {"finalizers": ["b"]}, id="$deleteFromPrimitiveList takes values out"),
        pytest.param({"spec": {"ports": [{"port": 80, "name": "a"}]}}, {"spec": {"ports": [{"port": 80, "name": "z"}]}},
                     {"spec": {"ports": [{"port": 80, "name": "z"}]}}, id="service ports merge by port"),
        pytest.param({"containers": [A | {"ports": [{"containerPort": 1}]}]},
                     {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "h"}]}]},
                     {"containers": [A | {"ports": [{"containerPort": 1, "name": "h"}]}]},
                     id="container ports merge by containerPort"),
        pytest.param({"topologySpreadConstraints": [SPREAD]},
                     {"topologySpreadConstraints": [SPREAD | {"maxSkew": 2}]},
                     {"topologySpreadConstraints": [SPREAD | {"maxSkew": 2}]}, id="spread constraints merge by key"),
    ],
)  # fmt: skip
def test_strategic_merge_does_as_kubectl_patch_local(target: Json, patch: Json, result: Json) -> None:
    assert strategic_merge(target, patch) == result


def test_strategic_merge_needs_the_merge_key() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key"):
        strategic_merge({"containers": [A]}, {"containers": [{"image": "x"}]})
