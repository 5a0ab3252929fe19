"""Finds the cause of an error: libraries may report an unreachable network as refused credentials."""

from collections.abc import Iterator


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
