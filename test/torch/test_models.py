"""The models, through the public entry, each with sizes fixed and dynamic."""

import pytest
import torch
from agree import agrees
from models import MLP, BertLayer, LlamaBlock, ResNetBlock

CLOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
class TestInference:
    def close(self, dtype):
        return {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else CLOSE

    def test_mlp(self, device, dtype, dynamic):
        agrees(
            MLP().to(device, dtype),
            torch.randn(5, 16, device=device, dtype=dtype),
            dynamic=dynamic,
            **self.close(dtype),
        )

    def test_bert_layer(self, device, dtype, dynamic):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        mask = torch.ones(2, 6, device=device, dtype=torch.bool)
        agrees(BertLayer().to(device, dtype), x, mask, dynamic=dynamic, **self.close(dtype))

    def test_llama_block(self, device, dtype, dynamic):
        x = torch.randn(2, 6, 32, device=device, dtype=dtype)
        agrees(LlamaBlock().to(device, dtype), x, dynamic=dynamic, **self.close(dtype))


@pytest.mark.parametrize("dynamic", [None, True])
def test_resnet_block_in_evaluation(device, dynamic):
    agrees(ResNetBlock().to(device).eval(), torch.randn(2, 8, 6, 6, device=device), dynamic=dynamic, **CLOSE)
