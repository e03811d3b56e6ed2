"""Prints what CMake needs to know of this Python and its PyTorch, one fact a line, without importing PyTorch."""

import importlib.util
import re
import sys
import sysconfig
from pathlib import Path

spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(f"no PyTorch in {sys.executable}")
torch = Path(spec.origin).parent
version = re.search(r"^__version__ = '([^']+)'", (torch / "version.py").read_text(), re.MULTILINE)
if version is None:
    sys.exit(f"no version in {torch / 'version.py'}")
print(version[1])
print(torch)
print(sysconfig.get_path("include"))
print(sysconfig.get_config_var("EXT_SUFFIX"))
print(f"{sys.version_info.major}.{sys.version_info.minor}")
