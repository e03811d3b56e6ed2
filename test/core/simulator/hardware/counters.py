"""Reads the memory counters of the launches of cases.py by Nsight Compute, and writes counters.json beside it.

usage: python counters.py [--out counters.json]

Needs a GPU, PyTorch with CUDA, and `ncu` with leave to read counters.
"""

from __future__ import annotations

import argparse
import csv
import json
import pathlib
import subprocess
import sys

import torch
from cases import cases
from gpu import Kernel

# What is kept: name in counters.json -> metric.
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "async_copy_requests": "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum",
    "async_copy_sectors": "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    "shared_load_instructions": "sm__sass_inst_executed_op_shared_ld.sum",
    "shared_store_instructions": "sm__sass_inst_executed_op_shared_st.sum",
    "ldmatrix_instructions": "sm__sass_inst_executed_op_ldsm.sum",
    "async_copy_instructions": "sm__sass_inst_executed_op_ldgsts.sum",
    "shared_load_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "ldmatrix_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "async_copy_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "ldmatrix_conflicts": "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "async_copy_conflicts": "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


LAUNCHED = "launched: "  # what the launching process says of each case


def run_cases() -> None:
    for case in cases():
        Kernel(case.ptx, case.entry)(case.args, case.grid, case.block, case.shared_bytes)
        print(LAUNCHED + case.name, flush=True)


def measured() -> dict[str, dict[str, int]]:
    """By case, without the metrics that this GPU does not have."""
    command = ["ncu", "--csv", "--page", "raw", "--metrics", ",".join(METRICS.values()), "--print-units", "base"]
    # Only the cases' kernels: PyTorch's own are in namespaces.
    entries = sorted({case.entry for case in cases()})
    command += ["--kernel-name-base", "function", "--kernel-name", f"regex:^({'|'.join(entries)})$"]
    run = subprocess.run([*command, sys.executable, __file__, "--run"], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    launched = [line.removeprefix(LAUNCHED) for line in lines if line.startswith(LAUNCHED)]
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    rows = list(csv.DictReader(line for line in lines[begin:] if line.startswith('"')))[1:]  # the first row holds units
    print(f"{len(launched)} cases, {len(rows)} launches measured\n{run.stderr[-1500:]}", file=sys.stderr)
    if not rows or len(rows) != len(launched):
        raise RuntimeError(f"ncu's table is not that of the cases:\n{run.stdout[-2000:]}")
    return {
        name: {
            key: int(float(row[metric].replace(",", "")))
            for key, metric in METRICS.items()
            if row.get(metric, "")[:1].isdigit()
        }
        for name, row in zip(launched, rows, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "counters.json")
    parser.add_argument("--run", action="store_true", help="only the launches, for ncu")
    args = parser.parse_args()
    if args.run:
        run_cases()
        return
    counters = measured()
    ncu = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.split("Version ")[-1].split()[0]
    result = {"gpu": torch.cuda.get_device_name(), "ncu": ncu, "counters": counters}
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
