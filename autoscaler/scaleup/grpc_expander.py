"""The grpc expander: a remote server chooses between the options.

Whatever goes wrong there, the choice goes on without it: with no answer, or none that makes sense, all options stay for
the next expander of the chain. Source: Cluster Autoscaler's `expander/grpcplugin`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from autoscaler.ports import ExpanderAnswer
from autoscaler.scaleup.choice import RatedOptions
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template


class RemoteExpander(Protocol):
    """Where the question goes: a server, or a recording of its answers."""

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        """Return which of the options it wants; never raises, and takes a few seconds at most.

        `templates` are those of all node groups, by id.
        """
        ...


class GrpcExpander:
    """Keeps the options that a remote expander names. Make a new one for each pass.

    After a question without answer it asks no more: each could take as long, and a pass may have many rounds.
    `empty_declines`: an empty answer means that it wants none of the options; otherwise they all stay.
    """

    def __init__(self, remote: RemoteExpander, templates: Mapping[str, Template], *, empty_declines: bool) -> None:
        self._remote = remote
        self._templates = templates
        self._empty_declines = empty_declines
        self._silent = False

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options that it names, or all."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the options that it names, or all, and its answer."""
        everything = tuple(options)
        if not everything or self._silent:
            return RatedOptions(everything)
        answer = self._remote.ask(everything, self._templates)
        self._silent = bool(answer.error)
        return RatedOptions(self._kept(everything, answer), answer=answer)

    def _kept(self, options: tuple[Option, ...], answer: ExpanderAnswer) -> tuple[Option, ...]:
        if not answer.usable:
            return options
        if not answer.named:
            return () if self._empty_declines else options
        return tuple(option for option in options if option.group.id in answer.named)
