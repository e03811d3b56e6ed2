"""setup.py stops with one sentence where it cannot build, and pins the wheel to one PyTorch minor version."""

import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[2]


def run_without_torch(folder: Path, name: str) -> str:
    """What `setup.py --version` prints in a Python that sees setuptools and nothing else of this environment."""
    site = folder / name
    site.mkdir()
    for pattern in ("setuptools", "setuptools-*.dist-info", "_distutils_hack"):
        for found in Path(setuptools.__file__).parents[1].glob(pattern):
            (site / found.name).symlink_to(found)
    program = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_path('setup.py', run_name='__main__')"
    run = subprocess.run(
        [sys.executable, "-S", "-c", program, str(site), "--version"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    return run.stderr.strip()


def test_isolated_build_is_refused(tmp_path: Path) -> None:
    said = run_without_torch(tmp_path, "pip-build-env-x")
    assert said == "tilewright is built for the PyTorch of your environment: pass --no-build-isolation to pip"


def test_missing_torch_is_named(tmp_path: Path) -> None:
    said = run_without_torch(tmp_path, "site")
    assert said.startswith("tilewright is built for the PyTorch of your environment, and there is none: install torch")
    assert len(said.splitlines()) == 1


@pytest.fixture
def setup_functions() -> dict[str, object]:
    with mock.patch.object(setuptools, "setup"):
        return runpy.run_path(str(ROOT / "setup.py"))


@pytest.mark.parametrize(
    ("version", "requirement"), [("2.13.0+cpu", "torch>=2.13,<2.14"), ("2.9.1", "torch>=2.9,<2.10")]
)
def test_requirement_is_one_minor_version(setup_functions: dict[str, object], version: str, requirement: str) -> None:
    torch_requirement = setup_functions["torch_requirement"]
    assert callable(torch_requirement)
    assert torch_requirement(version) == requirement
