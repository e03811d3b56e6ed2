"""What cannot be compiled is a clear error or a clean return to PyTorch."""

import warnings

import pytest
import torch
from agree import Recorder, agrees, same
from tilewright import _C, backend


def compiled_with(fn, **options):
    return torch.compile(fn, backend=Recorder(**options))


def tilewright_warnings(caught):
    return [str(w.message) for w in caught if "tilewright" in str(w.message)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "sim:sm_70"}, r"unknown target 'sim:sm_70'; did you mean 'sim:sm_\d+'"),
        ({"target": "h200"}, "unknown target 'h200' \\(there are sim:sm_80"),
        ({"numerics": "exact"}, "unknown numerics 'exact'"),
        ({"strict": 1}, "option 'strict' takes True or False, found int 1"),
    ],
)
def test_options(device, options, message):
    compiled = torch.compile(lambda x: x + 1, backend="tilewright", options=options)
    with pytest.raises(Exception, match=message):
        compiled(torch.ones(2, device=device))


def test_an_unknown_mode(device):
    with pytest.raises(Exception, match="unknown mode 'reduce-overheads'; did you mean 'reduce-overhead'"):
        backend.check_mode("reduce-overheads")


class TestInternalFailure:
    @pytest.fixture(autouse=True)
    def broken_importer(self, monkeypatch):
        def fail(*args):
            raise AssertionError("broken on purpose")

        monkeypatch.setattr(backend, "import_fx", fail)
        monkeypatch.setattr(backend, "_warned", set())

    def test_pytorch_runs_the_graph_with_one_warning(self, device):
        x = torch.randn(3, 4, device=device, requires_grad=True)

        def fn(x):
            return (x.sin() * 2).sum(-1)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = compiled_with(fn, strict=False)(x)
            found.sum().backward()
        same(fn(x), found, "output")
        torch.testing.assert_close(x.grad, 2 * x.detach().cos())
        (text,) = tilewright_warnings(caught)[:1]
        assert "compiling the forward graph failed, so PyTorch runs it" in text
        assert "TILEWRIGHT_STRICT=1 makes this an error" in text and "broken on purpose" in text

    def test_strict_raises(self, device):
        with pytest.raises(Exception, match="broken on purpose"):
            compiled_with(torch.sin, strict=True)(torch.ones(2, device=device))


def test_unsupported_element_types_are_calls(device):
    recorder = agrees(lambda x: x * 2 + 1, torch.ones(3, dtype=torch.complex64, device=device))
    assert all("launch" not in part.executable.plan_text() for part in recorder.parts)


def test_non_contiguous_and_overlapping_inputs(device):
    def fn(x):
        return torch.softmax(x * 2, -1), x.sum(0)

    agrees(fn, torch.randn(6, 8, device=device).t())
    agrees(fn, torch.randn(1, 8, device=device).expand(5, 8))
    agrees(fn, torch.randn(10, device=device).as_strided((4, 5), (1, 1)))
    agrees(fn, torch.randn(8, 12, device=device)[1:, 2::3])


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU's tensors lie on the target")
def test_tensors_of_another_device_are_calls():
    def fn(x, y):
        return x + 1, y.to("meta") * 2

    x, y = torch.randn(3), torch.randn(3)
    found = compiled_with(fn)(x, y)
    same(fn(x, y)[0], found[0], "output")
    assert found[1].device.type == "meta"


def test_a_wrong_size_is_an_error_not_a_crash(device):
    """The executable checks its inputs; Dynamo's guards stand before it."""
    recorder = Recorder()
    x = torch.randn(3, 4, device=device)
    torch.compile(lambda x: x.exp(), backend=recorder)(x)
    with pytest.raises(RuntimeError, match="inputs"):
        recorder.parts[0].executable([x, x])


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: None, lambda x: (3, x)], ids=["input", "nothing", "number"])
def test_an_empty_graph(device, fn):
    x = torch.randn(3, device=device)
    same(fn(x), torch.compile(fn, backend="tilewright")(x), "output")


def test_an_empty_graph_of_text(device):
    text = "graph @empty(%x: f32[3]) -> (f32[3])\n{\n  return %x\n}\n"
    options = {"target": "" if device.type == "cuda" else "sim:sm_90a"}
    x = torch.randn(3, device=device)
    assert _C.compile(text, options, [], str(x.device))([x])[0] is x


def test_tensors_without_elements(device):
    agrees(lambda x: (torch.softmax(x * 2, -1), x.sum(), x.sum(0)), torch.zeros(0, 4, device=device))


def rows_apart(step, device):
    """Two rows so many bytes apart; nobody touches the memory between them."""
    x = torch.empty(step + 512, dtype=torch.uint8, device=device).as_strided((2, 512), (step, 1))
    return x.copy_(torch.arange(1024, device=device).reshape(2, 512))


@pytest.mark.parametrize("dynamic", [None, True])
def test_more_than_2_to_the_31_elements(device, dynamic):
    def fn(x):
        return x * 3 + 1

    recorder = Recorder()
    compiled = torch.compile(fn, backend=recorder, dynamic=dynamic)
    for step in (1024, 2**31, 2**32 + 64):
        x = rows_apart(step, device)
        same(fn(x), compiled(x), f"rows {step} bytes apart")
    assert len(recorder.parts) == (1 if dynamic else 2)
    for part in recorder.parts:
        text, counts = part.executable.plan_text(), part.executable.launches()
        assert sum(count for _, _, count in counts) > 0
        assert text.count("variant ") == len(counts) > text.count("index32"), "a variant with 64-bit indices"


def test_a_dump_folder_that_cannot_be_made(device, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(Exception, match=r"option dump: cannot make the folder .*file.*: Not a directory"):
        compiled_with(torch.sin, dump=str(file / "in"))(torch.ones(2, device=device))


def test_a_report_that_cannot_be_written(device, tmp_path):
    with pytest.raises(Exception, match="No such file or directory"):
        compiled_with(torch.sin, report=str(tmp_path / "absent" / "report"))(torch.ones(2, device=device))
