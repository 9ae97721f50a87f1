"""Peaks of memory: operands, intermediates, scratch and result at the worst moment of a call.

tracemalloc counts what NumPy allocates. The memory that einloom lends is mapped, which it does not see, so
that while somebody is measured it comes from Python instead. What einloom's cache of buffers keeps for later
is not in use; with `held` it is counted too. torch's profiler tells what torch allocates, and XLA what its
programs need. Memory in which BLAS, TBLIS and einloom's own products pack blocks, and which they keep for the
next call, is counted for nobody: `packing_bytes` says for one product of BLAS how much it is, and with `held`
einloom's is counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from einloom._base.options import num_threads
from einloom.backend.cpu import buffers, cpu

from .machine import Contender

SLACK = 512 << 10  # bytes: Python's own objects, and the buffers of NumPy's loops


def peak_bytes(call: Contender, operands: Sequence[Any], held: bool = False) -> int:
    """Most bytes in use at once during a call that has run before, its operands included.

    With `held`, what the cache of buffers kept at that moment counts as well, and workspaces.
    """
    limit = buffers.BUFFERS.limit if held else 0
    if held:
        cpu().reclaim()  # workspaces are made anew
    else:
        buffers.BUFFERS.clear()
    with (
        mock.patch.object(buffers, "_pages", bytearray),
        mock.patch.object(buffers.BUFFERS, "_limit", limit),
    ):
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            call()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            cpu().reclaim()
    return peak - before + sum(x.nbytes for x in operands)


def packing_bytes(batch: int, m: int, n: int, k: int) -> int | None:
    """What NumPy's BLAS packs for `batch` products [m, k] x [k, n] of float64: the memory of a fresh process
    grows by so much when the first ones are written into an array that is there. None where the system does
    not tell."""
    command = [sys.executable, "-c", _PACKING, *map(str, (batch, m, n, k, num_threads()))]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return int(found.stdout) if found.returncode == 0 else None


_PACKING = """
import sys, numpy as np
from threadpoolctl import threadpool_limits

def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous"))

batch, m, n, k, threads = map(int, sys.argv[1:])
x, y, out = np.ones((batch, m, k)), np.ones((batch, k, n)), np.ones((batch, m, n))
with threadpool_limits(threads):
    np.matmul(np.ones((2, 2)), np.ones((2, 2)))
    for _ in range(2):  # to ask takes memory as well, once
        before = resident()
    np.matmul(x, y, out=out)
    print(resident() - before)
"""


def torch_peak_bytes(call: Contender, operands: Sequence[Any]) -> int:
    """The same of a call that computes with torch on the CPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    changes = [
        (event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]"
    ]
    alive = most = 0
    for _, nbytes in sorted(changes, key=lambda change: change[0]):
        alive += nbytes
        most = max(most, alive)
    return most + sum(x.nbytes for x in operands)


def xla_bytes(compiled: Any) -> int:
    """What a compiled program of XLA's needs: arguments, results, and one block for all that lies between."""
    sizes = compiled.memory_analysis()
    return int(
        sizes.argument_size_in_bytes
        + sizes.output_size_in_bytes
        + sizes.temp_size_in_bytes
        - sizes.alias_size_in_bytes
    )
