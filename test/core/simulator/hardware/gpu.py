"""Launches PTX on the GPU through the driver, in PyTorch's context."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch


def check(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver answers {result}")


class Kernel:
    def __init__(self, ptx: str, entry: str) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(ptx.encode())))
        check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, entry.encode()))

    def __call__(
        self,
        args: Sequence[np.ndarray | np.generic | None],
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int = 0,
    ) -> None:
        """Runs it once and waits. Arrays are copied to memory aligned to 512 bytes, and back."""
        tensors, values = [], []
        for a in args:
            if isinstance(a, np.ndarray):
                tensors.append(torch.from_numpy(a.reshape(-1).view(np.uint8)).cuda())
                values.append(ctypes.create_string_buffer(tensors[-1].data_ptr().to_bytes(8, "little"), 8))
            else:
                raw = bytes(8) if a is None else a.tobytes()
                values.append(ctypes.create_string_buffer(raw, len(raw)))
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        sizes = [*([*grid, 1, 1][:3]), *([*block, 1, 1][:3])]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(self.driver.cuLaunchKernel(self.function, *sizes, shared_bytes, stream, pointers, None))
        torch.cuda.synchronize()
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        for array, tensor in zip(arrays, tensors, strict=True):
            array.reshape(-1).view(np.uint8)[:] = tensor.cpu().numpy()
