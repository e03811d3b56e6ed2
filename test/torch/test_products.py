"""Products of matrices as kernels, forward and backward: results are eager's, and nothing else is left to PyTorch."""

import json

import pytest
import torch
import torch.nn.functional as F
from agree import Recorder, agrees
from models import MLP, BertLayer, LlamaBlock
from tilewright.options import read_options
from tilewright.testing import compile_text

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear", "matmul")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])


def close(dtype: torch.dtype) -> dict[str, float]:
    return {"rtol": 3e-2, "atol": 3e-2} if dtype is torch.bfloat16 else {"rtol": 1e-3, "atol": 1e-4}


def generated() -> Recorder:
    return Recorder(kernels="auto", matmul="generate", strict=True)


def left_to_pytorch(recorder: Recorder) -> set[str]:
    calls = [call for part in recorder.parts for call in part.report()["calls"] if not call["view"]]
    return {call["op"].split(".")[1] for call in calls}


def no_product_is_left(recorder: Recorder) -> None:
    assert not left_to_pytorch(recorder) & set(PRODUCTS)


@DTYPES
class TestModels:
    def test_llama_block_decoding(self, device, dtype):
        x = torch.randn(1, 1, 32, device=device, dtype=dtype)
        recorder = agrees(LlamaBlock().to(device, dtype), x, recorder=generated(), **close(dtype))
        assert all("attention" in name for name in left_to_pytorch(recorder))

    def test_llama_block_in_training(self, device, dtype):
        x = torch.randn(2, 20, 32, device=device, dtype=dtype, requires_grad=True)
        model = LlamaBlock().to(device, dtype)
        recorder = agrees(model, x, backward=True, recorder=generated(), **close(dtype))
        assert [part.kind for part in recorder.parts] == ["forward", "backward"]
        assert all("attention" in name for name in left_to_pytorch(recorder))

    def test_bert_layer_in_training(self, device, dtype):
        x = torch.randn(2, 18, 32, device=device, dtype=dtype, requires_grad=True)
        mask = torch.ones(2, 18, device=device, dtype=torch.bool)
        recorder = agrees(BertLayer().to(device, dtype), x, mask, backward=True, recorder=generated(), **close(dtype))
        no_product_is_left(recorder)

    def test_minilm(self, device, dtype):
        hf = pytest.importorskip("transformers")
        config = hf.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=500
        )
        model = hf.BertModel(config).eval().to(device, dtype)
        words = torch.randint(0, 500, (8, 9), device=device)  # 8 short paragraphs

        def embed(words, mask):
            with torch.no_grad():
                return model(words, mask).last_hidden_state.mean(1)

        recorder = Recorder(kernels="generate", strict=True)
        agrees(embed, words, torch.ones_like(words), calls=1, recorder=recorder, **close(dtype))
        # Attention, and look-ups: of embeddings, and of the mask at indices that an `add` computes.
        assert left_to_pytorch(recorder) <= {"embedding", "index", "gather", "add", "attention"}


@DTYPES
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_what_surrounds_a_product_is_inside(device, dtype, rows):
    weight, bias = (torch.randn(*shape, device=device, dtype=dtype) for shape in ((48, 64), (48,)))
    x, residual = (torch.randn(rows, size, device=device, dtype=dtype) for size in (64, 48))

    def fn(x, residual):
        y = F.gelu(F.linear(x, weight, bias))
        return y + residual, y

    recorder = agrees(fn, x, residual, recorder=Recorder(kernels="generate", strict=True), **close(dtype))
    assert [len(part.report()["kernels"]) for part in recorder.parts] == [1]
    no_product_is_left(recorder)


def test_the_pair_of_a_gated_layer_is_one_kernel(device):
    gate, up = (torch.randn(96, 64, device=device, dtype=torch.bfloat16) for _ in range(2))
    x = torch.randn(1, 64, device=device, dtype=torch.bfloat16)
    recorder = agrees(
        lambda x: F.silu(F.linear(x, gate)) * F.linear(x, up), x, recorder=generated(), **close(torch.bfloat16)
    )
    (kernel,) = recorder.parts[0].report()["kernels"]
    assert kernel["family"] == "matvec"
    (decision,) = (d for d in recorder.parts[0].report()["decisions"] if d["what"] == "product")
    assert decision["nodes"] == ["aten.mm.default"] * 2
    assert decision["before_us"] > decision["after_us"] > 0


