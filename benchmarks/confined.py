"""Holding a process to the memory and CPU of the Deployment's manifest, by the strictest means there is."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from autoscaler.objects import quantity

DEPLOYMENT = Path(__file__).parents[1] / "manifests/base/deployment.yaml"
_ROOT = Path("/sys/fs/cgroup")


class Share(msgspec.Struct, frozen=True):
    """What a container may use; `cpu_milli` counts only where CPUs are scarce."""

    cpu_milli: int
    memory_bytes: int


def share_of_manifest(path: Path = DEPLOYMENT) -> Share:
    """Return what the manifest requests of CPU, and its limit of memory."""
    documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    amounts = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    cpu, memory = amounts["requests"]["cpu"], amounts["limits"]["memory"]
    return Share(quantity.amount(quantity.CPU, cpu), quantity.amount(quantity.MEMORY, memory))


class Confined(msgspec.Struct):
    """How a process is held to its share."""

    how: str
    group: Path | None = None

    def join(self, pid: int, share: Share) -> None:
        """Hold a process, and what it starts, to the share from now on."""
        if self.group is not None:
            (self.group / "cgroup.procs").write_text(str(pid))
        else:
            resource.prlimit(pid, resource.RLIMIT_DATA, (share.memory_bytes, share.memory_bytes))

    @property
    def killed(self) -> int:
        """How often the kernel has ended a process for its memory, as far as it tells."""
        if self.group is None:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            if (file := self.group / name).exists():
                counts = dict(line.split() for line in file.read_text().splitlines())
                return int(counts.get("oom_kill", 0))
        return 0


@contextlib.contextmanager
def confinement(share: Share) -> Iterator[Confined]:
    """Make a control group with this share, version 2 or 1; where neither may be made, hold back data by RLIMIT_DATA.

    The limit of data counts private memory that is only reserved, such as stacks of threads: it is the stricter one.
    """
    made = _v2(share) or _v1(share)
    if made is None:
        yield Confined("RLIMIT_DATA alone: no control group may be made here, so nothing holds back CPU")
        return
    try:
        yield made
    finally:
        assert made.group is not None
        with contextlib.suppress(OSError):
            made.group.rmdir()


def _v2(share: Share) -> Confined | None:
    if not (_ROOT / "cgroup.controllers").exists():
        return None
    own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()
    weight = 1 + (max(2, share.cpu_milli * 1024 // 1000) - 2) * 9999 // 262142  # as the kubelet makes it of shares
    files = {"memory.max": share.memory_bytes, "memory.swap.max": 0, "cpu.weight": weight}
    return _made(_ROOT / (own[0] if own else ""), files, "control group v2: memory.max, cpu.weight")


def _v1(share: Share) -> Confined | None:
    memory = _ROOT / "memory"
    files = {"memory.limit_in_bytes": share.memory_bytes}
    return (
        _made(memory, files, "control group v1: memory.limit_in_bytes; CPU is not held back")
        if memory.exists()
        else None
    )


def _made(parent: Path, files: dict[str, int], how: str) -> Confined | None:
    """Make a group below `parent`; None where that is not permitted, or a limit that matters does not take."""
    group = parent / f"autoscaler-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        for name, value in files.items():
            if (group / name).exists() or name.startswith(("memory.max", "memory.limit")):
                (group / name).write_text(str(value))
    except OSError:
        group.rmdir()
        return None
    return Confined(how, group)
