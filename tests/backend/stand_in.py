"""NumPy under CuPy's names, as strict as CuPy where a mistake would show on a card only.

A `DeviceArray` is what cupy.ndarray is: functions refuse plain arrays of NumPy, every result is an array, one
of no axes too, and nothing warns. What CuPy lacks is not here: `accumulate` and `at` of ufuncs, `initial` of
extremes, flags against writing.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.linalg
from tests.backend.gpu.emulator import RECORDING, RawKernel, compile_module, set_attribute

from einloom.backend.gpu.gemm import Gemm

MISSING = frozenset(("errstate", "put_along_axis", "nditer", "ndindex"))
"""Names of NumPy that CuPy has not, of those that a kernel might reach for."""


CURRENT = [0]
"""The cards that were made the current one, the last one now."""


UPLOADED: deque[tuple[int, Any]] = deque(maxlen=10000)
"""Bytes that were copied from the host by `set`, and on which stream."""


class DeviceArray(np.ndarray):
    """An array of the card that was current when it was made; views are where their arrays are."""

    ordinal: int

    def __array_finalize__(self, array: Any) -> None:
        self.ordinal = getattr(array, "ordinal", CURRENT[-1])

    @property
    def device(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(id=self.ordinal)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.__array_interface__

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def get(self, out: Any = None, order: Any = "C") -> np.ndarray:
        if out is None:
            return np.array(self.view(np.ndarray), order=order)
        out[...] = self.view(np.ndarray)
        return out

    def set(self, array: Any, stream: Any = None) -> None:
        assert type(array) is np.ndarray
        assert array.shape == self.shape
        assert array.dtype == self.dtype
        assert self.flags.c_contiguous or self.flags.f_contiguous
        UPLOADED.append((self.nbytes, stream))
        self.view(np.ndarray)[...] = array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method not in ("__call__", "reduce"):
            raise NotImplementedError(f"CuPy has no {ufunc.__name__}.{method}")
        return on_device(getattr(ufunc, method), *inputs, **keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if "device" in keywords:  # as np.ones(like=) hands it over
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument 'device'")
        return on_device(function, *args, **keywords)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found if isinstance(found, DeviceArray) else wrapped(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        _recorded(partial(super().__setitem__, index, value))

    def astype(self, *args: Any, **keywords: Any) -> Any:
        with np.errstate(all="ignore"):
            found = super().astype(*args, **keywords)
        _recorded(partial(_again, np.ndarray.astype, (self, *args), keywords, found))
        return found

    def copy(self, *args: Any, **keywords: Any) -> Any:
        found = super().copy(*args, **keywords)
        _recorded(partial(_again, np.ndarray.copy, (self, *args), keywords, found))
        return found

    def __array__(self, *args: Any, **keywords: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed; use .get()")


def bare(x: Any) -> Any:
    """What NumPy is to compute with: nothing of the host but scalars."""
    if isinstance(x, DeviceArray):
        return x.view(np.ndarray)
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    if isinstance(x, (tuple, list)):
        return type(x)(bare(one) for one in x)
    return x


def wrapped(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x).view(DeviceArray)
    if isinstance(x, (tuple, list)):
        return tuple(wrapped(one) for one in x)
    return x


def on_device(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    out = keywords.get("out")
    keywords = {name: bare(value) for name, value in keywords.items()}
    with np.errstate(all="ignore"):
        found = function(*(bare(x) for x in args), **keywords)
    if out is None:
        found = wrapped(found)
        if getattr(function, "__name__", "") not in NEW:
            _recorded(partial(_again, function, args, keywords, found))
        return found
    _recorded(partial(function, *(bare(x) for x in args), **keywords))
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


NEW = ("empty", "empty_like")
"""What they return has no value to be made again."""


def _again(function: Callable[..., Any], args: Any, keywords: Any, found: Any) -> None:
    """What a function gives by now, written over what it gave; views show it anyway."""
    results = found if isinstance(found, tuple) else (found,)
    with np.errstate(all="ignore"):
        made = wrapped(function(*(bare(x) for x in args), **keywords))
    for one, x in zip(results, made if isinstance(found, tuple) else (made,), strict=True):
        if isinstance(one, DeviceArray) and not np.may_share_memory(bare(one), bare(x)):
            bare(one)[...] = bare(x)


def _recorded(run: Callable[[], Any]) -> None:
    if RECORDING and RECORDING[-1] is not None:
        RECORDING[-1].append((SimpleNamespace(run=run),))


def on(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **keywords: Any) -> Any:
        return on_device(function, *args, **keywords)

    return call


def upload(x: Any, dtype: Any = None) -> DeviceArray:
    plain = x.view(np.ndarray) if isinstance(x, DeviceArray) else x
    return np.array(plain, dtype).view(DeviceArray)


def contraction(
    alpha: Any, a: Any, of_a: Any, b: Any, of_b: Any, beta: Any, c: Any, of_c: Any, ws_pref: int = 2
) -> Any:
    """cuTENSOR's: whole positive strides, sizes above 1, one dtype of BLAS's."""
    assert a.dtype == b.dtype == c.dtype
    assert a.dtype.char in "fdFD"
    for x in (a, b, c):
        assert all(n > 1 and s > 0 for n, s in zip(x.shape, x.strides, strict=True))
    terms = (bare(a), list(of_a), bare(b), list(of_b), list(of_c))
    c[...] = wrapped(alpha * np.einsum(*terms)) + (beta * c if beta else 0)
    return c


def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """CuPy's, of a batch: dtypes and batch shapes are equal."""
    assert a.dtype == b.dtype
    assert a.ndim == b.ndim == 3
    assert len(a) == len(b)
    x = np.empty_like(bare(b))
    for k, (one, side) in enumerate(zip(bare(a), bare(b), strict=True)):
        with np.errstate(all="ignore"):
            diagonal = np.diagonal(one)
            if not unit_diagonal and not diagonal.all():  # SciPy raises, cuBLAS goes on
                x[k] = np.nan
                continue
            x[k] = scipy.linalg.solve_triangular(
                one, side, trans, lower, unit_diagonal, check_finite=False
            )
    return wrapped(x)