@pytest.mark.parametrize("matmul", ["auto", "call"])
def test_a_large_product_stays_pytorchs(device, matmul):
    """Its record says both times."""
    if device.type == "cuda":
        pytest.skip("prices an H200")
    text = """
graph @inference(%x: bf16[8192, 8192], %w: bf16[8192, 8192]) -> bf16[8192, 8192]
{
  %0 = call aten.mm.default(%x, %w) : bf16[8192, 8192] strides [8192, 1]
  return %0
}
"""
    options = read_options({"target": "sim:sm_90a", "kernels": "auto", "matmul": matmul, "strict": True})
    report = json.loads(compile_text(text, options).report_json())
    assert not report["kernels"]
    given_back = [d for d in report["decisions"] if d["what"] == "give back"]
    assert len(given_back) == (matmul == "auto")
    for decision in given_back:
        assert decision["before_us"] > decision["after_us"] > 0


@DTYPES
def test_an_operand_that_is_written_in_the_same_graph(device, dtype):
    """The product reads what was there before, or after, as the program says."""
    weight = torch.randn(32, 24, device=device, dtype=dtype)

    def fn(x, cache):
        before = x @ cache
        cache.mul_(2)
        return before, x @ cache

    agrees(fn, torch.randn(3, 32, device=device, dtype=dtype), weight, recorder=generated(), **close(dtype))

    def update(x, cache):  # the product's result goes where its operand lies
        cache.copy_(x @ cache)
        return cache.sum()

    square = torch.randn(32, 32, device=device, dtype=dtype)
    agrees(update, square.clone(), square, recorder=generated(), **close(dtype))


@DTYPES
def test_gradients_are_accumulated(device, dtype):
    """Two uses of one weight: its gradient is the sum of two products."""
    layer = torch.nn.Linear(24, 24, device=device, dtype=dtype)
    x = torch.randn(20, 24, device=device, dtype=dtype, requires_grad=True)
    recorder = agrees(lambda x: layer(torch.tanh(layer(x))), x, backward=True, recorder=generated(), **close(dtype))
    no_product_is_left(recorder)


@pytest.mark.parametrize("dynamic", [None, True])
def test_mlp_with_sizes_fixed_and_dynamic(device, dynamic):
    for rows in (1, 7, 33):
        x = torch.randn(rows, 16, device=device, requires_grad=True)
        recorder = agrees(
            MLP().to(device), x, backward=True, dynamic=dynamic, recorder=generated(), **close(torch.float32)
        )
        no_product_is_left(recorder)


@pytest.mark.parametrize("shapes", [((0, 8), (8, 4)), ((3, 0), (0, 4)), ((3, 8), (8, 0)), ((1, 1), (1, 1))])
def test_sizes_of_zero_and_one(device, shapes):
    x, w = (torch.randn(*shape, device=device) for shape in shapes)
    agrees(lambda x, w: torch.relu(x @ w), x, w, recorder=generated())
    bias = torch.randn(w.shape[1], device=device)
    agrees(lambda b, x, w: torch.addmm(b, x, w, beta=2), bias, x, w, recorder=generated(), rtol=1e-5, atol=1e-5)


def test_views_of_operands(device):
    base = torch.randn(40, 33, device=device)
    x = base[3:8, 1:]  # rows that start at odd elements
    w = torch.randn(9, 64, device=device)[:, ::2]  # every other element
    agrees(lambda x, w: F.linear(x, w), x, w, recorder=generated(), rtol=1e-4, atol=1e-4)
    agrees(lambda x: x @ x.T, base[:, :16], recorder=generated(), rtol=1e-4, atol=1e-4)
    stretched = torch.randn(32, 1, device=device).expand(32, 6)  # a broadcast operand
    agrees(lambda x, w: x @ w, x, stretched, recorder=generated(), rtol=1e-4, atol=1e-4)


def test_half_overflows_as_eager_does(device):
    x = torch.full((2, 64), 200.0, device=device, dtype=torch.float16)
    agrees(lambda x, w: x @ w, x, x.T.contiguous().repeat(1, 9), recorder=generated())
