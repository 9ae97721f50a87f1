"""Nx's functions: what they fix otherwise than the catalogue, and what they refuse.

That each does what its op says is shown by test_conformance, which runs through them too.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from tests.backend.through_nx import name_of
from tests.cases import LAYOUTS, lay_out

from einloom._base.errors import CallError, ConversionError, DTypeError, EinloomError
from einloom.backend import nx
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu

NAN = float("nan")
Array = np.ndarray[Any, Any]

VALUES = [
    "view", "dtype", "context", "to_host", "buffer", "full", "from_host", "add", "sub", "mul",
    "div", "mod_", "pow", "atan2", "cmpeq", "cmpne", "cmplt", "cmple", "max", "min", "xor", "or_",
    "and_", "neg", "recip", "abs", "sqrt", "sign", "exp", "log", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "trunc", "ceil", "floor", "round", "erf", "where",
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin",
    "associative_scan", "sort", "argsort", "expand", "reshape", "permute", "shrink", "flip",
    "pad", "cat", "cast", "contiguous", "copy", "assign", "threefry", "gather", "scatter",
    "unfold", "fold", "matmul", "fft", "ifft", "rfft", "irfft", "cholesky", "qr", "svd", "eig",
    "eigh", "triangular_solve",
]  # fmt: skip
WITH_OUT = set(VALUES[VALUES.index("add") : VALUES.index("expand")]) | {
    "cat", "cast", "threefry", "gather", "matmul",
}  # fmt: skip


def empty(shape: Any, dtype: Any = np.float64) -> Array:
    return nx.buffer(cpu(), dtype, shape)


def test_all_values_of_the_interface() -> None:
    assert len(VALUES) == 81
    assert sorted(VALUES) == sorted(nx.__all__)
    assert {name_of(row) for row in CATALOGUE.values()} - {""} <= set(VALUES)


def test_what_is_computed_is_an_op_each() -> None:
    """With a kernel of its own; linear algebra has functions in place of kernels."""
    own = {"view", "dtype", "context", "to_host", "buffer", "full", "from_host", "assign"}
    rows = {name_of(row): row for row in CATALOGUE.values() if name_of(row)}
    assert set(rows) == set(VALUES) - own
    known = cpu().capabilities()
    assert {name for name, row in rows.items() if row.name not in known} <= LINALG


LINALG = {"cholesky", "qr", "svd", "eig", "eigh", "triangular_solve"}


@pytest.mark.parametrize("name", VALUES)
def test_out_is_required_where_nx_requires_it(name: str) -> None:
    parameters = inspect.signature(getattr(nx, name)).parameters
    required = "out" in parameters and parameters["out"].default is inspect.Parameter.empty
    assert required == (name in WITH_OUT)
    assert getattr(nx, name).__doc__


def test_out_of_none_is_refused() -> None:
    with pytest.raises(CallError, match=r"nx.add\(out=None\): give the tensor to write to"):
        nx.add(np.ones(2), np.ones(2), out=None)  # type: ignore[arg-type]


# ---- tensors --------------------------------------------------------------------------------------


def test_creation() -> None:
    x = nx.buffer(cpu(), "complex64", [2, 3])
    assert (x.shape, x.dtype, x.flags.c_contiguous) == ((2, 3), np.complex64, True)
    for value, dtype in ((1.5, "float32"), (-1, "int8"), (True, "bool"), (2 - 1j, "complex128")):
        x = nx.full(cpu(), dtype, (), value)
        assert (x.shape, nx.dtype(x), x[()]) == ((), np.dtype(dtype), value)
        assert nx.full(cpu(), dtype, (2, 0, 3), value).shape == (2, 0, 3)
        several = nx.full(cpu(), dtype, [2, 3], value)
        assert several.flags.c_contiguous
        assert (several == value).all()
    assert nx.context(x) is cpu()


def test_a_buffer_of_the_host_is_shared() -> None:
    flat = np.arange(4.0)
    x = nx.from_host(cpu(), flat)
    x[0] = 7
    assert flat[0] == 7


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"unaligned", "swapped"}))
def test_a_view_says_where_the_elements_are(layout: str, rng: np.random.Generator) -> None:
    """to_host gives the buffer; shape, strides and offset lead to each element."""
    x = lay_out(rng.random((3, 4)), layout, rng)
    view, flat = nx.view(x), nx.to_host(x)
    assert flat.ndim == 1
    assert np.shares_memory(flat, x)
    for i in np.ndindex(*view.shape):
        assert flat[view.offset + sum(n * k for n, k in zip(i, view.strides, strict=True))] == x[i]


def test_a_buffer_with_gaps_is_refused() -> None:
    x = np.lib.stride_tricks.as_strided(np.arange(6.0), (2, 2), (24, 8))
    with pytest.raises(ConversionError, match=r"nx.to_host: the buffer .* is not contiguous"):
        nx.to_host(x)


def test_assign_through_views_that_overlap() -> None:
    x = np.arange(6.0)
    assert nx.assign(x[1:], x[:-1]) is None  # type: ignore[func-returns-value]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = np.arange(4.0).reshape(2, 2)
    nx.assign(y, y.T)
    assert y.tolist() == [[0, 2], [1, 3]]
    nx.assign(nx.permute(y, (1, 0)), nx.expand(np.array([[5.0, 6.0]]), (2, 2)))
    assert y.tolist() == [[5, 5], [6, 6]]


def test_views_and_copies() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for view in (
        nx.permute(x, (1, 0)),
        nx.shrink(x, ((0, 1), (1, 3))),
        nx.flip(x, (True, False)),
        nx.expand(x[:, :1], (2, 5)),
        nx.expand(x[:1], (4, 3)),
        nx.reshape(x, (3, 2)),
    ):
        assert np.shares_memory(view, x)
    assert nx.contiguous(x) is x
    assert nx.contiguous(x.T).flags.c_contiguous
    for new in (nx.copy(x), nx.pad(x, ((0, 0), (0, 0)), 0.0)):
        assert not np.shares_memory(new, x)
    assert nx.expand(np.array(2.0), (2, 1, 2)).tolist() == [[[2, 2]], [[2, 2]]]
    assert nx.pad(x, ((1, 0), (0, 1)), -1.0).tolist() == [[-1] * 4, [0, 1, 2, -1], [3, 4, 5, -1]]


@pytest.mark.parametrize("layout", ["C", "transposed", "reversed"])
def test_cast_goes_to_the_dtype_of_out(layout: str, rng: np.random.Generator) -> None:
    x = lay_out(np.array([[300.0, -5.0, NAN], [np.inf, -np.inf, 1.7]]), layout, rng)
    for dtype, want in (
        ("uint8", [255, 0, 0, 255, 0, 1]),
        ("int32", [300, -5, 0, 2**31 - 1, -(2**31), 1]),
        ("bool", [True, True, True, True, True, True]),
    ):
        assert nx.cast(x, out=empty((2, 3), dtype)).ravel().tolist() == want
    y = nx.cast(np.array([300, -1]), out=empty((2,), np.uint8))
    assert y.tolist() == [44, 255]
    assert nx.cast(np.array([1 + 2j]), out=empty((1,))).tolist() == [1]


# ---- what Nx fixes --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    least = np.iinfo(dtype).min
    a, b = np.array([7, -7, 5, least, 0], dtype), np.array([2, 2, 0, -1, 0], dtype)
    assert nx.div(a, b, out=empty((5,), dtype)).tolist() == [3, -3, 0, least, 0]
    assert nx.mod_(a, b, out=empty((5,), dtype)).tolist() == [1, -1, 0, 0, 0]
    assert nx.recip(b, out=empty((5,), dtype)).tolist() == [0, 0, 0, -1, 0]
    assert nx.abs(a, out=empty((5,), dtype)).tolist() == [7, 7, 5, least, 0]
    powers = nx.pow(np.array([0, 2, 1, -1, -1], dtype), np.array([0, -1, -3, -3, -4], dtype), out=a)
    assert powers.tolist() == [1, 0, 1, -1, 1]
    assert nx.round(b, out=empty((5,), dtype)).tolist() == b.tolist()


def test_round_goes_half_away() -> None:
    x = np.array([0.5, 1.5, -2.5, 0.49999999999999994, -0.0, 2.0**52 + 1, np.inf, NAN])
    want = [1, 2, -3, 0, 0, 2.0**52 + 1, np.inf, NAN]
    np.testing.assert_array_equal(nx.round(x, out=empty((8,))), want)


@pytest.mark.parametrize(("dtype", "real"), [("complex64", "float32"), ("complex128", "float64")])
def test_abs_keeps_complex(dtype: str, real: str) -> None:
    x = np.array([3 + 4j, -2j, 0, complex(np.inf, NAN)], dtype)
    got = nx.abs(x, out=empty((4,), dtype))
    np.testing.assert_array_equal(got, np.array([5, 2, 0, np.inf], dtype))
    with pytest.raises(CallError, match=r"nx.abs"):
        nx.abs(x, out=empty((4,), real))


def test_extremes_of_nan_and_ties() -> None:
    x = np.array([[1.0, 3.0, 3.0], [NAN, 0.0, NAN]])
    for function, want in ((nx.argmax, [1, 0]), (nx.argmin, [0, 0])):
        assert function(x, axis=1, keepdims=False, out=empty((2,), np.int32)).tolist() == want
        out = empty((2, 1), np.int32)
        assert function(x, axis=1, keepdims=True, out=out) is out
        assert out.tolist() == [[n] for n in want]
    assert np.isnan(nx.reduce_max(x, axes=(0, 1), keepdims=True, out=empty((1, 1)))).all()
    for function in (nx.reduce_max, nx.reduce_min):
        with pytest.raises(EinloomError, match=r"nothing to reduce"):
            function(empty((2, 0)), axes=(1,), keepdims=False, out=empty((2,)))
    assert nx.reduce_sum(empty((2, 0)), axes=(1,), keepdims=False, out=empty((2,))).tolist() == [
        0,
        0,
    ]
    assert nx.reduce_prod(empty((2, 0)), axes=(1,), keepdims=False, out=empty((2,))).tolist() == [
        1,
        1,
    ]


def test_products_broadcast_their_batches(rng: np.random.Generator) -> None:
    a, b = rng.random((2, 1, 3, 4)), rng.random((5, 4, 2))
    got = nx.matmul(a, b, out=empty((2, 5, 3, 2)))
    np.testing.assert_allclose(got, a @ b, rtol=1e-14)


# ---- order, indices, windows, random --------------------------------------------------------------


def test_sorting_puts_nan_last_and_keeps_ties_in_order() -> None:
    x = np.array([3.0, NAN, 1.0, 2.0, 1.0, 3.0, NAN, 2.0])
    for descending, want in ((False, [2, 4, 3, 7, 0, 5, 1, 6]), (True, [0, 5, 3, 7, 2, 4, 1, 6])):
        out = empty((8,), np.int32)
        assert nx.argsort(x, axis=0, descending=descending, out=out) is out
        assert out.tolist() == want
        ordered = nx.sort(x, axis=0, descending=descending, out=empty((8,)))
        np.testing.assert_array_equal(ordered, x[want])


def test_scans_run_along_an_axis() -> None:
    x = np.array([[1, 2, 3], [4, -5, 6]], np.int16)
    scans: dict[Any, list[list[int]]] = {
        "sum": [[1, 3, 6], [4, -1, 5]],
        "prod": [[1, 2, 6], [4, -20, -120]],
        "max": [[1, 2, 3], [4, 4, 6]],
        "min": [[1, 1, 1], [4, -5, -5]],
    }
    for op, want in scans.items():
        got = nx.associative_scan(x, axis=1, op=op, out=empty((2, 3), np.int16))
        assert got.tolist() == want


def int32(*values: Any) -> Array:
    return np.array(values, np.int32)


def test_known_scatters() -> None:
    """The last of repeated indices wins, or all add up; the template is left alone."""
    zeros = np.zeros((3, 4))
    updates = np.arange(1.0, 7).reshape(3, 2)
    got = nx.scatter(zeros, indices=int32([0, 2], [1, 3], [0, 1]), updates=updates, axis=1)
    assert got.tolist() == [[1, 0, 2, 0], [0, 3, 0, 4], [5, 6, 0, 0]]
    assert not zeros.any()
    updates, indices = np.array([10.0, 40, 20, 5]), int32(1, 1, 2, 1)
    got = nx.scatter(np.zeros(4), indices=indices, updates=updates, axis=0, mode="add")
    assert got.tolist() == [0, 55, 20, 0]
    got = nx.scatter(np.full(4, 7.0), indices=int32(1, 1, 3), updates=updates[:3], axis=0)
    assert got.tolist() == [7, 40, 7, 20]


def test_gather_counts_from_the_end_once() -> None:
    x = np.array([5.0, 6.0, 7.0])
    assert nx.gather(x, int32(0, -1, -3), axis=0, out=empty((3,))).tolist() == [5, 7, 5]
    for at in (3, -4, 2**31 - 1):
        with pytest.raises(IndexError, match=r"nx.gather"):
            nx.gather(x, int32(at), axis=0, out=empty((1,)))
        with pytest.raises(IndexError, match=r"nx.scatter"):
            nx.scatter(x, indices=int32(at), updates=x[:1], axis=0)


def test_fold_of_unfold_counts_the_windows(rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (2, 5, 6)).astype(float)
    how: dict[str, Any] = {
        "kernel_size": (2, 3),
        "stride": (1, 2),
        "dilation": (2, 1),
        "padding": ((1, 0), (0, 1)),
    }
    columns = nx.unfold(x, **how)
    assert columns.shape == (2, 6, 12)
    coverage = nx.fold(nx.unfold(np.ones_like(x), **how), output_size=(5, 6), **how)
    folded = nx.fold(columns, output_size=(5, 6), **how)
    np.testing.assert_array_equal(folded, coverage * x)


def test_convolution_and_pooling_of_windows(rng: np.random.Generator) -> None:
    """By unfold, then a product of matrices or a reduction."""
    x, kernel = rng.random((2, 1, 9)), rng.random(3)
    none: dict[str, Any] = {"dilation": (1,), "padding": ((0, 0),)}
    columns = nx.reshape(nx.unfold(x, kernel_size=(3,), stride=(1,), **none), (2, 3, 7))
    weights = np.broadcast_to(kernel, (2, 1, 3))
    got = nx.matmul(weights, columns, out=empty((2, 1, 7)))
    want = [np.correlate(line, kernel, "valid") for line in x[:, 0]]
    np.testing.assert_allclose(got[:, 0], want, rtol=1e-14)
    windows = nx.unfold(x, kernel_size=(3,), stride=(3,), **none)
    pooled = nx.reduce_max(windows, axes=(2,), keepdims=False, out=empty((2, 1, 3)))
    np.testing.assert_array_equal(pooled, x.reshape(2, 1, 3, 3).max(axis=-1))


def test_known_threefry() -> None:
    words = np.array([0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3], np.uint32).view(np.int32)
    key, counter = np.stack([int32(0, 0), words[:2]]), np.stack([int32(0, 0), words[2:]])
    got = nx.threefry(key, counter, out=empty((2, 2), np.int32))
    assert got.tolist() == [[1797259609, -1715843330], [-997049700, 1212020640]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: nx.gather(np.ones(3), np.zeros(3, np.int64), axis=0, out=empty((3,))),
        lambda: nx.gather(np.ones(3), np.zeros(3), axis=0, out=empty((3,))),
        lambda: nx.scatter(np.ones(3), indices=np.zeros(3, bool), updates=np.ones(3), axis=0),
        lambda: nx.argsort(np.ones(3), axis=0, descending=True, out=empty((3,), np.int64)),
        lambda: nx.threefry(np.zeros((1, 2)), np.zeros((1, 2)), out=np.zeros((1, 2))),
    ],
)
def test_indices_and_words_are_int32(call: Any) -> None:
    with pytest.raises(DTypeError, match=r"^nx\.\w+"):
        call()