def _stored(x: Any, rows: int, columns: int, ld: int, stride: int, batch: int) -> Any:
    """The matrices that cuBLAS sees from the first element of x on."""
    assert ld >= rows >= 1
    size = x.itemsize
    strides = (stride * size, size, ld * size)
    return np.lib.stride_tricks.as_strided(bare(x), (batch, rows, columns), strides)


def _flagged(x: Any, side: Any, rows: int, columns: int, batch: int) -> Any:
    if side.op == "N":
        return _stored(x, rows, columns, side.ld, side.stride, batch)
    found = _stored(x, columns, rows, side.ld, side.stride, batch).swapaxes(-1, -2)
    return found.conj() if side.op == "C" else found


def invalidated(said: str) -> NoReturn:
    """What may not be captured: an error of its own, and one when the capture ends."""
    RECORDING[-1] = None
    raise RuntimeError(said)


class Routines:
    """What `backend.gpu.routines` asks of cuBLAS and cuSOLVER, by LAPACK; products from memory itself, as a
    call of cuBLAS describes it. `called` has the last of these."""

    def __init__(self) -> None:
        self.called: deque[tuple[Gemm, str]] = deque(maxlen=8)
        self.records = 0

    def bound(
        self, call: Gemm, of: Any, made: Any, factors: tuple[Any, Any], precision: str
    ) -> Any:
        alpha, beta = factors
        wide = alpha.dtype
        assert made in (of, wide)

        def compute(a: Any, b: Any, c: Any) -> None:
            if call.swaps:
                a, b = b, a
            assert a.dtype == b.dtype == of
            assert c.dtype == made
            left = _flagged(a, call.a, call.m, call.k, call.batch).astype(wide)
            right = _flagged(b, call.b, call.k, call.n, call.batch).astype(wide)
            target = _stored(c, call.m, call.n, call.ldc, call.stride_c, call.batch)
            with np.errstate(all="ignore"):
                product = alpha * (left @ right)
                target[...] = product if beta == 0 else product + beta * target.astype(wide)

        def multiply(a: Any, b: Any, c: Any) -> None:
            if RECORDING:
                if not self.records:
                    invalidated("cuBLAS: operation not permitted when stream is capturing")
                RECORDING[-1].append((SimpleNamespace(run=compute), a, b, c))  # type: ignore[union-attr]
                return
            self.called.append((call, precision))
            compute(a, b, c)

        return multiply

    def recording(self, lanes: int) -> Any:
        return self

    def node(self, graph: Graph, function: RawKernel, pointer: Any, words: int) -> Any:
        (at,) = [k for k, (kernel, *_) in enumerate(graph.launches) if kernel is function]
        kernel, grid, block, (array, record), shared = graph.launches[at]
        assert array is pointer
        assert record.nbytes == 8 * words

        def put(places: Any) -> None:
            numbers = np.zeros(words, np.int64)
            numbers[: len(places)] = places
            graph.launches[at] = (kernel, grid, block, (array, numbers), shared)

        return SimpleNamespace(put=put)

    def __enter__(self) -> None:
        self.records += 1

    def __exit__(self, *ending: object) -> None:
        self.records -= 1

    def potrf(self, a: Any) -> tuple[Any, Any]:
        x, info = np.array(bare(a)), np.empty(len(a), np.int32)
        (run,) = scipy.linalg.get_lapack_funcs(("potrf",), (x,))
        for k, one in enumerate(bare(a)):
            x[k], info[k] = run(one, lower=True, clean=False)
        return wrapped(x), wrapped(info)

    def getrf(self, a: Any) -> tuple[Any, Any]:
        x = np.array(bare(a))
        (run,) = scipy.linalg.get_lapack_funcs(("getrf",), (x,))
        swaps = np.empty(x.shape[:2], np.int32)
        for k, one in enumerate(bare(a)):
            x[k], swaps[k], _ = run(one)
        return wrapped(x), wrapped(swaps)

    def getrs(self, packed: Any, swaps: Any, b: Any, trans: str) -> Any:
        x, lus, rows = np.array(bare(b)), bare(packed), bare(swaps)
        (run,) = scipy.linalg.get_lapack_funcs(("getrs",), (x,))
        for k in range(len(x)):
            x[k], _ = run(lus[k], rows[k], x[k], trans="NTC".index(trans))
        return wrapped(x)

    def gesv(self, a: Any, b: Any) -> tuple[Any, Any]:
        packed, swaps = self.getrf(a)
        zero = np.diagonal(bare(packed), axis1=1, axis2=2) == 0
        info = np.where(zero.any(axis=1), zero.argmax(axis=1) + 1, 0).astype(np.int32)
        return self.getrs(packed, swaps, b, "N"), wrapped(info)

    def syev(self, a: Any, vectors: bool) -> tuple[Any, Any, Any] | None:
        whole = np.tril(bare(a)) + np.tril(bare(a), -1).conj().swapaxes(-1, -2)
        w, v = np.linalg.eigh(whole)
        return wrapped(w), wrapped(v) if vectors else None, wrapped(np.zeros(len(w), np.int32))


