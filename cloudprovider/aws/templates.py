"""Templates of all groups: keeps the last answer if AWS does not answer, and reports gaps once."""

from collections.abc import Iterable, Mapping

from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.asg import Asg
from cloudprovider.aws.expiring import Notices
from cloudprovider.aws.launch import Launch
from cloudprovider.aws.machine_types import MachineTypes, Shape
from cloudprovider.aws.nodegroups import Nodegroup, Nodegroups
from cloudprovider.aws.tags import unusable
from cloudprovider.aws.template import template_of
from cloudprovider.interface import MachineVersion, NodeTemplate, ProviderError

_NONE = "aws.no_template"
_UNREAD = "aws.nodegroup_unknown"
_UNUSED = "aws.tags_without_effect"


class Templates:
    """Makes templates from what machines, managed node groups and tags say. Owned by the thread that refreshes."""

    def __init__(self, api: AwsApi, notices: Notices) -> None:
        self._region = api.region
        self._machines = MachineTypes(api)
        self._managed = Nodegroups(api)
        self._notices = notices
        self._shapes: dict[str, tuple[Launch, Shape]] = {}
        self._nodegroups: dict[str, Nodegroup] = {}

    def of(self, groups: Iterable[Asg], now: float) -> Mapping[str, NodeTemplate]:
        """Return the templates by group. Groups without a template are left out. Never raises `ProviderError`."""
        by_name = {group.name: group for group in groups}
        shapes = self._machines.shapes({name: group.launch for name, group in by_name.items()}, now)
        made = {name: self._made(group, shapes[name], now) for name, group in by_name.items()}
        return {name: template for name, template in made.items() if template is not None}

    def versions(self, groups: Iterable[Asg], now: float) -> Mapping[str, tuple[MachineVersion, ...]]:
        """Return by group what new machines may be made from. Never raises `ProviderError`."""
        return {group.name: self._machines.versions(group.launch, now) for group in groups}

    def _made(self, group: Asg, answer: Shape | ProviderError, now: float) -> NodeTemplate | None:
        self._tell(_UNUSED, group.name, ", ".join(sorted(unusable(group.tags))))
        shape = self._shape(group, answer)
        try:
            template = template_of(group, shape, self._nodegroup(group, now), self._region)
        except ProviderError as error:
            self._tell(_NONE, group.name, str(error) if shape else f"{error}: {answer}")
            return None
        self._tell(_NONE, group.name, "")
        return template

    def _shape(self, group: Asg, answer: Shape | ProviderError) -> Shape | None:
        if isinstance(answer, Shape):
            self._shapes[group.name] = group.launch, answer
            return answer
        launch, last = self._shapes.get(group.name, (None, None))
        return last if launch == group.launch else None

    def _nodegroup(self, group: Asg, now: float) -> Nodegroup | None:
        answer = self._managed.of(group.tags, not group.live, now)
        self._tell(_UNREAD, group.name, str(answer) if isinstance(answer, ProviderError) else "")
        if isinstance(answer, Nodegroup):
            self._nodegroups[group.name] = answer
            return answer
        return None if answer is None else self._nodegroups.get(group.name)

    def _tell(self, event: str, group: str, text: str) -> None:
        if text:
            self._notices.give(event, group, text)
        else:
            self._notices.over(event, group)
