"""Writes the corpus: graphs captured on a GPU, as Graph IR text.

    python test/corpus/capture.py [--out FOLDER]

Capture on CPU is not capture on CUDA: other attention, normalization and convolution operators appear. The models of
test/torch/models.py and the library models below are captured with `dynamic=True`, forward and backward. Where there is
no GPU, test/torch/test_corpus.py compiles and simulates the texts.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "torch")]

import models  # noqa: E402
from tilewright.backend import CompiledPart, GraphCompiler  # noqa: E402
from tilewright.options import read_options  # noqa: E402


@dataclass
class Capture:
    """A model and its inputs; `loss` of its output starts backward, None captures inference."""

    name: str
    model: torch.nn.Module
    inputs: tuple[Any, ...]
    loss: Callable[[Any], torch.Tensor] | None = None


def library_models() -> Iterator[Capture]:
    import transformers as hf

    words = torch.randint(0, 1000, (3, 9), device="cuda")
    mini = hf.BertConfig(
        hidden_size=384, num_hidden_layers=1, num_attention_heads=12, intermediate_size=1536, vocab_size=1000
    )
    yield Capture("minilm", hf.BertModel(mini).eval(), (words, torch.ones_like(words)))
    base = hf.BertConfig(num_hidden_layers=1, vocab_size=1000)
    yield Capture("bert_base_layer", hf.BertModel(base).eval(), (words,))
    small = hf.GPT2Config(n_layer=1, vocab_size=1000, n_positions=64, use_cache=False)
    model = hf.GPT2LMHeadModel(small).train()
    yield Capture("gpt2_library_train", model, (words,), lambda out: out.logits.float().square().mean())


def own_models(dtype: torch.dtype) -> Iterator[Capture]:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def mean_square(out: torch.Tensor) -> torch.Tensor:
        return out.float().square().mean()

    yield Capture("mlp", models.MLP(), (normal(5, 16),))
    yield Capture("mlp_train", models.MLP(), (normal(5, 16),), mean_square)
    mask = torch.ones(3, 7, device="cuda", dtype=torch.bool)
    yield Capture("bert_layer", models.BertLayer().eval(), (normal(3, 7, 32), mask))
    yield Capture("bert_layer_train", models.BertLayer(dropout=0.1).train(), (normal(3, 7, 32), mask), mean_square)
    yield Capture("llama_block", models.LlamaBlock(), (normal(3, 7, 32),))
    yield Capture("llama_block_train", models.LlamaBlock(), (normal(3, 7, 32),), mean_square)
    image = normal(3, 8, 10, 10)
    yield Capture("resnet_block_train", models.ResNetBlock().train(), (image,), mean_square)
    last = image.to(memory_format=torch.channels_last)
    yield Capture("resnet_block_channels_last_train", models.ResNetBlock().train(), (last,), mean_square)
    words = torch.randint(0, 64, (3, 9), device="cuda")
    yield Capture("gpt2_train", models.GPT2().train(), (words,), lambda loss: loss)


def capture(item: Capture, dtype: torch.dtype) -> dict[str, str]:
    """The texts of one model by kind: inference, or forward and backward."""
    texts: dict[str, str] = {}

    def keep(part: CompiledPart) -> None:
        texts[part.kind] = part.text

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        return GraphCompiler(read_options({"kernels": "call"}), keep).compile(gm, example_inputs)

    torch._dynamo.reset()
    model = item.model.to("cuda", dtype)
    compiled = torch.compile(model, backend=backend, dynamic=True)
    if item.loss is None:
        with torch.no_grad():
            compiled(*item.inputs)
    else:
        item.loss(compiled(*item.inputs)).backward()
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "test" / "corpus")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for dtype, suffix in ((torch.bfloat16, "bf16"), (torch.float32, "f32")):
        torch.manual_seed(0)
        for item in (*own_models(dtype), *library_models()):
            for kind, text in capture(item, dtype).items():
                path = args.out / f"{item.name}_{suffix}_{kind}.tw"
                path.write_text(text.replace(str(ROOT) + "/", ""))
                print(path.name, text.count("= call "), "calls", flush=True)


if __name__ == "__main__":
    main()