class Pool:
    """The counters of a memory pool that keeps nothing."""

    def used_bytes(self) -> int:
        return 0

    total_bytes = get_limit = used_bytes

    def free_all_blocks(self) -> None: ...


class Event:
    """Work is done when it is queued, so an event is the time at which it was recorded."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.at, self.waited = math.nan, 0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        assert not math.isnan(self.at), "it was never recorded"
        self.waited += 1


class Stream:
    """One that is current inside its block; `waited` counts how often the host waited for it."""

    current: ClassVar[Any]

    def __init__(self, non_blocking: bool = False) -> None:
        self.before: list[Any] = []
        self.waited = 0
        self.events: list[Event] = []

    def wait_event(self, event: Event) -> None:
        assert not math.isnan(event.at), "it was never recorded"
        self.events.append(event)

    @staticmethod
    def is_capturing() -> bool:
        return bool(RECORDING)

    def begin_capture(self) -> None:
        assert Stream.current is self
        RECORDING.append([])

    def end_capture(self) -> Graph:
        launches = RECORDING.pop()
        if launches is None:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return Graph(launches)

    def __enter__(self) -> Stream:
        self.before.append(Stream.current)
        Stream.current = self
        return self

    def __exit__(self, *ending: object) -> None:
        Stream.current = self.before.pop()

    def synchronize(self) -> None:
        self.waited += 1


Stream.current = Stream()


class Graph:
    """Launches of kernels, and functions of NumPy, which ran while the stream was captured."""

    def __init__(self, launches: list[Any]) -> None:
        self.launches = launches

    def launch(self) -> None:
        for kernel, *arguments in self.launches:
            kernel.run(*arguments)


class OutOfMemoryError(MemoryError):
    """CuPy's own."""


