"""Configuration of lit, LLVM's test runner, for the text tests: every .tw file below this folder with RUN lines.

RUN lines may use
  %s       the test file itself
  %t       a scratch file of this test
  %expect  compares its input exactly with a golden: `... | %expect %s` with the block after `// EXPECT` of the test
           file, `... | %expect %S/inputs/x.txt` with a whole file. TILEWRIGHT_BLESS=1 rewrites the golden instead.
and the tools of the build and FileCheck by name. Files in folders named `inputs` are read by tests and are none.

By hand: lit -v test/core/passes            (another build folder: lit --param build=/path)
"""

import os
import shlex
import sys
from pathlib import Path

import lit.formats

source = Path(__file__).resolve().parent
build = Path(lit_config.params.get("build", source.parents[1] / "build")).resolve()
filecheck_dir = lit_config.params.get("filecheck_dir", "/usr/lib/llvm-19/bin")

config.name = "text"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tw"]
config.excludes = ["inputs"]
config.test_source_root = str(source)
config.test_exec_root = str(build / "test" / "core")
config.substitutions.append(("%expect", f"{shlex.quote(sys.executable)} {shlex.quote(str(source / 'expect.py'))}"))
config.environment["PATH"] = os.pathsep.join([str(build / "bin"), filecheck_dir, config.environment["PATH"]])
if "TILEWRIGHT_BLESS" in os.environ:
    config.environment["TILEWRIGHT_BLESS"] = os.environ["TILEWRIGHT_BLESS"]
