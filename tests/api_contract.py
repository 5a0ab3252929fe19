"""What an OpenAPI document promises, held against what a live server answers. Everything is read off the document."""

import http.client
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

WAIT_S = 10.0
Schema = Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Operation(msgspec.Struct, frozen=True):
    """One method of one path, as the document tells of it."""

    path: str
    method: str
    said: Mapping[str, Any]

    def parameters(self, place: str) -> list[Mapping[str, Any]]:
        return [parameter for parameter in self.said["parameters"] if parameter["in"] == place]

    @property
    def forms(self) -> Mapping[str, Schema]:
        """Schemas of the body by content type."""
        content: Mapping[str, Any] = self.said.get("requestBody", {}).get("content", {})
        return {kind: one["schema"] for kind, one in content.items()}


class Site:
    """A live server and its document, asked over one connection."""

    def __init__(self, port: int, document: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self.document = self.ask("GET", document).json
        # Of answers no field may be there that is not described; what is asked may hold more.
        self._exact = {**self.document["components"], "schemas": dict(self._closed())}

    def close(self) -> None:
        self._connection.close()

    def _closed(self) -> Iterator[tuple[str, Schema]]:
        for name, schema in self.document["components"]["schemas"].items():
            yield name, {**schema, "additionalProperties": False} if "properties" in schema else schema

    @property
    def operations(self) -> list[Operation]:
        return [
            Operation(path, method.upper(), said)
            for path, methods in self.document["paths"].items()
            for method, said in methods.items()
        ]

    def ask(self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        self._connection.request(method, url, body, dict(headers or {}))
        response = self._connection.getresponse()
        return Answer(response.status, dict(response.headers.items()), response.read())

    def check(self, operation: Operation, answer: Answer) -> None:
        """Hold an answer against what is promised: its status, its content type, and every field of its JSON."""
        about = f"{operation.method} {operation.path}: {answer.status} {answer.body[:300]!r}"
        responses = operation.said["responses"]
        promised = responses.get(str(answer.status), responses["default"])
        promised = self.found(promised["$ref"]) if "$ref" in promised else promised
        if answer.status == 500:
            assert "500" in responses, about
        assert answer.headers["Content-Type"] in promised["content"], about
        schema = promised["content"][answer.headers["Content-Type"]]["schema"]
        content = answer.json if answer.headers["Content-Type"] == "application/json" else answer.body.decode()
        whole = {**schema, "components": self._exact}
        problem = next(Draft202012Validator(whole).iter_errors(content), None)
        assert problem is None, f"{about}: {problem}"

    def found(self, reference: str) -> Any:
        place = self.document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        return place

    def resolved(self, schema: Schema) -> Schema:
        return self.resolved(self.found(schema["$ref"])) if "$ref" in schema else schema

    # Values that a schema allows, and others.

    def right_values(self, schema: Schema) -> list[str]:
        schema = self.resolved(schema)
        if "enum" in schema:
            return list(schema["enum"])
        if schema["type"] == "integer":
            return [str(schema["minimum"]), str(schema["maximum"])]
        if schema["type"] == "boolean":
            return ["true", "false", "1", "0"]
        if schema.get("format") == "date-time":
            return ["2026-11-20T10:00:00Z", "1970-01-01T00:00:00.5%2B23:59", "9999-12-31T23:59:59Z"]
        return ["x", "x" * schema["maxLength"], "%00%F0%9F%92%A9%FF", "a/b/c"]

    def wrong_values(self, schema: Schema) -> list[str]:
        schema = self.resolved(schema)
        if "enum" in schema:
            return ["", "x", schema["enum"][0].upper() + "x"]
        if schema["type"] == "integer":
            return [str(schema["minimum"] - 1), str(schema["maximum"] + 1), "", "x", "1e400", "0x1", "%2B1", "1" * 5000]
        if schema["type"] == "boolean":
            return ["", "yes", "2"]
        if schema.get("format") == "date-time":
            return ["", "yesterday", "0", "2026-11-20", "2026-11-20T10:00:00", "2026-13-20T10:00:00Z"]
        return ["", "x" * (schema["maxLength"] + 1)]

    def value(self, schema: Schema, dice: random.Random, depth: int = 0) -> Any:
        """Return a value that the schema allows."""
        schema = self.resolved(schema)
        if "enum" in schema:
            return dice.choice(schema["enum"])
        if "anyOf" in schema:
            return self.value(dice.choice(schema["anyOf"]), dice, depth)
        match schema.get("type"):
            case "object":
                needed = schema.get("required", ())
                named = {
                    name: self.value(one, dice, depth + 1)
                    for name, one in schema.get("properties", {}).items()
                    if name in needed or (depth < 5 and dice.random() < 0.4)
                }
                more = schema.get("additionalProperties", True)
                if isinstance(more, Mapping):
                    named |= {dice.choice(TEXTS): self.value(more, dice, depth + 1) for _ in range(dice.randint(0, 2))}
                return named
            case "array":
                count = dice.randint(schema.get("minItems", 0), 2 if depth < 5 else schema.get("minItems", 0))
                return [self.value(schema["items"], dice, depth + 1) for _ in range(count)]
            case "integer":
                least, most = schema.get("minimum", -5), schema.get("maximum", 10**6)
                return next(
                    n for n in iter(lambda: dice.randint(least, most), None) if n != schema.get("not", {}).get("const")
                )
            case "number":
                return round(dice.uniform(-1, 1000), 3)
            case "boolean":
                return dice.random() < 0.5
            case "null":
                return None
            case _:
                texts = [text for text in TEXTS if len(text) >= schema.get("minLength", 0)]
                return dice.choice([text for text in texts if text.isascii()] if "pattern" in schema else texts)


TEXTS = (
    "",
    "1",
    "500m",
    "4Gi",
    "cpu",
    "memory",
    "Equal",
    "In",
    "a/b",
    "kubernetes.io/hostname",
    "2cores",
    "1e30",
    "-1",
    "ü💩",
)
STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**19,
    -(2**70),
    1e300,
    0.5,
    "",
    "x",
    "\x00",
    "9" * 40,
    "1e-30",
    [],
    [[]],
    {},
    {"": {}},
    ["x"],
)


def spoilt(value: Any, dice: random.Random, *, inside: bool = True) -> Any:
    """Return a value with something in it that may not belong there; `inside`: it stays an object, or a list."""
    go_on = inside or dice.random() < 0.8
    if isinstance(value, dict) and value and go_on:
        name = dice.choice(list(value))
        if dice.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: spoilt(value[name], dice, inside=False)}
    if isinstance(value, list) and value and go_on:
        at = dice.randrange(len(value))
        return [*value[:at], spoilt(value[at], dice, inside=False), *value[at + 1 :]]
    return value if inside else dice.choice(STRANGE)


NO_OBJECTS: Mapping[str, bytes] = {
    "nothing": b"",
    "no JSON": b"not json",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "the half of it": b'{"spec": {',
    "a key twice": b'{"spec": {}, "spec": {"containers": [{}]}}',
    "a key twice further in": b'{"spec": {"containers": [{"name": "a", "name": "b"}]}}',
    "brackets without end": b"[" * 100_000,
    "depth without end": b'{"a":' * 100_000,
    "depth that ends": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "quotes without end": b'{"a":"' + b'\\"' * 400_000,
    "no UTF-8": b'{"a":"\xff\xfe"}',
    "half a pair": b'{"metadata":{"name":"\\ud800"},"spec":{"containers":[{}]}}',
    "no number": b'{"amount": NaN, "a": Infinity}',
    "a number without end": b'{"amount": ' + b"9" * 20_000 + b"}",
}
"""Bodies that are no JSON object, or none that anybody should read."""
