"""Measures a row of the GPU table (csrc/target/gpu_table.cpp) on the GPU at hand.

usage: python benchmarks/calibrate.py [--out results.json]

Prints the row as the table writes it, and the JSON of all figures. Needs PyTorch with CUDA and the driver; the probes
that PyTorch cannot express are small PTX kernels, loaded through the driver. Takes about half a minute; nothing else
may run on the GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

MIB = 1 << 20

# Numbers of CUdevice_attribute.
ATTRIBUTES = {
    "sms": 16,
    "max_threads_per_sm": 39,
    "max_blocks_per_sm": 106,
    "registers_per_sm": 82,
    "smem_per_sm_bytes": 81,
    "smem_optin_bytes": 97,
    "smem_reserved_bytes": 111,
    "l2_bytes": 38,
}

# empty: nothing. chase: one thread follows `steps` links from `start`, and writes where it ended.
# in_flight: each thread reads 16 bytes at a time, `stride` bytes apart, one load outstanding, up to `end`.
PTX = """
.version 7.4
.target sm_80
.address_size 64

.visible .entry empty(.param .u64 out)
{
  ret;
}

.visible .entry chase(.param .u64 start, .param .u64 steps, .param .u64 out)
{
  .reg .pred %p;
  .reg .u64 %a, %n, %o;
  ld.param.u64 %a, [start];
  ld.param.u64 %n, [steps];
  ld.param.u64 %o, [out];
  cvta.to.global.u64 %o, %o;
LOOP:
  ld.global.cg.u64 %a, [%a];
  sub.u64 %n, %n, 1;
  setp.ne.u64 %p, %n, 0;
  @%p bra LOOP;
  st.global.u64 [%o], %a;
  ret;
}

.visible .entry in_flight(.param .u64 begin, .param .u64 end, .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %t, %b, %n, %g, %s, %v0, %v1, %v2, %v3;
  .reg .u64 %a, %e, %o, %stride, %first;
  ld.param.u64 %a, [begin];
  ld.param.u64 %e, [end];
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %b, %ctaid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %g, %nctaid.x;
  mad.lo.u32 %t, %b, %n, %t;
  mul.wide.u32 %first, %t, 16;
  add.u64 %a, %a, %first;
  mul.lo.u32 %g, %g, %n;
  mul.wide.u32 %stride, %g, 16;
  mov.u32 %s, 0;
  setp.ge.u64 %p, %a, %e;
  @%p bra DONE;
LOOP:
  .pragma "nounroll";
  ld.global.nc.v4.u32 {%v0, %v1, %v2, %v3}, [%a];
  xor.b32 %v0, %v0, %v1;
  xor.b32 %v2, %v2, %v3;
  xor.b32 %s, %s, %v0;
  xor.b32 %s, %s, %v2;
  add.u64 %a, %a, %stride;
  setp.lt.u64 %p, %a, %e;
  @%p bra LOOP;
DONE:
  setp.ne.u32 %p, %s, 305419896;
  @%p bra END;
  st.global.u32 [%o], %s;
END:
  ret;
}
"""


class Driver:
    """The few calls of the CUDA driver that the probes need, in PyTorch's context."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        self.check(self.lib.cuModuleLoadData(ctypes.byref(self.module), ctypes.c_char_p(PTX.encode())))

    @staticmethod
    def check(result: int) -> None:
        if result != 0:
            raise RuntimeError(f"the driver answers {result}")

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.check(self.lib.cuDeviceGetAttribute(ctypes.byref(value), number, torch.cuda.current_device()))
        return value.value

    def kernel(self, name: str, arguments: Sequence[int]) -> Callable[[int, int], None]:
        """A call that launches the kernel on the current stream with this many blocks and threads."""
        function = ctypes.c_void_p()
        self.check(self.lib.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()))
        values = [ctypes.c_uint64(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        launch_kernel, check = self.lib.cuLaunchKernel, self.check

        def launch(blocks: int, threads: int, values: Any = values) -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, None))

        return launch


