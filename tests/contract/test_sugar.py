"""tensordot, transpose and ncon are einsums in other words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.oracles import einsum_oracle

import einloom
from einloom import CallError, ConversionError, DTypeError, ShapeError, SubscriptError

R = np.random.default_rng(9)
A = R.integers(-9, 9, (2, 3, 4, 3)).astype(float)
B = R.integers(-9, 9, (3, 4, 3, 2)).astype(float)

# tensordot --------------------------------------------------------------------------------------

AXES: list[Any] = [
    0,
    ([], []),
    ((), ()),
    (1, 0),
    (-3, -4),
    ([1], [0]),
    ([1, 2], [0, 1]),
    ([2, 1], [1, 0]),
    ([1, 2], [2, 1]),
    ([3, 2, 1], [0, 1, 2]),
    ((-1, -2), (0, 1)),
    (np.array([1, 2]), np.array([0, 1])),
    np.array([[1, 2], [0, 1]]),
    [[0, 1, 2, 3], [3, 0, 1, 2]],
    (0, [3]),
    ([0], 3),
    [np.int8(1), np.int64(0)],
]


@pytest.mark.parametrize("axes", AXES, ids=repr)
def test_tensordot(axes: Any) -> None:
    got = einloom.tensordot(A, B, axes=axes)
    want = np.tensordot(A, B, axes=axes)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(einloom.tensordot(A.tolist(), B.tolist(), axes), want)


@pytest.mark.parametrize("axes", [0, 1, 2, 3, np.int64(2), np.uint8(1)], ids=repr)
def test_tensordot_by_count(axes: Any) -> None:
    a, b = A[0], B[:, :, :, 0].transpose(0, 1, 2)
    chained = np.arange(36.0).reshape(3, 4, 3)
    for x, y in ((chained, chained), (a, b)):
        if int(axes) in (0, 1, 3):
            np.testing.assert_array_equal(
                einloom.tensordot(x, y, axes), np.tensordot(x, y, int(axes))
            )
    square = np.arange(81.0).reshape(3, 3, 3, 3)
    np.testing.assert_array_equal(
        einloom.tensordot(square, square, axes), np.tensordot(square, square, int(axes))
    )
    assert einloom.tensordot(square, square).shape == (3, 3, 3, 3)  # 2 by default


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "g", "F", "D", "O"])
def test_tensordot_dtypes(dtype: str) -> None:
    a, b = (A % 3).astype(dtype), (B % 2).astype(dtype)
    got, want = einloom.tensordot(a, b, 1), np.tensordot(a, b, 1)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    small = np.ones(A.shape, "i1")
    assert einloom.tensordot(small, b, 1).dtype == np.result_type("i1", dtype)


def test_tensordot_of_vectors_and_scalars() -> None:
    v = np.arange(3.0)
    for a, b, axes in ((v, v, 1), (v, v, 0), (2.0, v, 0), (v, 2.0, 0), (2.0, 3.0, 0)):
        got, want = einloom.tensordot(a, b, axes), np.tensordot(a, b, axes)
        assert type(got) is np.ndarray
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    empty = np.ones((2, 0))
    np.testing.assert_array_equal(einloom.tensordot(empty, empty.T, 1), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("axes", "error", "numpy_raises", "says"),
    [
        (1, None, None, ""),
        (5, ShapeError, (IndexError, ValueError), "axes=5"),
        (-1, ShapeError, None, "axes=-1"),
        (([1], [1]), ShapeError, ValueError, "axis 1 of a has size 3, axis 1 of b 4"),
        (([4], [0]), ShapeError, IndexError, "out of range"),
        (([0], [-5]), ShapeError, IndexError, "[-5] of b"),
        (([1, 1], [0, 2]), ShapeError, ValueError, "repeat"),
        (([1, -3], [0, 2]), ShapeError, ValueError, "repeat"),
        (([1, 2], [0]), ShapeError, ValueError, "2 axes of a, but 1 of b"),
        (([1],), CallError, ValueError, "two lists"),
        (([1], [0], [2]), CallError, ValueError, "two lists"),
        ("ab", CallError, (TypeError, IndexError, ValueError), "two lists"),
        (None, CallError, TypeError, "two lists"),
        (1.0, CallError, TypeError, "two lists"),
        (([1.0], [0.0]), CallError, None, "two lists"),
        ((["x"], [0]), CallError, (TypeError, IndexError), "two lists"),
    ],
    ids=repr,
)
def test_tensordot_errors(axes: Any, error: Any, numpy_raises: Any, says: str) -> None:
    if error is None:
        with pytest.raises(ShapeError, match="tensordot"):
            einloom.tensordot(A, B.T, axes)
        return
    with pytest.raises(error, match="tensordot") as caught:
        einloom.tensordot(A, B, axes)
    assert says in str(caught.value)
    if numpy_raises is not None:
        with pytest.raises(numpy_raises):
            np.tensordot(A, B, axes)


def test_tensordot_refuses_what_einsum_refuses() -> None:
    with pytest.raises(DTypeError):
        einloom.tensordot(A.astype(str), B, 1)
    with pytest.raises(ConversionError):
        einloom.tensordot(np.ma.masked_array(A, A > 0), B, 1)


def test_tensordot_never_broadcasts() -> None:
    with pytest.raises(ShapeError, match=r"size 1.*3|size 3.*1"):
        einloom.tensordot(np.ones((2, 1)), np.ones((3, 2)), 1)


# transpose --------------------------------------------------------------------------------------

T = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "axes",
    [None, (0, 1, 2), (2, 0, 1), [1, 0, 2], (-1, 0, 1), np.array([1, 2, 0]), range(3)],
    ids=repr,
)
def test_transpose(axes: Any) -> None:
    want = np.transpose(T, axes)
    got = einloom.transpose(T, axes)
    np.testing.assert_array_equal(got, want)
    assert got.strides == want.strides
    assert np.shares_memory(got, T)
    assert got.flags.writeable
    out = np.zeros(want.shape, T.dtype)
    assert einloom.transpose(T, axes, out=out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(einloom.transpose(T.tolist(), axes), want)


def test_transpose_of_few_axes() -> None:
    for array in (np.arange(3.0), np.array(5.0)):
        got = einloom.transpose(array)
        assert type(got) is np.ndarray
        assert got.shape == array.shape
        assert np.shares_memory(got, array)
    assert einloom.transpose(3.0) == 3.0


@pytest.mark.parametrize("dtype", ["U3", "M8[s]", "V5", "O", ">i4", "f2", [("x", "i4")]])
def test_transpose_takes_every_dtype(dtype: Any) -> None:
    array = np.zeros((2, 3), dtype)
    got = einloom.transpose(array)
    assert got.dtype == array.dtype
    assert got.base is array
    frozen = np.broadcast_to(array[0, 0], (2, 3))
    assert not einloom.transpose(frozen).flags.writeable


def test_transpose_into_itself() -> None:
    square = np.arange(9.0).reshape(3, 3)
    want = square.T.copy()
    einloom.transpose(square, out=square)
    np.testing.assert_array_equal(square, want)


@pytest.mark.parametrize(
    ("axes", "error"),
    [
        ((0, 1), ShapeError),
        ((0, 1, 1), ShapeError),
        ((0, 1, 3), ShapeError),
        ((0, 1, -4), ShapeError),
        ((0, 1, 2, 3), ShapeError),
        ((), ShapeError),
        (0, CallError),
        ("abc", CallError),
        ((0.0, 1, 2), CallError),
    ],
    ids=repr,
)
def test_transpose_errors(axes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="transpose"):
        einloom.transpose(T, axes)
    with pytest.raises((ValueError, TypeError, IndexError)):
        np.transpose(T, axes)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros((2, 3, 4), int), ShapeError),
        (np.zeros((4, 3, 2), "?"), DTypeError),
        ([0], DTypeError),
        (np.broadcast_to(0, (4, 3, 2)), ShapeError),
    ],
)
def test_transpose_out_errors(out: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="out"):
        einloom.transpose(T, out=out)


# ncon -------------------------------------------------------------------------------------------


def random_legs(r: random.Random) -> tuple[list[list[int]], dict[int, int]]:
    """Labels of some tensors' legs, pairs and traces among them, and the size of each label."""
    tensors = r.randint(1, 5)
    terms: list[list[int]] = [[] for _ in range(tensors)]
    joined, opened = r.randint(0, 6), r.randint(0, 4)
    numbers = r.sample(range(1, 30), joined)
    for label in numbers:
        for _ in range(2):
            term = r.choice(terms)  # twice the same: a trace
            term.insert(r.randint(0, len(term)), label)
    for label in range(-opened, 0):
        term = r.choice(terms)
        term.insert(r.randint(0, len(term)), label)
    sizes = {label: r.choice([1, 2, 3]) for term in terms for label in term}
    return terms, sizes


