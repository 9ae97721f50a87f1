"""Work on arrays at fixed places as one CUDA graph: recorded once, launched as a whole.

While a stream is captured nothing runs and nothing may wait, and CuPy refuses cuSOLVER and whatever copies
from the host: so ops can be captured that are kernels of einloom's own or of CuPy, and products by cuBLAS,
which is called past CuPy (`blas.Products.recording`). What the graph writes lies in a pool of its own, which
nobody else takes memory from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..._base.errors import Unsupported
from ..catalogue import CATALOGUE
from .modules import Array, Module
from .routines import routines

GROUPS = ("elementwise", "structural", "reductions", "random", "contraction")
GATHERED = ("gather", "gather_dynamic_slice_sizes", "dynamic_slice", "dynamic_update_slice")
ALONE = frozenset((*GATHERED, "constant"))


def can_capture(op: str) -> bool:
    """Whether an op waits for nothing.

    >>> can_capture("dot_general"), can_capture("take")
    (True, False)
    """
    row = CATALOGUE[op]
    return row.is_view or row.group in GROUPS or op in ALONE


class Captured:
    """`captured()` queues the work on the current stream, on whatever the arrays hold by then, and returns
    its results: the same arrays every time, which the next launch writes over."""

    def __init__(
        self,
        xp: Module,
        ordinal: int,
        run: Callable[..., Any],
        arrays: Sequence[Array],
        lanes: int = 1,
    ) -> None:
        self._xp, self._ordinal = xp, ordinal
        self.arrays = tuple(arrays)
        cuda = xp.cuda
        with cuda.Device(ordinal):
            self._pool = cuda.MemoryPool()
            before = cuda.Event(disable_timing=True)
            before.record(cuda.get_current_stream())
            stream = cuda.Stream(non_blocking=True)
            self._products = routines(xp).recording(lanes)  # and the workspaces of these
            with stream, cuda.using_allocator(self._pool.malloc):
                stream.wait_event(before)
                with self._products:
                    run(*arrays)  # compiles kernels; and the pool has what the next run takes
                stream.synchronize()
                self.graph, self.results = self._recorded(stream, run)

    def _recorded(self, stream: Any, run: Callable[..., Any]) -> tuple[Any, Any]:
        stream.begin_capture()
        try:
            with self._products:
                results = run(*self.arrays)
            return stream.end_capture(), results
        except BaseException as error:
            with suppress(Exception):  # a capture that an error made invalid ends with one
                stream.end_capture()
            if not isinstance(error, Exception):
                raise
            raise Unsupported(
                f"capture: a step cannot be captured ({type(error).__name__}: {error}); call the program"
            ) from error

    def __call__(self) -> Any:
        with self._xp.cuda.Device(self._ordinal):
            self.graph.launch()
        return self.results