def device_us(call: Callable[[], Any], repeats: int = 20) -> float:
    """Median time on the GPU between two events around the call."""
    call()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return float(statistics.median(times))


def host_us(call: Callable[[], Any], repeats: int = 7) -> float:
    """Median wall time of the call, which must not wait for the GPU."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def in_graph_us(call: Callable[[], Any], count: int = 400) -> float:
    """Time on the GPU of one of `count` calls in a row in a CUDA graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return device_us(graph.replay) / count


def measure_copy() -> dict[str, float]:
    source = torch.empty(2048 * MIB, dtype=torch.uint8, device="cuda").random_(0, 256)
    target = torch.empty_like(source)
    return {"dram_bytes_per_s": 2 * source.numel() / device_us(lambda: target.copy_(source)) * 1e6}


def measure_graph(driver: Driver) -> dict[str, float]:
    """The gap of an empty kernel, what a small one takes beyond it, and the rate of L2 under copies that lie in it."""
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    empty = driver.kernel("empty", [out.data_ptr()])
    sms = driver.attribute(ATTRIBUTES["sms"])
    gap_us = in_graph_us(lambda: empty(sms, 128))
    # A sixth of the cache in and a sixth out: all of it stays.
    size = driver.attribute(ATTRIBUTES["l2_bytes"]) // 6 // 4096 * 4096
    large, small = (torch.zeros(2, n // 4, dtype=torch.float32, device="cuda") for n in (size, 64 << 10))
    large_us = in_graph_us(lambda: torch.neg(large[0], out=large[1]))
    small_us = in_graph_us(lambda: torch.neg(small[0], out=small[1]))
    return {
        "launch_graph_us": gap_us,
        "small_kernel_us": small_us,
        "l2_bytes_per_s": 2 * (size - (64 << 10)) / (large_us - small_us) * 1e6,
    }


def measure_latency(driver: Driver) -> dict[str, float]:
    """A dependent load from DRAM and from L2: a random walk over much more, and much less, than the cache."""
    out = torch.zeros(1, dtype=torch.int64, device="cuda")

    def walk_us(size: int, steps: int) -> float:
        count = size // 256  # one link every 256 bytes, so that no load finds its neighbour's sector
        order = torch.randperm(count)
        links = torch.zeros(count, 32, dtype=torch.int64)
        memory = torch.empty(count, 32, dtype=torch.int64, device="cuda")
        links[order, 0] = memory.data_ptr() + 256 * order.roll(-1)
        memory.copy_(links)
        # Each time from another place: what was walked before may still be in the cache.
        starts = iter((memory.data_ptr() + 256 * order[:: count // 6]).tolist())
        return device_us(lambda: driver.kernel("chase", [next(starts), steps, out.data_ptr()])(1, 1), repeats=5) / steps

    return {"latency_us": walk_us(1024 * MIB, 20_000), "l2_latency_us": walk_us(4 * MIB, 40_000)}


def measure_in_flight(driver: Driver) -> dict[str, Any]:
    """Bandwidth of reads by bytes in flight an SM; the least that reaches 0.92 of the best saturates."""
    data = torch.zeros(1024 * MIB, dtype=torch.uint8, device="cuda")
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    read = driver.kernel("in_flight", [data.data_ptr(), data.data_ptr() + data.numel(), out.data_ptr()])
    sms = driver.attribute(ATTRIBUTES["sms"])
    most_threads = driver.attribute(ATTRIBUTES["max_threads_per_sm"])
    rates = {}
    for threads in range(256, most_threads + 1, 256):
        us = device_us(lambda threads=threads: read(sms * threads // 128, 128))  # type: ignore[misc]
        rates[threads * 16] = data.numel() / us * 1e6
    best = max(rates.values())
    return {
        "read_bytes_per_s_by_bytes_in_flight": rates,
        "bytes_in_flight_per_sm": min(size for size, rate in rates.items() if rate >= 0.92 * best),
    }


def measure_blocks(driver: Driver) -> dict[str, float]:
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    empty = driver.kernel("empty", [out.data_ptr()])
    few, many = 100_000, 1_100_000
    return {"blocks_per_us": (many - few) / (device_us(lambda: empty(many, 64)) - device_us(lambda: empty(few, 64)))}


def measure_host() -> dict[str, float]:
    """The host's part of a launch, and of an operator through PyTorch's dispatcher from C++."""
    count = 500  # fewer than the queue of a stream holds
    sleep, nothing = torch._C._cuda_sleep, torch._C._cuda_getDevice  # the one launches a kernel, the other none
    launches_us = host_us(lambda: [sleep(0) for _ in range(count)]) - host_us(lambda: [nothing() for _ in range(count)])

    @torch.jit.script
    def operators(x: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            x = torch.neg(x)
        return x

    x = torch.zeros(64, device="cuda")
    with torch.no_grad(), torch.jit.optimized_execution(False):  # which would fuse them
        operators(x, 10)
        operators_us = host_us(lambda: operators(x, count))
    return {
        "launch_host_us": launches_us / count,
        "call_host_us": operators_us / count,
    }


def measure_link() -> dict[str, float]:
    host = torch.empty(256 * MIB, dtype=torch.uint8).pin_memory()
    device = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    small_host, small_device = host[:4], device[:4]

    def round_trip() -> None:
        small_device.copy_(small_host, non_blocking=True)
        torch.cuda.synchronize()

    return {
        "link_bytes_per_s": host.numel() / device_us(lambda: device.copy_(host, non_blocking=True)) * 1e6,
        "link_latency_us": host_us(round_trip, repeats=50),
    }


def measure() -> dict[str, Any]:
    torch.cuda.init()  # type: ignore[no-untyped-call]
    torch.zeros(1, device="cuda")
    driver = Driver()
    figures: dict[str, Any] = {
        "name": torch.cuda.get_device_name(),
        "compute_capability": torch.cuda.get_device_capability(),
        **{name: driver.attribute(number) for name, number in ATTRIBUTES.items()},
        **measure_copy(),
        **measure_graph(driver),
        **measure_latency(driver),
        **measure_in_flight(driver),
        **measure_blocks(driver),
        **measure_host(),
        **measure_link(),
    }
    # The model adds half a DRAM latency, its L2 latency, to every kernel whose data lies in the cache.
    beyond_gap_us = figures["small_kernel_us"] - figures["launch_graph_us"] - figures["latency_us"] / 2
    figures["kernel_fixed_us"] = max(beyond_gap_us, 0.1)
    return figures


def as_row(figures: dict[str, Any]) -> str:
    """The measured fields as csrc/target/gpu_table.cpp writes them."""
    lines = [f"  gpu.{name} = {figures[name]};" for name in ATTRIBUTES]
    for name in ("dram_bytes_per_s", "l2_bytes_per_s", "link_bytes_per_s"):
        lines.append(f"  gpu.{name} = {figures[name]:.3g};")
    for name in (
        "link_latency_us",
        "launch_host_us",
        "launch_graph_us",
        "kernel_fixed_us",
        "call_host_us",
        "latency_us",
    ):
        lines.append(f"  gpu.{name} = {figures[name]:.2f};")
    for name in ("bytes_in_flight_per_sm", "blocks_per_us"):
        lines.append(f"  gpu.{name} = {figures[name]:.0f};")
    return "\n".join([*lines, "  gpu.measured = true;"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures a row of the GPU table on the GPU at hand.")
    parser.add_argument("--out", help="file that receives all figures as JSON")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("calibrate: no GPU here", file=sys.stderr)
        return 1
    figures = measure()
    print(f"// {figures['name']}, measured by benchmarks/calibrate.py")
    print(as_row(figures))
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out:
        with open(arguments.out, "w") as out:
            out.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
