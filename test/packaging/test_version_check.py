"""A build of Tilewright beside another PyTorch or Python fails with one sentence, and so does one that is not built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright._version_check import mismatch

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "tilewright"


def test_same_minor_versions_agree() -> None:
    built = {"PyTorch": "2.13.0+cpu", "Python": "3.11"}
    assert mismatch(built, {"PyTorch": "2.13.1+cu130", "Python": "3.11"}) is None


@pytest.mark.parametrize(
    ("running", "named"),
    [
        ({"PyTorch": "2.14.1", "Python": "3.11"}, "for PyTorch 2.13, and this is PyTorch 2.14"),
        ({"PyTorch": "2.1.3", "Python": "3.11"}, "for PyTorch 2.13, and this is PyTorch 2.1:"),
        ({"PyTorch": "2.13.0", "Python": "3.12"}, "for Python 3.11, and this is Python 3.12"),
    ],
)
def test_another_minor_version_is_named(running: dict[str, str], named: str) -> None:
    sentence = mismatch({"PyTorch": "2.13.0+cpu", "Python": "3.11"}, running)
    assert sentence is not None and named in sentence


def import_beside(folder: Path, torch_version: str, *, with_build_info: bool) -> str:
    """The last line that `import tilewright` prints beside a PyTorch that only has a version."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = '{torch_version}'\n")
    (folder / "tilewright").mkdir()
    for source in PACKAGE.glob("*.py"):
        if with_build_info or source.name != "_build_info.py":
            (folder / "tilewright" / source.name).write_text(source.read_text())
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", "import tilewright"], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    return run.stderr.splitlines()[-1]


def test_import_beside_another_torch(tmp_path: Path) -> None:
    line = import_beside(tmp_path, "2.0.1", with_build_info=True)
    assert line.startswith("ImportError: this build of tilewright is for PyTorch ")
    assert "and this is PyTorch 2.0: install the wheel for PyTorch 2.0" in line


def test_import_without_a_build(tmp_path: Path) -> None:
    line = import_beside(tmp_path, "2.13.0", with_build_info=False)
    assert line == "ImportError: tilewright is not built: run ./dev build, or pip install --no-build-isolation ."