@contextmanager
def _current(ordinal: int) -> Iterator[None]:
    CURRENT.append(ordinal)
    try:
        yield
    finally:
        CURRENT.pop()


class StandIn:
    """The module. `cutensor` says whether that library is installed, `compiles` whether it has a compiler of
    CUDA, `entered` which of the cards were made the current one."""

    __name__ = "numpy"
    ndarray = DeviceArray

    def __init__(self, cutensor: bool = True, cards: int = 1, compiles: bool = False) -> None:
        self.lib = SimpleNamespace(
            stride_tricks=SimpleNamespace(as_strided=on(np.lib.stride_tricks.as_strided))
        )
        self.fft = Names(np.fft, ())
        self.linalg = Names(np.linalg, ())
        self.cuda = SimpleNamespace(
            Device=self._enter,
            Event=Event,
            Stream=Stream,
            MemoryPool=lambda: SimpleNamespace(malloc=len),
            using_allocator=self._allocating,
            get_current_stream=lambda: Stream.current,
            get_elapsed_time=lambda start, stop: 1000 * (stop.at - start.at),
            runtime=SimpleNamespace(
                getDeviceCount=lambda: self.cards,
                getDeviceProperties=lambda ordinal: {"name": b"NumPy in the place of CuPy"},
            ),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            driver=SimpleNamespace(funcSetAttribute=set_attribute),
            compiler=SimpleNamespace(_compile_module_with_cache=compile_module),
            UnownedMemory=lambda address, size, owner, ordinal: owner,
            MemoryPointer=lambda memory, offset: memory,
        )
        self._cutensor, self.cards = cutensor, cards
        self.entered: list[int] = []
        self.allocators: list[Any] = []
        self.routines = Routines()
        if compiles:
            self.RawKernel = RawKernel
        self.pool = Pool()

    def __getattr__(self, name: str) -> Any:
        return getattr(Names(np, MISSING), name)

    @contextmanager
    def _allocating(self, malloc: Any) -> Iterator[None]:
        self.allocators.append(malloc)
        yield

    def _enter(self, ordinal: int | None = None) -> Any:
        if ordinal is None:
            return SimpleNamespace(
                id=CURRENT[-1],
                compute_capability="90",
                attributes={"MaxSharedMemoryPerBlockOptin": 99 << 10, "MultiProcessorCount": 2},
            )
        self.entered.append(ordinal)
        return _current(ordinal)

    def array(self, x: Any, dtype: Any = None) -> DeviceArray:
        return upload(x, dtype)

    def from_dlpack(self, x: Any) -> DeviceArray:
        """A capsule is the array of the host that stands for the memory; the stream is given as CuPy does."""
        kind, ordinal = x.__dlpack_device__()
        assert kind == 2
        with self._enter(ordinal):
            return x.__dlpack__(stream=Stream.current, max_version=(1, 0), copy=None).view(
                DeviceArray
            )

    def asarray(self, x: Any) -> DeviceArray:
        if isinstance(x, DeviceArray):
            return x
        memory = SimpleNamespace(__array_interface__=x.__cuda_array_interface__)
        return np.asarray(memory).view(DeviceArray)

    def max(self, x: Any, axis: Any = None, out: Any = None) -> Any:  # no `initial`
        return on_device(np.max, x, axis=axis)

    def min(self, x: Any, axis: Any = None, out: Any = None) -> Any:
        return on_device(np.min, x, axis=axis)

    def copyto(self, target: Any, source: Any, casting: str = "same_kind") -> None:
        run = partial(np.copyto, bare(target), bare(source), casting=casting)  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            run()
        _recorded(run)

    def get_default_memory_pool(self) -> Pool:
        return self.pool

    def companion(self, name: str) -> Any:
        if name == "":
            return SimpleNamespace(empty_pinned=np.empty)
        if name == "cutensor":
            if not self._cutensor:
                raise ImportError("libcutensor.so.2")
            return SimpleNamespace(contraction=contraction)
        if name == "scipy.linalg":
            return SimpleNamespace(solve_triangular=solve_triangular)
        import importlib

        return Names(importlib.import_module(name), ())


class Names:
    """The functions of a module, over arrays of the device."""

    def __init__(self, module: Any, missing: Any) -> None:
        self._module, self._missing = module, missing

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"cupy has no {name}")
        found = getattr(self._module, name)
        return on(found) if callable(found) and not isinstance(found, type) else found
