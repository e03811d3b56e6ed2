"""The wheel: named for this Python and platform, small, pinned to one PyTorch, and whole where only PyTorch is."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import torch
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("wheel")  # one process: the wheel is built once
CORE = ROOT / "build" / "lib" / "libtilewright_core.so"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree. The core is the one already built; the files with torch headers are compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    environment = {**os.environ, "TILEWRIGHT_CORE_LIBRARY": str(CORE)}
    # One build at a time, and none on what an interrupted one left behind.
    with FileLock(ROOT / "build" / "wheel.lock"):
        shutil.rmtree(ROOT / "build-wheel", ignore_errors=True)
        run = subprocess.run(
            [*command, "--wheel-dir", str(folder), str(ROOT)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    (made,) = folder.glob("*.whl")
    return made


def read_metadata(wheel: Path) -> metadata.PackageMetadata:
    (dist_info,) = {entry.split("/")[0] for entry in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in entry}
    text = zipfile.ZipFile(wheel).read(f"{dist_info}/METADATA").decode()
    return metadata.email.message_from_string(text)  # type: ignore[attr-defined, no-any-return]


def test_name_and_size(wheel: Path) -> None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{python}-{python}-{platform}.whl")
    assert wheel.stat().st_size <= 60e6


def test_needs_this_torch_and_nothing_else(wheel: Path) -> None:
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    needed = [need for need in read_metadata(wheel).get_all("Requires-Dist") or [] if "extra" not in need]
    assert needed == [f"torch<{major}.{minor + 1},>={major}.{minor}"]


def needs_of(name: str, seen: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """The distribution `name` and all that it needs, of what this environment has."""
    key = name.lower().replace("_", "-")
    if key in seen:
        return seen
    try:
        seen[key] = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return seen  # for another platform
    for need in seen[key].requires or []:
        if "extra ==" not in need:
            needs_of(need.split(";")[0].strip().split(" ")[0].split("<")[0].split(">")[0].split("=")[0], seen)
    return seen


@pytest.fixture(scope="module")
def only_torch(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site folder with the wheel's files, PyTorch and what PyTorch needs, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(site)
    for distribution in needs_of("torch", {}).values():
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            link = site / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    return site


PROGRAM = """
import json, sys
sys.path[:0] = [sys.argv[1]]
import torch
backends = torch.compiler.list_backends()
def scaled(x, y):
    return torch.relu(x * 2 + y)
x, y = torch.randn(8, 33), torch.randn(33)
made = torch.compile(scaled, backend="tilewright", options={"target": "sim:sm_90a", "strict": True})(x, y)
import tilewright
print(json.dumps([("tilewright" in backends), torch.equal(made, scaled(x, y)), tilewright.__file__]))
"""


def test_works_where_only_torch_is(only_torch: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(only_torch)],
        env={"PATH": "", "HOME": str(only_torch)},  # no compiler, no tools
        cwd=only_torch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    known, equal, where = json.loads(run.stdout.splitlines()[-1])
    assert known and equal
    assert where.startswith(str(only_torch))