@pytest.mark.parametrize("seed", range(60))
def test_ncon(seed: int) -> None:
    r = random.Random(seed)
    terms, sizes = random_legs(r)
    rng = np.random.default_rng(seed)
    tensors = [rng.integers(-3, 4, [sizes[x] for x in term]).astype(float) for term in terms]
    opened = sorted((x for x in sizes if x < 0), reverse=True)
    joined = [x for x in sizes if x > 0]
    want = einsum_oracle([tuple(term) for term in terms], tuple(opened), tensors, float)
    np.testing.assert_array_equal(einloom.ncon(tensors, terms), want)
    r.shuffle(joined)
    np.testing.assert_array_equal(einloom.ncon(tensors, terms, con_order=joined), want)
    shuffled = r.sample(opened, len(opened))
    got = einloom.ncon(tensors, terms, out_order=shuffled)
    np.testing.assert_array_equal(got, want.transpose([opened.index(x) for x in shuffled]))
    both = einloom.ncon(tensors, terms, con_order=joined, out_order=shuffled)
    np.testing.assert_array_equal(both, got)


def test_ncon_forms() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for connects in ([[-1, 1], [1, -2]], ((-1, 1), (1, -2)), [np.array([-1, 1]), (1, -2)]):
        np.testing.assert_array_equal(einloom.ncon([a, b], connects), a @ b)
        np.testing.assert_array_equal(einloom.ncon((a, b), connects, [1], [-1, -2]), a @ b)
    np.testing.assert_array_equal(einloom.ncon([a, b], [[-2, 1], [1, -1]]), (a @ b).T)
    square = np.arange(9.0).reshape(3, 3)
    for tensors, connects in (
        ([square], [[1, 1]]),
        (square, [[1, 1]]),
        (square, [1, 1]),
        ([square], (1, 1)),
    ):
        assert einloom.ncon(tensors, connects) == np.trace(square)
    assert einloom.ncon([2.0, 3.0], [[], []]) == 6
    np.testing.assert_array_equal(einloom.ncon([a], [[-2, -1]]), a.T)
    outer = einloom.ncon([a[0], b[0]], [[-2], [-1]])
    np.testing.assert_array_equal(outer, np.outer(b[0], a[0]))


