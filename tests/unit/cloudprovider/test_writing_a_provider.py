"""What docs/writing-a-provider.md shows must work as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cloudprovider import catalog
from cloudprovider.static import load_cloud

ROOT = Path(__file__).parents[3]
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


def write_examples(folder: Path) -> dict[str, Path]:
    found = EXAMPLE.findall((ROOT / "docs" / "writing-a-provider.md").read_text())
    paths = {name: folder / name for name, _ in found}
    for name, text in found:
        paths[name].write_text(text)
    return paths


def test_the_plug_in_passes_its_own_tests(tmp_path: Path) -> None:
    examples = write_examples(tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    arguments = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(examples["test_lab_provider.py"])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = re.search(r"(\d+) passed, (\d+) skipped", done.stdout)
    assert summary is not None, done.stdout
    assert int(summary[1]) >= 14


def test_the_plug_in_is_found_through_an_entry_point_of_an_installed_distribution(tmp_path: Path) -> None:
    write_examples(tmp_path)
    metadata = tmp_path / "lab_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-provider\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{catalog.GROUP}]\nlab = lab_provider:Lab\n")
    code = (
        "from cloudprovider import ProviderContext, catalog\n"
        "print(catalog.create_provider('lab', ProviderContext()).name)\n"
        "print([listing.name for listing in catalog.installed()])\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    name, listed = done.stdout.splitlines()
    assert name == "lab"
    assert {"'kwok'", "'lab'", "'static'"} <= set(re.findall(r"'\w+'", listed))


def test_the_groups_file_is_valid(tmp_path: Path) -> None:
    spec = load_cloud(str(write_examples(tmp_path)["groups.yaml"]))
    assert [group.id for group in spec.groups] == ["web"]
    assert len(spec.groups[0].call_faults) == 2
