"""What Nx's functions refuse: each error is typed and names the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einloom._base.errors import CallError, ConversionError, DTypeError, EinloomError, ShapeError
from einloom.backend import nx
from einloom.backend.cpu import cpu

Array = np.ndarray[Any, Any]


def empty(shape: Any, dtype: Any = np.float64) -> Array:
    return nx.buffer(cpu(), dtype, shape)


X, I32 = np.ones((2, 3)), np.zeros((2, 3), np.int32)
Z = X + 0j
HOW: dict[str, Any] = {"upper": True, "transpose": False, "unit_diag": False}
WINDOW: dict[str, Any] = {"stride": (1,), "dilation": (1,), "padding": ((0, 0),)}
PAIRS = np.zeros((1, 2), np.int64)
INT64 = np.zeros(3, np.int64)
CUBES = np.ones((2, 3, 3)), np.ones((4, 3, 3))
BAD: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("list", lambda: nx.add([1.0], X, out=X.copy()), ConversionError, "nx.add"),  # type: ignore[arg-type]
    ("abs of a list", lambda: nx.abs([1.0], out=X.copy()), ConversionError, "nx.abs"),  # type: ignore[arg-type]
    ("shapes", lambda: nx.add(X, X[:1], out=X.copy()), EinloomError, "nx.add"),
    ("dtypes", lambda: nx.mul(X, I32, out=X.copy()), DTypeError, "nx.mul"),
    ("dtype of out", lambda: nx.cmpeq(X, X, out=X.copy()), CallError, r"nx.cmpeq\(out=...\)"),
    ("shape of out", lambda: nx.neg(X, out=empty((3, 2))), CallError, r"nx.neg\(out=...\)"),
    ("list for out", lambda: nx.neg(X, out=[0.0]), CallError, "nx.neg"),  # type: ignore[arg-type]
    ("out overlaps", lambda: nx.matmul(X, X.T, out=X[:, :2]), CallError, "nx.matmul"),
    ("sin of integers", lambda: nx.sin(I32, out=X.copy()), DTypeError, "nx.sin"),
    ("complex mod", lambda: nx.mod_(X + 0j, X + 0j, out=X + 0j), DTypeError, "nx.mod_"),
    ("complex order", lambda: nx.cmplt(X + 0j, X + 0j, out=X > 0), DTypeError, "nx.cmplt"),
    ("cond of numbers", lambda: nx.where(X, X, X, out=X.copy()), DTypeError, "nx.where"),
    ("axis", lambda: nx.argmax(X, axis=2, keepdims=False, out=I32[0]), EinloomError, "nx.argmax|arg"),
    ("axes", lambda: nx.reduce_sum(X, axes=(0, 0), keepdims=True, out=X), EinloomError, "twice"),
    ("kept", lambda: nx.reduce_sum(X, axes=(0,), keepdims=True, out=X[0].copy()), CallError, r"\(1, 3\)"),
    ("int64 positions", lambda: nx.argmin(X, axis=0, keepdims=False, out=INT64), DTypeError, "int32"),
    ("scalar argmax", lambda: nx.argmax(X[0, 0], axis=0, keepdims=False, out=I32), EinloomError, "argmax"),
    ("where of shapes", lambda: nx.where(X > 0, X, X[:1], out=X.copy()), EinloomError, "nx.where"),
    ("where of dtypes", lambda: nx.where(X > 0, X, I32, out=X.copy()), DTypeError, "nx.where"),
    ("empty argmax", lambda: nx.argmax(X[:0], axis=0, keepdims=False, out=I32[0]), EinloomError, "empty"),
    ("scan axis", lambda: nx.associative_scan(X, axis=2, op="sum", out=X.copy()), EinloomError, "scan"),
    ("scan of what", lambda: nx.associative_scan(X, axis=0, op="or", out=X.copy()), EinloomError, "scan"),  # type: ignore[arg-type]
    ("sort axis", lambda: nx.sort(X, axis=-1, descending=False, out=X.copy()), EinloomError, "sort"),
    ("argsort shape", lambda: nx.argsort(X, axis=0, descending=False, out=I32[:1]), CallError, "nx.argsort"),
    ("gather ranks", lambda: nx.gather(X, I32[0], axis=1, out=X.copy()), EinloomError, "nx.gather"),
    ("scatter shapes", lambda: nx.scatter(X, indices=I32, updates=X[:1], axis=1), EinloomError, "nx.scatter"),
    ("scatter mode", lambda: nx.scatter(X, indices=I32, updates=X, axis=1, mode="max"), EinloomError, "mode"),  # type: ignore[arg-type]
    ("threefry shapes", lambda: nx.threefry(I32[:, :2], I32, out=I32.copy()), EinloomError, "nx.threefry"),
    ("threefry of int64", lambda: nx.threefry(PAIRS, PAIRS, out=PAIRS.copy()), DTypeError, "int32"),
    ("unfold lengths", lambda: nx.unfold(X, kernel_size=(2, 2), **WINDOW), EinloomError, "nx.unfold"),
    ("unfold too wide", lambda: nx.unfold(X, kernel_size=(4,), **WINDOW), EinloomError, "nx.unfold"),
    ("unfold of nothing", lambda: nx.unfold(X, kernel_size=(0,), **WINDOW), EinloomError, "nx.unfold"),
    ("fold size", lambda: nx.fold(X, output_size=(9,), kernel_size=(2,), **WINDOW), EinloomError, "nx.fold"),
    ("axes alone", lambda: nx.reduce_sum(X, axes=0, keepdims=False, out=X[0].copy()), CallError, "tuple"),  # type: ignore[arg-type]
    ("shape alone", lambda: nx.expand(X, 3), CallError, "nx.expand"),  # type: ignore[arg-type]
    ("kernel alone", lambda: nx.unfold(X, kernel_size=2, **WINDOW), CallError, "kernel_size=2"),  # type: ignore[arg-type]
    ("flip by one bool", lambda: nx.flip(X, True), CallError, "nx.flip"),  # type: ignore[arg-type]
    ("shrink by numbers", lambda: nx.shrink(X[0], (0, 1)), CallError, "pairs"),  # type: ignore[arg-type]
    ("cat of one array", lambda: nx.cat(X, axis=0, out=X.copy()), CallError, "tensors="),  # type: ignore[arg-type]
    ("axes of fft", lambda: nx.fft(Z, axes=0), CallError, "nx.fft"),  # type: ignore[arg-type]
    ("buffer dtype", lambda: nx.buffer(cpu(), "float65", (2,)), DTypeError, "nx.buffer.*float65"),
    ("buffer size", lambda: nx.buffer(cpu(), "f8", (-2,)), EinloomError, "nx.buffer"),
    ("rfft dtype", lambda: nx.rfft(X, dtype=5, axes=(0,)), DTypeError, "nx.rfft"),
    ("irfft of reals", lambda: nx.irfft(X, dtype="f8", axes=(1,)), DTypeError, "nx.irfft"),
    ("irfft lengths", lambda: nx.irfft(Z, dtype="f8", axes=(1,), s=(8.0,)), EinloomError, "nx.irfft"),
    ("expand", lambda: nx.expand(X, (2, 4)), EinloomError, "nx.expand"),
    ("expand to more axes", lambda: nx.expand(X[0], (2, 3)), ShapeError, "nx.expand"),
    ("reshape", lambda: nx.reshape(X, (4,)), EinloomError, "nx.reshape"),
    ("permute", lambda: nx.permute(X, (0,)), EinloomError, "nx.permute|transpose"),
    ("shrink", lambda: nx.shrink(X, ((0, 3), (0, 3))), EinloomError, "nx.shrink"),
    ("shrink of one axis", lambda: nx.shrink(X, ((0, 1),)), ShapeError, "nx.shrink"),
    ("shrink by triples", lambda: nx.shrink(X, ((0, 1, 2), (0, 1, 1))), CallError, "nx.shrink"),  # type: ignore[arg-type]
    ("flip by axes", lambda: nx.flip(X, (0, 1)), CallError, "nx.flip"),  # type: ignore[arg-type]
    ("pad value", lambda: nx.pad(I32, ((0, 0), (0, 0)), 2**40), EinloomError, "nx.pad"),
    ("cat of nothing", lambda: nx.cat([], axis=0, out=X), CallError, "nx.cat"),
    ("cat", lambda: nx.cat([X, X.T], axis=0, out=X), EinloomError, "nx.cat"),
    ("cast to nothing", lambda: nx.cast(X, out=None), CallError, "nx.cast"),  # type: ignore[arg-type]
    ("assign dtypes", lambda: nx.assign(I32.copy(), X), DTypeError, "nx.assign"),
    ("assign shapes", lambda: nx.assign(X.copy(), X[0]), ShapeError, "nx.assign"),
    ("full", lambda: nx.full(cpu(), "uint8", (2,), 256), EinloomError, "nx.full"),
    ("full of a fraction", lambda: nx.full(cpu(), "int32", (2,), 0.5), EinloomError, "nx.full"),
    ("from_host", lambda: nx.from_host(cpu(), X), ShapeError, "nx.from_host"),
    ("from_host strided", lambda: nx.from_host(cpu(), X[0, ::2]), ShapeError, "nx.from_host"),
    ("context", lambda: nx.context([1.0]), ConversionError, "nx.context"),  # type: ignore[arg-type]
    ("matmul of vectors", lambda: nx.matmul(X[0], X[0], out=X), EinloomError, "nx.matmul"),
    ("matmul batch", lambda: nx.matmul(*CUBES, out=X), ShapeError, "broadcast"),
    ("fft of reals", lambda: nx.fft(X, axes=(0,)), DTypeError, "nx.fft.*rfft"),
    ("fft axes", lambda: nx.fft(X + 0j, axes=(2,)), EinloomError, "nx.fft"),
    ("rfft to real", lambda: nx.rfft(X, dtype="float64", axes=(0,)), DTypeError, "nx.rfft"),
    ("rfft of complex", lambda: nx.rfft(X + 0j, dtype="complex128", axes=(0,)), DTypeError, "nx.rfft"),
    ("rfft of no axes", lambda: nx.rfft(X, dtype="complex128", axes=()), EinloomError, "rfft"),
    ("irfft of no axes", lambda: nx.irfft(X + 0j, dtype="float64", axes=()), ShapeError, "nx.irfft"),
    ("irfft to nothing", lambda: nx.irfft(X[:, :1] + 0j, dtype="f8", axes=(1,)), EinloomError, "irfft"),
    ("irfft sizes", lambda: nx.irfft(Z, dtype="f8", axes=(1,), s=(4, 4)), EinloomError, "nx.irfft"),
    ("irfft out", lambda: nx.irfft(Z, dtype="f4", axes=(1,), out=empty((2, 4))), DTypeError, "irfft"),
    ("cholesky", lambda: nx.cholesky(X, upper=False), ShapeError, "nx.cholesky"),
    ("cholesky of a vector", lambda: nx.cholesky(X[0], upper=False), ShapeError, "nx.cholesky"),
    ("eig of integers", lambda: nx.eig(np.eye(2, dtype=np.int32), vectors=False), DTypeError, "eig"),
    ("svd of longdouble", lambda: nx.svd(X.astype("g"), full_matrices=False), NotImplementedError, "nx.svd"),
    ("solve", lambda: nx.triangular_solve(np.eye(3), X, **HOW), ShapeError, "nx.triangular_solve"),
    ("solve of a scalar", lambda: nx.triangular_solve(np.ones(()), X, **HOW), ShapeError, "nx.tri"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "call", "error", "match"), BAD, ids=[row[0] for row in BAD])
def test_refused(case: str, call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, EinloomError)


def test_messages_show_what_was_written() -> None:
    """Previously failed: a tuple of an axis, an argument that the function has not."""
    with pytest.raises(EinloomError, match=r"axis=-1 is out of range for 2 axes"):
        nx.argmax(X, axis=-1, keepdims=False, out=I32[0])
    with pytest.raises(EinloomError, match=r"axis=None must be an integer"):
        nx.sort(X, axis=None, descending=False, out=X.copy())  # type: ignore[arg-type]
    with pytest.raises(EinloomError, match=r"nothing to reduce; reduce axes that have elements"):
        nx.reduce_max(X[:0], axes=(0,), keepdims=False, out=X[0].copy())
