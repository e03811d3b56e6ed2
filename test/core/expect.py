"""Compares standard input with a golden, exactly: the `%expect` of the text tests (see lit.cfg.py).

usage: expect.py FILE

For a .tw file the golden is its last block: the lines after `// EXPECT`, each behind `// `. Any other file is a
golden as a whole. With TILEWRIGHT_BLESS=1 the golden is rewritten and the comparison passes.
"""

import difflib
import os
import sys
from pathlib import Path

MARKER = "// EXPECT"


def as_comments(lines: list[str]) -> list[str]:
    return [f"// {line}".rstrip() for line in lines]


def split_golden(path: Path) -> tuple[list[str], list[str]]:
    """The lines that stay when blessing (up to the marker), and the golden as it stands in the file."""
    if path.suffix != ".tw":
        return [], path.read_text().splitlines() if path.exists() else []
    lines = path.read_text().splitlines()
    if MARKER not in lines:
        return [*lines, MARKER], []
    at = lines.index(MARKER) + 1
    return lines[:at], lines[at:]


def main() -> int:
    path = Path(sys.argv[1])
    found = sys.stdin.read().splitlines()
    if not found:
        print(f"{path}: nothing arrived to compare", file=sys.stderr)
        return 1
    kept, golden = split_golden(path)
    found = as_comments(found) if path.suffix == ".tw" else found
    if found == golden:
        return 0
    if os.environ.get("TILEWRIGHT_BLESS") == "1":
        path.write_text("\n".join([*kept, *found]) + "\n")
        return 0
    diff = difflib.unified_diff(golden, found, f"{path} (golden)", "found", lineterm="")
    print("\n".join(diff), "\n./dev bless accepts what was found", sep="", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
