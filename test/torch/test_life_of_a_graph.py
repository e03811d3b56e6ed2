"""docs/life-of-a-graph.md shows what the compiler writes: its fenced texts are dumps of one compile."""

import os
import re
from pathlib import Path

import pytest
import torch
from tilewright.backend import tilewright_backend

PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-graph.md"
FENCE = re.compile(r"```text (\S+)(?: (\S+))?\n(.*?)```", re.DOTALL)


def scaled_softmax(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125 + bias, -1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the page shows the simulator's target")
def test_the_page_shows_what_is_written(tmp_path: Path) -> None:
    options = {"target": "sim:sm_90a", "kernels": "auto", "dump": str(tmp_path)}
    compiled = torch.compile(scaled_softmax, backend=tilewright_backend, options=options)
    x, bias = torch.randn(256, 4096, dtype=torch.bfloat16), torch.randn(4096, dtype=torch.bfloat16)
    torch.testing.assert_close(compiled(x, bias), scaled_softmax(x, bias))
    (folder,) = tmp_path.iterdir()

    def dumped(match: re.Match[str]) -> str:
        name, wanted = match[1], match[2]
        text = (folder / name).read_text().replace(str(Path(__file__)), "model.py")
        text = re.sub(r'"model.py":\d+', '"model.py":2', re.sub(r"model\.py:\d+", "model.py:2", text))
        text = re.sub(r'variant "[0-9a-f]+"', 'variant "..."', text)
        if wanted:
            text = "".join(line for line in text.splitlines(keepends=True) if re.search(wanted, line))
        head = f"```text {name}" + (f" {wanted}" if wanted else "")
        return f"{head}\n{text.rstrip()}\n```"

    page = PAGE.read_text()
    current = FENCE.sub(dumped, page)
    if os.environ.get("TILEWRIGHT_BLESS") == "1":
        PAGE.write_text(current)
    assert current == page or os.environ.get("TILEWRIGHT_BLESS") == "1", "the page is old; ./dev bless rewrites it"
