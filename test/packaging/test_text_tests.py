"""The text test runner can fail: lit with FileCheck, and goldens that only TILEWRIGHT_BLESS=1 rewrites."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "core"


def run_lit(folder: Path, test: str, *, bless: bool = False) -> tuple[bool, str]:
    """Runs lit over one test file of `folder`, which has the project's own configuration."""
    for name in ("lit.cfg.py", "expect.py"):
        shutil.copy(CORE / name, folder)
    (folder / "case.tw").write_text(test)
    environment = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_BLESS"}
    if bless:
        environment["TILEWRIGHT_BLESS"] = "1"
    lit = Path(sys.executable).with_name("lit")
    command = [lit, "-v", "--param", f"build={folder / 'build'}", folder]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return run.returncode == 0, run.stdout + run.stderr


def test_filecheck_passes_and_fails(tmp_path: Path) -> None:
    test = "// RUN: echo one two | FileCheck %s\n// CHECK: {}\n"
    assert run_lit(tmp_path, test.format("one two"))[0]
    passed, output = run_lit(tmp_path, test.format("two one"))
    assert not passed and "case.tw" in output


def test_failing_command_before_a_pipe_fails(tmp_path: Path) -> None:
    assert not run_lit(tmp_path, "// RUN: not echo x | FileCheck %s\n// CHECK: x\n")[0]


def test_golden_must_be_equal(tmp_path: Path) -> None:
    golden = "// RUN: echo new | %expect %s\n// EXPECT\n// {}\n"
    assert run_lit(tmp_path, golden.format("new"))[0]
    passed, output = run_lit(tmp_path, golden.format("old"))
    assert not passed and "+// new" in output
    assert (tmp_path / "case.tw").read_text() == golden.format("old")


def test_bless_rewrites_the_golden(tmp_path: Path) -> None:
    golden = "// RUN: echo new | %expect %s\n// EXPECT\n// {}\n"
    assert run_lit(tmp_path, golden.format("old"), bless=True)[0]
    assert (tmp_path / "case.tw").read_text() == golden.format("new")


def test_golden_that_is_missing_fails(tmp_path: Path) -> None:
    assert not run_lit(tmp_path, "// RUN: echo new | %expect %s\n")[0]
