"""What a process holds: everything that can be reached from some objects, counted by type."""

import gc
import threading
import types
from collections import Counter
from collections.abc import Collection

_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType)
_SYSTEM = (threading.Thread, type(threading.Lock()), type(threading.RLock()))
_UNCOUNTED = (*_CODE, *_SYSTEM, int, float, type(None))


def held(roots: Collection[object], bounded: tuple[type, ...] = (), beside: tuple[str, ...] = ()) -> Counter[str]:
    """Count the objects reachable from `roots` by type, but for numbers and code.

    Left out is what is in queues with a longest length, and in objects of `bounded` types, which have a bound of their
    own; and all objects of classes in the packages `beside`. Functions count for what they close over.
    """
    seen: set[int] = set()
    counts: Counter[str] = Counter()
    left = list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, _UNCOUNTED):
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType):
            left.extend(one.__closure__ or ())
            continue
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        if name.startswith(beside or "\0"):
            continue
        counts[name] += 1
        if not isinstance(one, bounded) and getattr(one, "maxlen", None) is None:
            left.extend(gc.get_referents(one))
    return counts
