"""Logs requests, for tests that compare a client's verbs with its RBAC rules."""

import threading
from collections import Counter, deque

import msgspec


class RequestAttributes(msgspec.Struct, frozen=True):
    """One request, in the words of RBAC; `resource` is empty for paths outside the API groups."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user_agent: str = ""
    path: str = ""


class RbacRule(msgspec.Struct, frozen=True, order=True):
    """What an RBAC rule would have to allow."""

    group: str
    resource: str
    subresource: str
    verb: str


class RequestLog:
    """The latest requests, and counters over all of them."""

    def __init__(self, limit: int = 10_000) -> None:
        self._lock = threading.Lock()
        self._entries: deque[RequestAttributes] = deque(maxlen=limit)
        self._counts: Counter[RbacRule] = Counter()

    def add(self, attributes: RequestAttributes) -> None:
        """Record one request."""
        with self._lock:
            self._entries.append(attributes)
            if attributes.resource:
                self._counts[
                    RbacRule(attributes.group, attributes.resource, attributes.subresource, attributes.verb)
                ] += 1

    def entries(self, *, user_agent: str = "") -> list[RequestAttributes]:
        """The latest requests, oldest first, of user agents that contain this text."""
        with self._lock:
            return [entry for entry in self._entries if user_agent in entry.user_agent]

    def counts(self) -> Counter[RbacRule]:
        """How often each rule was needed."""
        with self._lock:
            return Counter(self._counts)

    def count(self, verb: str, resource: str, subresource: str = "") -> int:
        """How many requests with this verb went to this resource, in any group."""
        rule_key = (verb, resource, subresource)
        return sum(
            number for rule, number in self.counts().items() if (rule.verb, rule.resource, rule.subresource) == rule_key
        )

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._counts.clear()