def test_con_order_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bond dimensions that make one order dear: only that order exceeds the limit, unless sliced."""
    monkeypatch.setattr("einloom.contract.api.slice_to", lambda plan, limit: plan)
    a, b, c = np.ones((60, 2)), np.ones((2, 60)), np.ones((60, 2))
    terms = [[-1, 1], [1, 2], [2, -2]]
    with einloom.options(memory_limit=20_000):
        np.testing.assert_array_equal(einloom.ncon([a, b, c], terms, con_order=[2, 1]), a @ (b @ c))
        with pytest.raises(einloom.MemoryLimitError):
            einloom.ncon([a, b, c], terms, con_order=[1, 2])


@pytest.mark.parametrize(
    ("terms", "keywords", "says"),
    [
        ([[-1, 1]], {}, "2 tensors, but labels for 1"),
        ([[-1, 1], [1, -2], [3]], {}, "2 tensors, but labels for 3"),
        ([[-1, 1], [2, -2]], {}, "label 1 stands on 1 legs"),
        ([[1, 1], [1, -2]], {}, "label 1 stands on 3 legs"),
        ([[-1, 0], [0, -2]], {}, "label 0"),
        ([[-1, 1], [1, -1]], {}, "label -1 stands on 2 legs"),
        ([[-1, 1], [1, -3]], {}, "without gaps"),
        ([[-2, 1], [1, -3]], {}, "without gaps"),
        ([[-1, 1], [1, -2]], {"con_order": [1, 2]}, "con_order [1, 2]"),
        ([[-1, 1], [1, -2]], {"con_order": []}, "con_order []"),
        ([[-1, 1], [1, -2]], {"con_order": [1, 1]}, "con_order [1, 1]"),
        ([[-1, 1], [1, -2]], {"con_order": [-1]}, "con_order [-1]"),
        ([[-1, 1], [1, -2]], {"out_order": [-1]}, "out_order [-1]"),
        ([[-1, 1], [1, -2]], {"out_order": [-1, -1]}, "out_order [-1, -1]"),
        ([[-1, 1], [1, -2]], {"out_order": [1, 2]}, "out_order [1, 2]"),
        ([["a", "b"], ["b", "c"]], {}, "ncon"),
        ([[-1, 1.5], [1.5, -2]], {}, "ncon"),
        (5, {}, "ncon"),
        ([[-1, 1], 1], {}, "ncon"),
        (None, {}, "ncon"),
        ([[-1, 1], [1, -2]], {"con_order": 3}, "ncon"),
        ([[-1, 1], [1, -2]], {"out_order": "ab"}, "ncon"),
    ],
    ids=repr,
)
def test_ncon_errors(terms: Any, keywords: dict[str, Any], says: str) -> None:
    square = np.ones((2, 2))
    with pytest.raises((SubscriptError, CallError), match="ncon") as caught:
        einloom.ncon([square, square], terms, **keywords)
    assert says in str(caught.value)


def test_ncon_shapes() -> None:
    square = np.ones((2, 2))
    with pytest.raises(ShapeError):
        einloom.ncon([square, np.ones((3, 2))], [[-1, 1], [1, -2]])
    with pytest.raises(ShapeError):
        einloom.ncon([square, square], [[-1, 1], [1, -2, -3]])
    with pytest.raises(ShapeError):
        einloom.ncon([square, np.ones((1, 2))], [[-1, 1], [1, -2]])
