"""kron, block_diag, diagonal and trace beside NumPy and SciPy."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from tests.functions.cases import NUMBERS, close, in_program, layouts, numbers

import einloom
from einloom import CallError, ConversionError, DTypeError, ShapeError, functions, linalg

SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3,), (4,)),
    ((2, 3), (4, 5)),
    ((2, 3), (4,)),
    ((4,), (2, 3)),
    ((), (2, 3)),
    ((2,), ()),
    ((), ()),
    ((1, 1), (1, 1)),
    ((0, 2), (3, 1)),
    ((2, 1, 3), (2, 2)),
    ((2, 3, 2), (1, 2, 4)),
    ((2, 2), (3, 1), (1, 4)),
    ((2,), (3,), (2,), (2, 2)),
    ((3, 2),),
)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_kron(shapes: tuple[tuple[int, ...], ...]) -> None:
    factors = [numbers(shape, seed=k) for k, shape in enumerate(shapes)]
    wanted = np.asarray(reduce(np.kron, factors))
    close(functions.kron(*factors), wanted)
    out = np.empty(wanted.shape[::-1]).T
    assert functions.kron(*factors, out=out) is out
    close(out, wanted)
    if len(shapes) > 1:
        for names in (False, True):
            close(in_program(functions.kron, *factors, names=names), wanted)


@pytest.mark.parametrize("left", NUMBERS)
@pytest.mark.parametrize("right", ["int8", "float32", "complex128"])
def test_kron_of_dtypes_and_layouts(left: str, right: str) -> None:
    a, b = numbers((2, 3), left), numbers((3, 2), right, 1)
    wanted = np.kron(a, b)
    for x, y in zip(layouts(a), layouts(b)[::-1], strict=True):
        close(einloom.kron(x, y), wanted)


def test_kron_of_objects_and_lists() -> None:
    assert einloom.kron([1, 2], [[3], [4]]).tolist() == np.kron([1, 2], [[3], [4]]).tolist()
    x = np.array([10**30, 1], object)
    assert einloom.kron(x, x).tolist() == np.kron(x, x).tolist()
    only = np.arange(3)
    assert not np.shares_memory(einloom.kron(only), only)
    assert isinstance(einloom.kron(2, 3), np.integer)
    assert type(einloom.kron(np.ones((1, 2)).view(np.recarray), [[1]])) is np.ndarray


def test_kron_is_the_einsum() -> None:
    a, b = numbers((3, 4)), numbers((5, 2), seed=1)
    assert np.array_equal(einloom.kron(a, b), einloom.einsum("ij,kl->ikjl", a, b).reshape(15, 8))


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
def test_kron_laws(seed: int, m: int, n: int) -> None:
    """Of products, and of factors in any grouping."""
    a, b = numbers((m, n), seed=seed), numbers((n, m), seed=seed + 1)
    c, d = numbers((n, 2), seed=seed + 2), numbers((m, 3), seed=seed + 3)
    close(einloom.kron(a, b) @ einloom.kron(c, d), einloom.kron(a @ c, b @ d), 64)
    close(einloom.kron(einloom.kron(a, b), c), einloom.kron(a, b, c))
    close(einloom.kron(a, einloom.kron(b, c)), einloom.kron(a, b, c), 16)


# ---- block_diag ---------------------------------------------------------------------------------


BLOCKS: tuple[tuple[Any, ...], ...] = (
    ([[1, 2], [3, 4]], [[5.5]]),
    (1, [2, 3], [[4], [5]]),
    (np.ones((2, 0)), [[1]]),
    ([], 1),
    ([[1j]], np.ones((1, 3), np.float32)),
    (np.ones((2, 3)),),
)


@pytest.mark.parametrize("blocks", BLOCKS, ids=range(len(BLOCKS)))
def test_block_diag(blocks: tuple[Any, ...]) -> None:
    wanted = scipy.linalg.block_diag(*blocks)
    close(functions.block_diag(*blocks), wanted)
    out = np.full(wanted.shape[::-1], 7, wanted.dtype).T
    assert functions.block_diag(*blocks, out=out) is out
    close(out, wanted)
    close(in_program(functions.block_diag, *map(np.asarray, blocks)), wanted)


def test_block_diag_of_batches() -> None:
    a, b = numbers((3, 1, 2, 2)), numbers((4, 1, 3), seed=1)
    got = einloom.block_diag(a, b, 5)
    assert got.shape == (3, 4, 4, 6)
    for i, j in np.ndindex(3, 4):
        close(got[i, j], scipy.linalg.block_diag(a[i, 0], b[j], 5))
    close(in_program(einloom.block_diag, a, b, names=True), einloom.block_diag(a, b))
    for x, y in zip(layouts(a), layouts(b), strict=True):
        close(einloom.block_diag(x, y, 5), got)


def test_block_diag_over_an_operand() -> None:
    x = numbers((3, 3))
    wanted = x.copy()
    assert einloom.block_diag(x, out=x) is x
    close(x, wanted)


# ---- diagonal and trace -------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-9, -3, -2, -1, 0, 1, 2, 4, 9])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (-1, 1), (1, -1), (2, 0)])
def test_diagonals(offset: int, axes: tuple[int, int]) -> None:
    x = numbers((3, 4, 2))
    wanted = np.diagonal(x, offset, *axes)
    got = functions.diagonal(x, offset, *axes)
    close(got, wanted)
    assert not got.size or np.shares_memory(got, x)
    total = np.trace(x, offset, *axes)
    close(functions.trace(x, offset, *axes), total)
    for names in (False, True):
        close(in_program(lambda y: functions.diagonal(y, offset, *axes), x, names=names), wanted)
        close(in_program(lambda y: functions.trace(y, offset, *axes), x, names=names), total)


def test_a_diagonal_can_be_written() -> None:
    x = np.zeros((3, 4))
    einloom.diagonal(x, 1)[...] = 5
    assert x.tolist() == np.diag([5, 5, 5], 1)[:3].tolist()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_traces_of_dtypes(dtype: str) -> None:
    x = numbers((4, 5, 3), dtype)
    for y in layouts(x):
        close(functions.trace(y), np.trace(x))
        close(functions.trace(y, 1, 2, 0), np.trace(x, 1, 2, 0))
    close(functions.trace(x, dtype="complex128"), np.trace(x, dtype="complex128"))
    out = np.zeros(6, np.trace(x).dtype)[::2]
    assert functions.trace(x, out=out) is out
    close(out, np.trace(x))
    wide = np.zeros(3, complex)
    functions.trace(x, out=wide)
    close(wide, functions.trace(x).astype(complex))


def test_linalg_takes_the_last_two_axes() -> None:
    x = numbers((4, 3, 5))
    close(in_program(lambda y: linalg.trace(y, offset=1), x), np.trace(x, 1, -2, -1))
    close(in_program(lambda y: linalg.diagonal(y, offset=-1), x), np.diagonal(x, -1, -2, -1))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    for call in (einloom.diagonal, functions.trace, linalg.trace, lambda y: einloom.kron(y, [1.0])):
        got = call(x)
        assert isinstance(got, torch.Tensor)
        close(got.numpy(), call(x.numpy()))
    out = torch.empty(3, 4, dtype=torch.float64)
    assert einloom.block_diag(x, 1, out=out) is out
    close(out.numpy(), scipy.linalg.block_diag(x.numpy(), 1))


BAD = [
    (lambda: functions.kron(), CallError, "at least one"),
    (lambda: functions.block_diag(), CallError, "at least one"),
    (lambda: functions.kron([1], [2], out=np.ones(3, int)), ShapeError, "out has shape"),
    (lambda: functions.kron([1.5], [2], out=np.ones(1, int)), DTypeError, "not written into"),
    (lambda: functions.kron([1], [2], out=[1]), CallError, "pass an array"),
    (lambda: functions.kron([1], [2], out=np.broadcast_to(1, 1)), ConversionError, "read-only"),
    (lambda: functions.kron(np.ma.ones(3), 1), ConversionError, "mask"),
    (lambda: functions.kron(["a"], [1]), DTypeError, "kron: operands of <U"),
    (lambda: functions.block_diag(np.ones((2, 1, 1)), np.ones((3, 1, 1))), ShapeError, "broadcast"),
    (lambda: functions.block_diag([1], out=np.ones((2, 2))), ShapeError, "out has shape"),
    (lambda: functions.diagonal([1, 2]), ShapeError, "two axes"),
    (lambda: functions.diagonal(np.ones((2, 2)), 0, 1, 1), ShapeError, "same axis"),
    (lambda: functions.diagonal(np.ones((2, 2)), 0, 2), ShapeError, "axis1=2"),
    (lambda: functions.diagonal(np.ones((2, 2)), 0.5), CallError, "offset=0.5"),
    (lambda: functions.diagonal(np.ones((2, 2)), axis2="x"), CallError, "axis2='x'"),
    (lambda: functions.trace(np.ones((2, 2)), dtype="none"), DTypeError, "none"),
    (lambda: functions.trace(np.ones((2, 2, 2)), out=np.ones(3)), ShapeError, "out has shape"),
    (lambda: functions.trace(np.ones((2, 2)) * 1j, out=np.ones(())), DTypeError, "not written"),
    (lambda: einloom.trace(np.ones((2, 2))), CallError, "functions.trace"),
    (
        lambda: einloom.trace(lambda x: functions.kron(x, np.ones(2)), "float64[3]"),
        CallError,
        "must be an argument",
    ),
    (
        lambda: einloom.trace(lambda x: functions.trace(x, out=np.ones(())), "float64[3,3]"),
        CallError,
        "leave it out",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_arguments(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# ---- previously failed --------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [2**70, -(2**70), 2**31, -(2**31) - 1])
def test_diagonals_far_outside(offset: int) -> None:
    assert einloom.diagonal(np.eye(3), offset).shape == (0,)
    assert functions.trace(np.eye(3), offset) == 0


def test_kron_of_more_axes_than_half_of_an_array() -> None:
    x = np.ones((1,) * 33) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else np.ones((1,) * 17)
    with pytest.raises(ShapeError, match=rf"kron: a factor has {x.ndim} axes"):
        einloom.kron(x, x)
    assert einloom.kron(x).shape == x.shape


@pytest.mark.parametrize("dtype", [">f8", "<f8", ">i2"])
def test_diagonals_in_any_byte_order_are_views(dtype: str) -> None:
    x = np.zeros((2, 3, 4), dtype)
    einloom.diagonal(x, 1, 1, 2)[...] = 5
    assert (x[:, [0, 1, 2], [1, 2, 3]] == 5).all()
    assert x.sum() == 30
    assert einloom.diagonal(x).dtype == x.dtype
