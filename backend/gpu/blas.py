"""Products of matrices by cuBLAS as they lie, and how they are recorded in a CUDA graph.

CuPy's `matmul` copies batches of matrices that are not row-major, widens half precisions, and refuses while a
stream is captured.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .modules import Module
from .nodes import Node

if TYPE_CHECKING:
    from .gemm import Gemm

Multiply = Callable[[Any, Any, Any], None]
"""`multiply(a, b, c)`: c = alpha op(a) op(b) + beta c, queued on the current stream."""
OPS = {"N": 0, "T": 1, "C": 2}  # cublasOperation_t
TYPES = {  # cudaDataType_t
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "complex64": 4,
    "complex128": 5,
    "bfloat16": 14,
}
PRECISIONS = {"tf32": "CUBLAS_COMPUTE_32F_FAST_TF32", "bfloat16": "CUBLAS_COMPUTE_32F_FAST_16BF"}
"""How cuBLAS may compute float32 and complex64 where the option `precision` asks for it."""
WORKSPACE = 32 << 20  # bytes of a graph's products: what cuBLAS takes on Hopper (its documents)


class Products:
    """What a `Gemm` describes, as a call of cuBLAS."""

    def __init__(self, xp: Module, device: Any, cublas: Any) -> None:
        self.xp, self.device, self.cublas = xp, device, cublas

    def bound(
        self, call: Gemm, of: Any, made: Any, factors: tuple[Any, Any], precision: str
    ) -> Multiply:
        """The call for operands of one dtype and results of another: all is known by then but where they lie.

        `alpha` and `beta` have the dtype of the sums; half precisions are summed in single precision.
        """
        alpha, beta = factors  # cuBLAS reads them where they are: `multiply` keeps them
        kind = "CUBLAS_COMPUTE_64F" if alpha.dtype.char in "dD" else "CUBLAS_COMPUTE_32F"
        if of.char in "fF":
            kind = PRECISIONS.get(precision, kind)
        handle_of, gemm, swaps = (
            self.device.get_cublas_handle,
            self.cublas.gemmStridedBatchedEx,
            call.swaps,
        )
        sizes = (OPS[call.a.op], OPS[call.b.op], call.m, call.n, call.k, alpha.ctypes.data)
        read, written = TYPES[of.name], TYPES[made.name]
        of_a, of_b = ((read, side.ld, side.stride) for side in (call.a, call.b))
        of_c = (written, call.ldc, call.stride_c, call.batch)
        how = (getattr(self.cublas, kind), self.cublas.CUBLAS_GEMM_DEFAULT)
        at_beta = beta.ctypes.data

        def multiply(a: Any, b: Any, c: Any) -> None:
            if swaps:
                a, b = b, a
            at_a, at_b, at_c = a.data.ptr, b.data.ptr, c.data.ptr
            arguments = (*sizes, at_a, *of_a, at_b, *of_b, at_beta, at_c, *of_c, *how)
            own = getattr(RECORDED, "blas", None)
            if own is None:
                gemm(handle_of(), *arguments)
            else:
                own.gemm(*arguments)

        multiply.keeps = factors  # type: ignore[attr-defined]
        return multiply

    def recording(self, lanes: int) -> Any:
        """A block, to be entered as often as one likes, in which products go to cuBLAS past CuPy, which
        refuses it while a stream is captured. Their workspaces are this block's, one for each of so many
        streams: two graphs may run at once, and the branches of one."""
        return _Recording(_of_this_thread(self), self.xp, WORKSPACE // lanes)

    def node(self, graph: Any, function: Any, pointer: Any, words: int) -> Node:
        """The launch of this function in a graph, whose last argument of so many words can be replaced."""
        return Node(graph, function, pointer.data.ptr, words)


RECORDED = threading.local()
"""`blas`: what products of this thread are handed to while a stream is captured."""


class _Blas:
    """cuBLAS without CuPy between: a handle for one thread and device."""

    def __init__(self, cuda: Products) -> None:
        self.handle = cuda.cublas.create()
        # with the thread; not as the process ends, when CUDA may be gone before
        weakref.finalize(self, cuda.cublas.destroy, self.handle).atexit = False
        major = cuda.cublas.getVersion(self.handle) // 10000
        library = ctypes.CDLL(f"libcublas.so.{major}")  # CuPy has loaded it
        pointer, number, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
        side = (pointer, number, number, long)
        self.gemm = library.cublasGemmStridedBatchedEx
        self.gemm.argtypes = [
            pointer, *(number,) * 5, pointer, *side, *side, pointer, *side, *(number,) * 3
        ]  # fmt: skip
        self.set_stream, self.set_workspace = (
            library.cublasSetStream_v2,
            library.cublasSetWorkspace_v2,
        )
        self.set_stream.argtypes = [pointer, pointer]
        self.set_workspace.argtypes = [pointer, pointer, ctypes.c_size_t]


class _Recording:
    """The products of a graph, on the stream that is current, each stream with a workspace of its own."""

    def __init__(self, blas: _Blas, xp: Module, room: int) -> None:
        self._blas, self._xp, self._room = blas, xp, room
        self._rooms: dict[int, Any] = {}
        self._at: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._at = None  # the handle may have been at another stream meanwhile
        self._before.append(getattr(RECORDED, "blas", None))
        RECORDED.blas = self

    def __exit__(self, *ending: object) -> None:
        RECORDED.blas = self._before.pop()

    def gemm(self, *arguments: Any) -> None:
        blas, stream = self._blas, self._xp.cuda.get_current_stream().ptr
        if stream != self._at:
            room = self._rooms.get(stream)
            if room is None:  # while nothing is captured yet
                room = self._rooms[stream] = self._xp.empty(self._room, np.uint8)
            _checked(blas.set_stream(blas.handle, stream))
            # a stream resets it
            _checked(blas.set_workspace(blas.handle, room.data.ptr, room.nbytes))
            self._at = stream
        _checked(blas.gemm(blas.handle, *arguments))


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLAS returned status {status}")


def _of_this_thread(cuda: Products) -> _Blas:
    made = RECORDED.__dict__.setdefault("made", {})
    ordinal = cuda.device.get_device_id()
    if ordinal not in made:
        made[ordinal] = _Blas(cuda)
    found: _Blas = made[ordinal]
    return found
