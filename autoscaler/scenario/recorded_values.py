"""Encodes and decodes frozen values as plain data, exactly: the memory of passes, for recordings.

Whatever struct a pass remembers is written field by field, by name; what has its default is left out. Times, numbers
and their order come back as they were. Three things are shared instead of copied: classes of pods are in a table of
their own and come back as the interner's; what the cloud said of a group is referred to where it still says so; and
times are on the clocks of the process that recorded.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from autoscaler.objects.class_form import ClassForm
from autoscaler.objects.meta import Resource
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.scenario.bare import bare_node, bare_object, bare_pod
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeTemplate

T = TypeVar("T")
_SAME_AS = "sameAs"


class RecordingEncoder:
    """Writes values; `groups` are those whose descriptions need not be written again."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups.all
        self._numbers: dict[PodClass, int] = {}
        self._decoder = msgspec.msgpack.Decoder(ClassForm)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """The classes of pods that values so far refer to, in the order of their numbers."""
        return [msgspec.structs.asdict(self._decoder.decode(cls.key)) for cls in self._numbers]

    def encode(self, value: Any) -> Any:
        """Return a value as JSON can hold it; raises `TypeError` for what no pass remembers."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            return value
        if isinstance(value, PodClass):
            return self._class(value)
        if isinstance(value, NodeTemplate):
            return self._template(value)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.encode(item) for key, item in value.items()}
        if isinstance(value, frozenset):
            return [self.encode(item) for item in sorted(value, key=_place)]
        if isinstance(value, Sequence):
            return [self.encode(item) for item in value]
        raise TypeError(f"{type(value).__name__} cannot be recorded")

    def _key(self, key: Any) -> str:
        return key if isinstance(key, str) else f"{self.encode(key)}"

    def _class(self, cls: PodClass) -> int | dict[str, int]:
        if cls.leaving is not None:
            return {"leaving": self._numbers.setdefault(cls.leaving, len(self._numbers))}
        return self._numbers.setdefault(cls, len(self._numbers))

    def _template(self, template: NodeTemplate) -> dict[str, Any]:
        for group in self._groups:
            if group.template is template or group.template == template:
                return {_SAME_AS: group.id}
        return self._struct(msgspec.structs.replace(template, pods=tuple(bare_pod(pod) for pod in template.pods)))

    def _struct(self, value: msgspec.Struct) -> dict[str, Any]:
        if isinstance(value, Node):
            value = bare_node(value)
        elif isinstance(value, Pod):
            value = value.decisive
        elif isinstance(value, Resource):
            value = bare_object(value)
        written = {}
        for field in msgspec.structs.fields(value):
            item = getattr(value, field.name)
            if not _is_default(item, field):
                real = type(item) is int and float in (field.type, *get_args(field.type))
                written[field.name] = self.encode(float(item) if real else item)
        return written


def _place(item: Any) -> str:
    """Return what members of a set are sorted by: the same in every process."""
    if isinstance(item, PodClass):
        return item.key.hex()
    return "/".join(map(_place, item)) if isinstance(item, tuple) else f"{item}"


def _is_default(item: Any, field: msgspec.structs.FieldInfo) -> bool:
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    else:
        return False
    return type(item) is type(default) and bool(item == default)


def _plain(data: Any, kind: type, path: str) -> Any:
    if kind is float:
        number = isinstance(data, int | float) and not isinstance(data, bool)
        return float(_checked(data, number, "a number", path))
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from error


class RecordingDecoder:
    """Reads values again. `templates` has what the cloud says of each group; raises `ValueError` naming the place."""

    def __init__(
        self, interner: PodInterner, classes: Sequence[Any], templates: Mapping[str, NodeTemplate | None]
    ) -> None:
        self._templates = templates
        self._fields: dict[type, Mapping[str, msgspec.structs.FieldInfo]] = {}
        self._classes: list[PodClass] = []
        self._leaving: dict[int, PodClass] = {}
        for number, given in enumerate(classes):
            try:
                form = msgspec.convert([given.get(name) for name in ClassForm.__struct_fields__], ClassForm)
                self._classes.append(interner.class_from(form))
            except (AttributeError, ValueError, msgspec.MsgspecError) as error:
                raise ValueError(f"classes[{number}]: {error}") from error

    def decode(self, data: Any, kind: Any, path: str) -> Any:
        """Return the value of that type."""
        origin, args = get_origin(kind), get_args(kind)
        if kind is Any:
            return data
        if origin is Annotated:
            return self.decode(data, args[0], path)
        if origin in (Union, UnionType):
            return self._one_of(data, args, path)
        if origin is not None:
            return self._many(data, origin, args, path)
        if kind in (None, NoneType):
            return _checked(data, data is None, "nothing", path)
        if kind is PodClass:
            return self._class(data, path)
        if kind is NodeTemplate and isinstance(data, Mapping) and _SAME_AS in data:
            return _checked(self._templates.get(data[_SAME_AS]), data[_SAME_AS] in self._templates, "a group", path)
        if issubclass(kind, msgspec.Struct):
            return self._struct(data, kind, path)
        return _plain(data, kind, path)

    def _one_of(self, data: Any, kinds: tuple[Any, ...], path: str) -> Any:
        if data is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if len(others) == 1:
            return self.decode(data, others[0], path)
        return data  # texts and numbers, as JSON tells them apart

    def _many(self, data: Any, origin: Any, args: tuple[Any, ...], path: str) -> Any:
        if issubclass(origin, Mapping):
            _checked(data, isinstance(data, Mapping), "an object", path)
            return {key: self.decode(item, args[1], f"{path}.{key}") for key, item in data.items()}
        _checked(data, isinstance(data, list), "an array", path)
        kinds = [args[0]] * len(data) if len(args) == 1 or args[-1] is Ellipsis else list(args)
        _checked(data, len(kinds) == len(data), f"an array of {len(kinds)}", path)
        items = [self.decode(item, kinds[index], f"{path}[{index}]") for index, item in enumerate(data)]
        if issubclass(origin, frozenset):
            return frozenset(items)
        return items if origin is list else tuple(items)

    def _class(self, data: Any, path: str) -> PodClass:
        number = data["leaving"] if isinstance(data, Mapping) and "leaving" in data else data
        known = isinstance(number, int) and 0 <= number < len(self._classes)
        _checked(number, known, "the number of a class", path)
        cls: PodClass = self._classes[number]
        if number is data:
            return cls
        if number not in self._leaving:
            self._leaving[number] = msgspec.structs.replace(cls, leaving=cls)
        return self._leaving[number]

    def _struct(self, data: Any, kind: type[msgspec.Struct], path: str) -> Any:
        _checked(data, isinstance(data, Mapping), "an object", path)
        known = self._fields.get(kind)
        if known is None:
            known = self._fields[kind] = {field.name: field for field in msgspec.structs.fields(kind)}
        values = {}
        for name, item in data.items():
            if name not in known:
                raise ValueError(f"{path}.{name}: is not known to this release")
            values[name] = self.decode(item, known[name].type, f"{path}.{name}")
        missing = [name for name, field in known.items() if field.required and name not in values]
        if missing:
            raise ValueError(f"{path}.{missing[0]}: is required")
        return kind(**values)


def _checked(value: T, good: bool, wanted: str, path: str) -> T:
    if not good:
        raise ValueError(f"{path}: is not {wanted}")
    return value
