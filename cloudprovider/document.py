"""YAML and JSON text to plain JSON data, the way Kubernetes reads it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cloudprovider.interface import Misconfigured

T = TypeVar("T")
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class PlainLoader(yaml.CSafeLoader):
    """Reads YAML as Kubernetes does: times stay text, and a key given twice is an error instead of the last winning."""

    yaml_implicit_resolvers = {  # declared so by PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys differ."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"key {key} is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_documents(text: str) -> Sequence[Any]:
    """Return every document of a YAML (or JSON) text that is not empty; `ValueError` says what is wrong, and where."""
    try:
        return [document for document in yaml.load_all(text, Loader=PlainLoader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def read_document(path: str, decode: Callable[[Any], T]) -> T:
    """Return what `decode` makes of the one document in a file; a `Misconfigured` has the path before every line."""
    try:
        documents = parse_documents(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: cannot be read: {error}") from error
    except ValueError as error:
        raise Misconfigured(f"{path}: is neither YAML nor JSON: {error}") from error
    if len(documents) != 1:
        raise Misconfigured(f"{path}: must hold one document, not {len(documents)}")
    try:
        return decode(documents[0])
    except Misconfigured as error:
        raise Misconfigured("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error
