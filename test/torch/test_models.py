"""The models, through the public entry, each with sizes fixed and dynamic."""

import pytest
import torch
from agree import agrees, made_and_left
from models import GPT2, MLP, BertLayer, LlamaBlock, ResNetBlock

CLOSE = {"rtol": 1e-3, "atol": 1e-4}
GOLDEN_TORCH = "2.13."  # other versions capture other operators: 2.14 no clone for a dropout that does nothing


@pytest.fixture
def holds(golden, device):
    """A model's golden; capture on a GPU finds other operators, which the corpus keeps."""

    def check(name: str, dynamic, recorder) -> None:
        if device.type == "cpu" and torch.__version__.startswith(GOLDEN_TORCH):
            text = "".join(f"{part.kind}\n{made_and_left(part.report())}" for part in recorder.parts)
            golden(f"{name}_dynamic.txt" if dynamic else f"{name}.txt", text)

    return check


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
class TestInference:
    def close(self, dtype):
        return {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else CLOSE

    def test_mlp(self, device, dtype, dynamic, holds):
        x = torch.randn(5, 16, device=device, dtype=dtype)
        recorder = agrees(MLP().to(device, dtype), x, dynamic=dynamic, **self.close(dtype))
        if dtype is torch.float32:
            holds("mlp", dynamic, recorder)

    def test_bert_layer(self, device, dtype, dynamic, holds):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        mask = torch.ones(2, 6, device=device, dtype=torch.bool)
        recorder = agrees(BertLayer().to(device, dtype), x, mask, dynamic=dynamic, **self.close(dtype))
        if dtype is torch.float32:
            holds("bert_layer", dynamic, recorder)

    def test_llama_block(self, device, dtype, dynamic, holds):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        recorder = agrees(LlamaBlock().to(device, dtype), x, dynamic=dynamic, **self.close(dtype))
        if dtype is torch.float32:
            holds("llama_block", dynamic, recorder)


@pytest.mark.parametrize("dynamic", [None, True])
def test_resnet_block_in_evaluation(device, dynamic):
    agrees(ResNetBlock().to(device).eval(), torch.randn(2, 8, 6, 6, device=device), dynamic=dynamic, **CLOSE)


@pytest.mark.parametrize("dynamic", [None, True])
def test_resnet_block_in_training(device, dynamic, holds):
    x = torch.randn(2, 8, 6, 6, device=device, requires_grad=True)
    model = ResNetBlock().to(device)
    holds("resnet_block", dynamic, agrees(model, x, dynamic=dynamic, backward=True, calls=1, rtol=2e-3, atol=5e-4))


@pytest.mark.parametrize("dynamic", [None, True])
def test_gpt2_loss(device, dynamic, holds):
    tokens = torch.randint(0, 64, (2, 16), device=device)
    model = GPT2().to(device)
    holds("gpt2", dynamic, agrees(model, tokens, dynamic=dynamic, backward=True, calls=1, **CLOSE))
