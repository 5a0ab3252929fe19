"""Compare our decisions with those that Cluster Autoscaler 1.31.5 took on the same clusters.

    python -m tests.conformance.compare [--only PREFIX[,PREFIX]] [-v] [--min-rate R]

`cases/` holds scenario files, `expected/` every different answer that was recorded for each. A case agrees when one of
its answers equals ours in every decision: sizes, counts of pods by owner, nodes, and why each node stays. Pods of one
owner are interchangeable; wording is not compared. What varied from recording to recording is not held against us.

Exit status: 0 agreed often enough, 1 not, 2 nothing to compare.
"""

import argparse
import collections
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from autoscaler.cli.main import main as autoscaler

HERE = Path(__file__).parent
PROCESSES = 2
SHOWN = 240
Run = Mapping[str, Any]
Owners = Mapping[str, str]


def _value(value: Any, owners: Owners) -> Any:
    return value or []


def _set(value: Any, owners: Owners) -> Any:
    return sorted(json.dumps(item, sort_keys=True) for item in value or [])


def _by_owner(value: Any, owners: Owners) -> Any:
    return dict(collections.Counter(owners.get(pod, pod) for pod in value or []))


def _drained(value: Any, owners: Owners) -> Any:
    return sorted(entry["node"] if isinstance(entry, dict) else entry for entry in value or [])


def _reasons(value: Any, owners: Owners) -> Any:
    return {node: why.get("reason") for node, why in (value or {}).items()}


DECISIONS: Mapping[str, Callable[[Any, Owners], Any]] = {
    "scaleUpResult": _value,
    "scaleUps": _set,
    "targetSizes": _value,
    "targetDecreases": _set,
    "podsNeedingScaleUp": _by_owner,
    "podsTriggeredScaleUp": _by_owner,
    "podsRemainUnschedulable": _by_owner,
    "unneededNodes": _set,
    "deletedEmpty": _set,
    "deletedDrain": _drained,
    "cloudDeletes": _set,
    "unremovable": _reasons,
}
"""What is compared of each run, and the form in which equal decisions are equal."""


class Verdict(msgspec.Struct, frozen=True):
    """How one case came out; no differences mean that it agrees."""

    name: str
    differences: tuple[str, ...] = ()
    varies: bool = False

    @property
    def kind(self) -> str:
        """The class of the case: its name without the number."""
        return self.name.rpartition("-")[0]


def owners_in(case: Mapping[str, Any]) -> dict[str, str]:
    """Return `namespace/owner` by `namespace/pod`; a pod that nothing owns stands for itself."""
    added = [pod for change in case.get("changes", []) for pod in change.get("addPods", [])]
    owners = {}
    for pod in [*case["pods"], *added]:
        meta = pod["metadata"]
        namespace = meta.get("namespace", "default")
        references = meta.get("ownerReferences") or [meta]
        owners[f"{namespace}/{meta['name']}"] = f"{namespace}/{references[0]['name']}"
    return owners


def differences(
    recorded: Sequence[Run], ours: Sequence[Run], owners: Owners, varying: Sequence[str] = ()
) -> Iterator[str]:
    """Yield where two answers decide differently; fields that `varying` names, or has parts of, are passed over."""
    if len(recorded) != len(ours):
        yield f"runs: {len(recorded)} recorded, {len(ours)} answered"
        return
    for index, (theirs, own) in enumerate(zip(recorded, ours, strict=True)):
        for field, form in DECISIONS.items():
            path = f"runs[{index}].{field}"
            if any(one == path or one.startswith(f"{path}.") for one in varying):
                continue
            before, after = form(theirs.get(field), owners), form(own.get(field), owners)
            if before != after:
                yield f"{path}: recorded {_shown(before, after)} answered {_shown(after, before)}"


def _shown(value: Any, other: Any) -> str:
    """Write a value, of mappings only the entries that differ."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {key: item for key, item in sorted(value.items()) if other.get(key) != item}
    return json.dumps(value)[:SHOWN]


def judge(name: str, case: Mapping[str, Any], expected: Mapping[str, Any], answer: Mapping[str, Any]) -> Verdict:
    """Compare an answer with the recorded one that is nearest to it."""
    varies = not expected.get("deterministic", True)
    if "failed" in answer:
        return Verdict(name, (answer["failed"],), varies)
    varying = expected.get("varying", ()) if varies else ()
    owners = owners_in(case)
    found = [
        tuple(differences(recorded["runs"], answer.get("runs", ()), owners, varying))
        for recorded in expected["answers"]
    ]
    return Verdict(name, min(found, key=len), varies)


def answer_of(case: Path) -> dict[str, Any]:
    """Plan one scenario file in this process; a failure is `{"failed": why}` and does not hide the other cases."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["plan", "--compatibility", "1.31", "-o", "json", "--scenario", str(case)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = autoscaler(argv)
    except Exception as error:  # noqa: BLE001 - whatever breaks one case, the rest is still to be compared
        return {"failed": f"{type(error).__name__}: {error}"}
    if status != 0:
        return {"failed": (err.getvalue().strip().splitlines() or [f"exit status {status}"])[-1]}
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def judge_file(case: Path) -> Verdict:
    """Plan and judge one case of this folder."""
    expected = json.loads((HERE / "expected" / case.name).read_text())
    return judge(case.stem, json.loads(case.read_text()), expected, answer_of(case))


def report(verdicts: Sequence[Verdict], verbose: bool) -> Iterator[str]:
    """Yield the lines to print: with `verbose` what differs, then agreement by class and in total."""
    total = collections.Counter(verdict.kind for verdict in verdicts)
    agreed = collections.Counter(verdict.kind for verdict in verdicts if not verdict.differences)
    for verdict in verdicts:
        if verbose and verdict.differences:
            yield verdict.name + ("  (recorded answers vary)" if verdict.varies else "")
            yield from (f"    {line}" for line in verdict.differences[:4])
    for kind in sorted(total):
        yield f"{kind:14s} {agreed[kind]:4d} / {total[kind]:<4d} {agreed[kind] / total[kind]:.1%}"
    yield f"agreement {agreed.total()} / {total.total()} = {rate(verdicts):.2%}"


def rate(verdicts: Sequence[Verdict]) -> float:
    """Return the share of cases that agree."""
    return sum(not verdict.differences for verdict in verdicts) / len(verdicts)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and print; return the exit status."""
    parser = argparse.ArgumentParser("python -m tests.conformance.compare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="compare only cases whose name starts so; several by commas")
    parser.add_argument("--min-rate", type=float, default=0.0, help="least share of cases that must agree (0 to 1)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what differs")
    args = parser.parse_args(argv)
    prefixes = tuple(prefix for prefix in args.only.split(",") if prefix) or ("",)
    cases = [case for case in sorted((HERE / "cases").glob("*.json")) if case.name.startswith(prefixes)]
    if not cases:
        print(f"no case starts with {args.only}", file=sys.stderr)
        return 2
    with ProcessPoolExecutor(PROCESSES) as pool:
        verdicts = list(pool.map(judge_file, cases, chunksize=4))
    for line in report(verdicts, args.verbose):
        print(line)
    return 0 if rate(verdicts) >= args.min_rate else 1


if __name__ == "__main__":
    sys.exit(main())
