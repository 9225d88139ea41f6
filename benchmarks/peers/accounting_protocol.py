"""What every accountant is asked, and the JSON lines in which it answers.

The tools live in environments of their own, so this file needs nothing but the standard library. A
tool's script hands ``serve`` one function from a case to what the tool says of it. Each call of
that function is timed whole: it starts from plain numbers and ends with the answer.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

Case = dict[str, Any]  # name, delta, parts, and epsilon where the least noise is sought
Part = dict[str, Any]  # kind, count, and the numbers of that kind; see accounting_cases.py
Answer = dict[str, float]  # upper, and what else the tool gives of: lower, middle, remove, add
Ask = Callable[[Case], Answer]

MIB = 1024.0  # KiB, in which Linux counts resident memory
LONG_ENOUGH = 0.05  # seconds that a timed batch of fast calls should last
MOST_CALLS = 50


class UnknownToTheTool(Exception):
    """The tool has no word for this case."""


def only_sampled_gaussian(case: Case) -> Part:
    """The one part of a case, for tools that know nothing else."""
    if [part["kind"] for part in case["parts"]] != ["sampled_gaussian"]:
        raise UnknownToTheTool("only sampled Gaussians")
    return case["parts"][0]


def varied(case: Case, turn: int) -> Case:
    """The case with noise (or the target) changed by turn parts in 1e9: no memo knows it."""
    if not turn:
        return case
    factor = 1 + 1e-9 * turn
    if "epsilon" in case:
        return {**case, "epsilon": case["epsilon"] * factor}
    numbers = ("noise", "epsilon")
    parts = [
        {name: value * factor if name in numbers else value for name, value in part.items()}
        for part in case["parts"]
    ]
    return {**case, "parts": parts}


def serve(ask: Ask, *, directions: Ask | None = None) -> None:
    """Answer each line {"do", "case", ...} with one line; stop at the end of the input.

    cold: the case as it is, once, and the memory it took above what was held before; time: a batch
    of calls, each on a case a little different; directions: what is known of remove and add alone.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # a tool's own remarks are not answers
    warnings.simplefilter("ignore")
    turn = 0
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        case = task["case"]
        said: dict[str, Any]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                match task["do"]:
                    case "cold":
                        said = _cold(ask, case, limit_mib=task["limit_mib"])
                    case "time":
                        calls = max(1, min(MOST_CALLS, int(LONG_ENOUGH / max(task["hint"], 1e-6))))
                        said = _timed(ask, [varied(case, turn + k + 1) for k in range(calls)])
                        turn += calls
                    case _:
                        said = {"answer": directions(case) if directions else {}}
        except UnknownToTheTool as refusal:
            said = {"unknown": str(refusal)}
        except MemoryError:
            said = {"failure": "memory over the limit"}
        except Exception as failure:
            words = " ".join(str(failure).split())[:160]
            said = {"failure": f"{type(failure).__name__}: {words}"}
        print(json.dumps(said), file=out, flush=True)


def _cold(ask: Ask, case: Case, *, limit_mib: float) -> dict[str, Any]:
    _forget_peak()
    if held := _address_space():
        resource.setrlimit(resource.RLIMIT_AS, (held + int(limit_mib * 2**20), -1))
    before = _peak()
    began = time.perf_counter()
    answer = ask(case)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "answer": answer, "extra_mib": (_peak() - before) / MIB}


def _timed(ask: Ask, cases: list[Case]) -> dict[str, Any]:
    began, worked = time.perf_counter(), time.process_time()
    for case in cases:
        answer = ask(case)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {"seconds": seconds / len(cases), "cpu": cpu / len(cases), "answer": answer}


def _peak() -> int:
    """KiB. VmHWM is this program's own; ru_maxrss begins with what its parent held."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _forget_peak() -> None:
    """Where the kernel allows it, the peak starts again from what is held now, after imports."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _address_space() -> int:
    """Bytes of address space in use; 0 where /proc is missing."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return 0
