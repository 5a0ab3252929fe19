"""`autoscaler config` and the printing it shares with other subcommands."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.cli import output
from autoscaler.cli.config_command import flags_document
from autoscaler.cli.main import main
from autoscaler.cli.output import OutputFormat
from autoscaler.config.flags import flags

DOCUMENT = Path(__file__).parents[3] / "docs" / "flags.md"


def test_the_documentation_of_flags_is_fresh() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == flags_document(), "run: make docs"


def test_markdown_is_what_the_documentation_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "flags", "-o", "markdown"]) == 0
    assert capsys.readouterr().out == flags_document()


def test_flags_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "flags", "-o", "json"]) == 0
    records: list[dict[str, Any]] = msgspec.json.decode(capsys.readouterr().out)
    assert [record["name"] for record in records] == list(flags())
    assert all(list(record) == ["name", "default", "unit", "help", "support"] for record in records)
    assert records[list(flags()).index("scale-down-unneeded-time")] == {
        "name": "scale-down-unneeded-time",
        "default": "10m",
        "unit": "duration",
        "help": "How long a node must be unneeded before it is removed.",
        "support": flags()["scale-down-unneeded-time"].support,
    }


def test_flags_as_yaml_and_table_name_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "flags", "-o", "yaml"])
    from_yaml = [record["name"] for record in msgspec.yaml.decode(capsys.readouterr().out)]
    main(["config", "flags"])
    from_table = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert from_yaml == from_table == list(flags())


def test_rules_show_the_values_of_all_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "rules", "-o", "json"]) == 0
    records = {record["name"]: record for record in msgspec.json.decode(capsys.readouterr().out)}
    presets = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37", "head")
    shown = {name: [records[name][preset] for preset in presets] for name in records}
    assert shown["system_pods_block_forever"] == [True, True] + [False] * 6
    assert shown["hints_by_priority"] == [False] * 6 + [True] * 2
    assert shown["zones_in_balance"] == [False] * 7 + [True]


def test_a_good_file_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.yaml"
    path.write_text("loop: {scanInterval: 20s}\nobserve: {vmodule: a=1}\n")
    assert main(["config", "check", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{path}: valid, 2 options set\n"
    assert captured.err == f"{path}: accepted, but without effect: vmodule\n"


def test_a_bad_file_lists_its_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("loop: {scanInterval: 20}\nlop: {}\n")
    assert main(["config", "check", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_format_nobody_knows_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "flags", "-o", "xml"]) == 2
    assert "xml" in capsys.readouterr().err


def test_records_in_every_format() -> None:
    records: list[dict[str, object]] = [{"name": "a|b", "nodes": 3}, {"name": "c", "nodes": None}]
    shown = {}
    for form in OutputFormat:
        out = io.StringIO()
        output.write_records(records, form, out=out)
        shown[form] = out.getvalue()
    assert shown[OutputFormat.TABLE] == "NAME  NODES\na|b   3\nc\n"
    assert shown[OutputFormat.MARKDOWN] == "| name | nodes |\n| --- | --- |\n| a\\|b | 3 |\n| c |  |\n"
    assert msgspec.json.decode(shown[OutputFormat.JSON]) == records
    assert msgspec.yaml.decode(shown[OutputFormat.YAML]) == records


def test_no_records_are_an_empty_table() -> None:
    out = io.StringIO()
    output.write_records([], OutputFormat.TABLE, out=out)
    assert out.getvalue() == ""


def test_compact_json_keeps_to_one_line() -> None:
    assert output.to_json({"a": [1, 2]}, compact=True) == '{"a":[1,2]}'
    assert "\n" in output.to_json({"a": [1, 2]})
