"""The models, through the public entry, each with sizes fixed and dynamic."""

import pytest
import torch
from agree import agrees
from models import GPT2, MLP, BertLayer, LlamaBlock, ResNetBlock
from tilewright.explanation import short_names

CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def made_and_left(recorder) -> str:
    """Kernels with their origins, and every operator left to PyTorch."""
    lines = []
    for part in recorder.parts:
        report = part.report()
        lines.append(part.kind)
        for kernel in report["kernels"]:
            lines.append(f"  kernel {kernel['name']}: {', '.join(short_names(kernel['origins']))}")
        calls = [f"  call {call['op']}: {call['why']}" for call in report["calls"] if not call["view"]]
        lines += sorted(set(calls))
    return "\n".join(lines) + "\n"


@pytest.fixture
def holds(golden, device):
    """A model's golden; capture on a GPU finds other operators, which the corpus keeps."""

    def check(name: str, recorder) -> None:
        if device.type == "cpu":
            golden(f"{name}.txt", made_and_left(recorder))

    return check


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
class TestInference:
    def close(self, dtype):
        return {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else CLOSE

    def test_mlp(self, device, dtype, dynamic, holds):
        x = torch.randn(5, 16, device=device, dtype=dtype)
        recorder = agrees(MLP().to(device, dtype), x, dynamic=dynamic, **self.close(dtype))
        if not dynamic and dtype is torch.float32:
            holds("mlp", recorder)

    def test_bert_layer(self, device, dtype, dynamic, holds):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        mask = torch.ones(2, 6, device=device, dtype=torch.bool)
        recorder = agrees(BertLayer().to(device, dtype), x, mask, dynamic=dynamic, **self.close(dtype))
        if not dynamic and dtype is torch.float32:
            holds("bert_layer", recorder)

    def test_llama_block(self, device, dtype, dynamic, holds):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        recorder = agrees(LlamaBlock().to(device, dtype), x, dynamic=dynamic, **self.close(dtype))
        if not dynamic and dtype is torch.float32:
            holds("llama_block", recorder)


@pytest.mark.parametrize("dynamic", [None, True])
def test_resnet_block_in_evaluation(device, dynamic):
    agrees(ResNetBlock().to(device).eval(), torch.randn(2, 8, 6, 6, device=device), dynamic=dynamic, **CLOSE)


def test_resnet_block_in_training(device, holds):
    x = torch.randn(2, 8, 6, 6, device=device, requires_grad=True)
    holds("resnet_block", agrees(ResNetBlock().to(device), x, backward=True, calls=1, rtol=2e-3, atol=5e-4))


def test_gpt2_loss(device, holds):
    tokens = torch.randint(0, 64, (2, 16), device=device)
    holds("gpt2", agrees(GPT2().to(device), tokens, backward=True, calls=1, **CLOSE))
