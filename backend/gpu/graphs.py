"""Work on arrays at fixed places as one CUDA graph: recorded once, launched as a whole.

While a stream is captured nothing runs and nothing may wait, and CuPy refuses cuBLAS, cuSOLVER and whatever
copies from the host: so only ops that are kernels of einloom's own or of CuPy can be captured. What the graph
writes lies in a pool of its own, which nobody else takes memory from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..._base.errors import Unsupported
from ..catalogue import CATALOGUE
from .modules import Array, Module

GROUPS = ("elementwise", "structural", "reductions", "random")
GATHERED = ("gather", "gather_dynamic_slice_sizes", "dynamic_slice", "dynamic_update_slice")
ALONE = frozenset((*GATHERED, "constant"))
ENGINES = frozenset(("small", "cutensor", "zeros"))
"""Of products: `gemm` and `packed` call cuBLAS."""


def can_capture(op: str, engine: str) -> bool:
    """Whether an op may be captured that runs by this engine.

    >>> can_capture("dot_general", "small"), can_capture("dot_general", "gemm"), can_capture("take", "take")
    (True, False, False)
    """
    row = CATALOGUE[op]
    if row.group == "contraction":
        return engine in ENGINES
    return row.is_view or row.group in GROUPS or op in ALONE


class Captured:
    """`captured()` queues the work on the current stream, on whatever the arrays hold by then, and returns
    its results: the same arrays every time, which the next launch writes over."""

    def __init__(
        self, xp: Module, ordinal: int, run: Callable[..., Any], arrays: Sequence[Array]
    ) -> None:
        self._xp, self._ordinal = xp, ordinal
        self.arrays = tuple(arrays)
        cuda = xp.cuda
        with cuda.Device(ordinal):
            self._pool = cuda.MemoryPool()
            before = cuda.Event(disable_timing=True)
            before.record(cuda.get_current_stream())
            stream = cuda.Stream(non_blocking=True)
            with stream, cuda.using_allocator(self._pool.malloc):
                stream.wait_event(before)
                run(
                    *arrays
                )  # kernels are compiled, and the pool then has what the second run takes
                stream.synchronize()
                self._graph, self.results = self._recorded(stream, run)

    def _recorded(self, stream: Any, run: Callable[..., Any]) -> tuple[Any, Any]:
        stream.begin_capture()
        try:
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
            self._graph.launch()
        return self.results
