"""PyTorch's operator database through `torch.compile(backend="tilewright")`, against eager:

    python -m tilewright.testing.sweep --samples 1 --jobs 2        # one sample of each operator and element type
    python -m tilewright.testing.sweep --operators 'add|mul' -v    # all samples of some, with each difference

Findings are lines of JSON in a folder, from which a later run goes on; `--table` writes what they say into
docs/operators.md. Each sample has a time limit, and runs in a process that may die of it.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tilewright.options import Options, read_options
from tilewright.testing.operator_cases import (
    ELEMENT_TYPES,
    WAYS,
    Case,
    Finding,
    cases,
    check_sample,
    chosen,
    operators,
    samples,
)
from tilewright.testing.sweep_table import write_table

Key = tuple[Case, int]
TABLE = Path(__file__).resolve().parents[3] / "docs" / "operators.md"


class Log:
    """A file of findings, a line each; a line without a finding says which sample is begun."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, key: Key) -> None:
        self.write(key, {})

    def end(self, key: Key, finding: Finding) -> None:
        self.write(key, {"finding": asdict(finding)})

    def write(self, key: Key, more: dict[str, Any]) -> None:
        case = key[0]
        with self.path.open("a") as file:
            file.write(json.dumps({"case": [case.operator, case.dtype, case.way], "sample": key[1], **more}) + "\n")

    def read(self) -> tuple[dict[Key, Finding], Key | None]:
        """The findings, and the sample that the last line begins."""
        found: dict[Key, Finding] = {}
        begun = None
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            record = json.loads(line)
            key = (Case(*record["case"]), record["sample"])
            begun = None if "finding" in record else key
            if "finding" in record:
                found[key] = Finding(**record["finding"])
        return found, begun


def read_findings(folder: Path) -> dict[Key, Finding]:
    found: dict[Key, Finding] = {}
    for path in sorted(folder.glob("*.jsonl")):
        found |= Log(path).read()[0]
    return found


def join_files(arguments: argparse.Namespace) -> None:
    """Makes one file of all, without findings that are to be made again."""
    found, chosen_cases = read_findings(arguments.results), set(selected(arguments))
    for path in arguments.results.glob("*.jsonl"):
        path.unlink()
    log = Log(arguments.results / "findings.jsonl")
    for (case, i), finding in sorted(found.items()):
        if not arguments.again or case not in chosen_cases or not re.search(arguments.again, finding.result):
            log.end((case, i), finding)


def selected(arguments: argparse.Namespace) -> list[Case]:
    every = cases(operators(), arguments.dtypes, arguments.ways)
    return [case for case in every if re.fullmatch(arguments.operators, case.operator)]


def work(todo: list[Case], log: Log, arguments: argparse.Namespace, count: Any) -> None:
    """Runs in a process of its own, which the alarm of a sample's time limit ends."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    torch._logging.set_logs(all=logging.CRITICAL)  # type: ignore[attr-defined]
    torch.set_num_threads(1)
    ops, options, done = operators(), sweep_options(arguments), read_findings(arguments.results)
    ran = {key for finding in done.values() if finding.result != "differs" for key in finding.kernels}
    for case in todo:
        found = samples(ops[case.operator], case)
        for i in chosen(len(found), arguments.samples, case, arguments.seed):
            if (case, i) in done:
                continue
            log.begin((case, i))
            signal.setitimer(signal.ITIMER_REAL, arguments.limit)
            finding = check_sample(ops[case.operator], case, found[i], options, ran, arguments.dynamic or None)
            signal.setitimer(signal.ITIMER_REAL, 0)
            log.end((case, i), finding)
            if finding.result != "differs":
                ran |= set(finding.kernels)
        with count.get_lock():
            count.value += 1


def sweep_options(arguments: argparse.Namespace) -> Options:
    return read_options({"target": arguments.target, "kernels": "generate", "strict": True})


def run_shard(todo: list[Case], log: Log, arguments: argparse.Namespace, count: Any) -> Iterator[None]:
    """Works in one process after another, each of which goes on behind the sample that ended the one before; yields
    while it waits."""
    while todo:
        worker = multiprocessing.get_context("fork").Process(target=work, args=(todo, log, arguments, count))
        worker.start()
        while worker.exitcode is None:
            yield
            worker.join(0.2)
        begun = log.read()[1]
        if worker.exitcode == 0 or begun is None:
            if worker.exitcode != 0:
                raise RuntimeError(f"a process of the sweep ended with {worker.exitcode} outside of a sample")
            return
        timed_out = worker.exitcode == -signal.SIGALRM
        why = f"longer than {arguments.limit:g} s" if timed_out else f"the process ended with {worker.exitcode}"
        log.end(begun, Finding("differs", why))
        todo = todo[todo.index(begun[0]) :]


def sweep(arguments: argparse.Namespace) -> None:
    todo = selected(arguments)
    count = multiprocessing.Value("i", 0)
    shards = [
        run_shard(todo[i :: arguments.jobs], Log(arguments.results / f"shard{i}.jsonl"), arguments, count)
        for i in range(arguments.jobs)
    ]
    with tqdm(total=len(todo), unit="case", disable=None) as progress:
        while shards:
            shards = [shard for shard in shards if next(shard, "done") is None]
            progress.update(count.value - progress.n)


def report(found: dict[Key, Finding], arguments: argparse.Namespace) -> int:
    """Prints how many samples gave what, and with -v each difference; returns how many differ."""
    counts = Counter(finding.result for finding in found.values())
    print(f"{len(found)} samples: " + ", ".join(f"{n} {result}" for result, n in counts.most_common()))
    for (case, i), finding in sorted(found.items()):
        if finding.result == "differs" and arguments.verbose:
            why = re.sub(r"\s*\n\s*", "; ", finding.why.strip())
            print(f"  {case.operator} {case.dtype} {case.way} {i}: {why[:300]}")
    return counts["differs"]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tilewright.testing.sweep", description=__doc__)
    parser.add_argument("--operators", default=".*", help="regular expression that a whole name must match")
    parser.add_argument("--dtypes", nargs="*", choices=ELEMENT_TYPES, default=ELEMENT_TYPES)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--samples", type=int, default=0, help="of each case, drawn by --seed; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one sample")
    parser.add_argument("--dynamic", action="store_true", help="with symbolic sizes; use a folder of its own")
    parser.add_argument("--target", default="sim:sm_90a")
    parser.add_argument("--results", type=Path, default=Path("build/sweep"), help="folder of the findings")
    parser.add_argument("--again", default="", help="makes findings anew whose result this matches, as 'differs'")
    parser.add_argument("--table", action="store_true", help="only write the findings into docs/operators.md")
    parser.add_argument("-v", "--verbose", action="store_true", help="prints each difference")
    return parser.parse_args(arguments)


def main(given: list[str] | None = None) -> int:
    arguments = parse(given)
    arguments.results.mkdir(parents=True, exist_ok=True)
    if arguments.table:
        write_table(TABLE, read_findings(arguments.results))
        return 0
    join_files(arguments)
    sweep(arguments)
    return 1 if report(read_findings(arguments.results), arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
