"""Launches: which variant runs, what a run allocates, what a profiler sees."""

import json

import pytest
import torch
from agree import Recorder


def compiled(fn, *inputs, **how):
    """The compiled function and the one part that it was compiled to."""
    recorder = Recorder(**how.pop("options", {}))
    function = torch.compile(fn, backend=recorder, **how)
    function(*inputs)
    (part,) = recorder.parts
    return function, part.executable


def launched(executable):
    """Keys of the variants, with how often each ran."""
    return {(step, key): count for step, key, count in executable.launches()}


def test_a_kernel_runs_once_a_call(device):
    x = torch.randn(8, 32, device=device)
    function, executable = compiled(lambda x: (x * 2 + 1).relu(), x)
    before = sum(launched(executable).values())
    for _ in range(3):
        function(x)
    assert before == 1
    assert sum(launched(executable).values()) == 4


def test_an_unaligned_input_takes_another_variant(device):
    base = torch.randn(4 * 1024 + 1, device=device)
    function, executable = compiled(lambda x: x * 2 + 1, base[:-1])
    first = launched(executable)
    x = base[1:]
    assert torch.equal(function(x), x * 2 + 1)
    changed = [key for key, count in launched(executable).items() if count != first[key]]
    assert len(executable.launches()) > 1, "a kernel for any alignment stands beside the one for 16 bytes"
    assert all(first[key] == 0 for key in changed)


def test_nothing_is_launched_for_empty_tensors(device):
    function, _ = compiled(lambda x: x * 2 + 1, torch.randn(4, 8, device=device), dynamic=True)
    found = function(torch.randn(0, 8, device=device))
    assert found.shape == (0, 8)


@pytest.mark.parametrize("size", [2, 3, 31, 64, 1000])
def test_one_plan_serves_all_sizes(device, size):
    function, _ = compiled(lambda x: x.softmax(-1), torch.randn(6, 48, device=device), dynamic=True)
    x = torch.randn(5, size, device=device)
    torch.testing.assert_close(function(x), x.softmax(-1))


def test_other_strides_than_the_example(device):
    function, _ = compiled(lambda x: x * 2 + 1, torch.randn(6, 8, device=device))
    x = torch.randn(8, 6, device=device).t()
    found = function(x)
    assert torch.equal(found, x * 2 + 1)
    assert found.stride() == (x * 2 + 1).stride()


def test_a_negated_view_is_read_by_its_values(device):
    function, _ = compiled(lambda x: x * 2 + 1, torch.randn(4, device=device))
    x = torch.randn(4, dtype=torch.complex64, device=device).conj().imag
    assert x.is_neg()
    assert torch.equal(function(x), x * 2 + 1)


def test_the_profiler_names_kernels_after_operators(device):
    x = torch.randn(8, 32, device=device)
    function, executable = compiled(lambda x: (x * 2).exp(), x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(x)
    names = {event.key for event in profile.key_averages()}
    launches = [kernel["name"] for kernel in json.loads(executable.report_json())["kernels"]]
    assert launches
    assert set(launches) <= names


def test_pytorchs_check_of_custom_operators_passes(device):
    x = torch.randn(8, 32, device=device)
    with torch._functorch.config.patch(check_custom_op_aliasing=True, error_on_custom_op_aliasing=True):
        function = torch.compile(lambda x: (x[1:].t(), x * 2), backend=Recorder())
        view, twice = function(x)
    assert view.data_ptr() == x[1:].data_ptr()
    assert torch.equal(twice, x * 2)


def test_a_second_run_overlaps_nothing_of_the_first(device):
    x = torch.randn(8, 32, device=device)
    function, _ = compiled(lambda x: x.exp(), x)
    first, second = function(x), function(x)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)


def test_many_threads_share_a_plan(device):
    import threading

    x = torch.randn(64, 96, device=device)
    _, executable = compiled(lambda x: (x * 2 + 1).sum(-1), x)
    want = executable([x.clone()])[0]
    found = []
    threads = [threading.Thread(target=lambda: found.append(executable([x.clone()])[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(torch.equal(result, want) for result in found)
