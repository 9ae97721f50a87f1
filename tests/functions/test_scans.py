"""cumsum, cumprod, cummax and cummin beside NumPy, and beside loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.functions.cases import NUMBERS, close, in_program, layouts, numbers

from einloom import CallError, DTypeError, ShapeError, cummax, cummin, cumprod, cumsum

SCANS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cumsum": (cumsum, np.cumsum),
    "cumprod": (cumprod, np.cumprod),
    "cummax": (cummax, np.maximum.accumulate),
    "cummin": (cummin, np.minimum.accumulate),
}
SUMS = ("cumsum", "cumprod")


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_as_numpy(name: str, dtype: str) -> None:
    scan, numpys = SCANS[name]
    if np.dtype(dtype).kind == "c" and name not in SUMS:
        return
    x = numbers((3, 5, 2), dtype)
    for axis in (0, 1, -1):
        wanted = numpys(x, axis=axis)
        backwards = np.flip(numpys(np.flip(x, axis), axis=axis), axis)
        for y in layouts(x):
            close(scan(y, axis), wanted)
        close(scan(x, axis, reverse=True), backwards)
        for out in (np.empty_like(wanted), np.empty(wanted.shape[::-1], wanted.dtype).T):
            assert scan(x, axis, out=out) is out
            close(out, wanted)
            assert scan(x, axis, out=out, reverse=True) is out
            close(out, backwards)
        close(in_program(lambda y, axis=axis: scan(y, axis), x, names=True), wanted)
        close(in_program(lambda y, axis=axis: scan(y, axis, reverse=True), x), backwards)
    close(scan(x), numpys(x.reshape(-1)))
    close(in_program(scan, x), numpys(x.reshape(-1)))


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_scans(name: str, axis: int | None, reverse: bool) -> None:
    """An inclusive one of the elements before."""
    scan, numpys = SCANS[name]
    x = numbers((4, 3))
    flat, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    given = np.flip(flat, along) if reverse else flat
    first = np.full_like(np.take(given, [0], along), 0 if name == "cumsum" else 1)
    wanted = numpys(np.concatenate([first, np.delete(given, -1, along)], along), axis=along)
    wanted = np.flip(wanted, along) if reverse else wanted
    close(scan(x, axis, reverse=reverse, exclusive=True), wanted)
    out = np.empty(wanted.shape)
    assert scan(x, axis, out=out, reverse=reverse, exclusive=True) is out
    close(out, wanted)
    close(in_program(lambda y: scan(y, axis, reverse=reverse, exclusive=True), x), wanted)


@pytest.mark.parametrize("name", SCANS)
def test_in_place_and_empty(name: str) -> None:
    scan, _ = SCANS[name]
    x = numbers((5, 4))
    for reverse in (False, True):
        y = x.copy()
        assert scan(y, 0, out=y, reverse=reverse) is y
        close(y, scan(x, 0, reverse=reverse))
        assert scan(np.ones((0, 3)), 0, reverse=reverse).shape == (0, 3)
        assert scan(np.ones((3, 0)), 0, reverse=reverse).shape == (3, 0)
    if name in SUMS:
        assert scan(np.ones((0, 3)), 0, exclusive=True).shape == (0, 3)
    assert scan(7).tolist() == [7]
    result = scan(x, 1, reverse=True)
    assert result.flags.owndata or result.base is not x
    assert not np.shares_memory(result, x)


def test_dtypes_that_are_asked_for() -> None:
    x = numbers((6,), "int8")
    close(cumsum(x, dtype="float32"), np.cumsum(x, dtype="float32"))
    close(cumprod(x, dtype=np.complex128), np.cumprod(x, dtype=np.complex128))
    close(cumsum(numbers((6,), "uint16")), np.cumsum(numbers((6,), "uint16")))
    out = np.empty(6, np.float64)
    assert cumsum(x, out=out) is out
    close(out, np.cumsum(x).astype(float))


def test_nan_sticks_and_half_precision_is_summed_wide() -> None:
    x = np.array([1.0, np.nan, 5.0])
    for scan in (cummax, cummin):
        assert np.isnan(scan(x)).tolist() == [False, True, True]
    assert cumsum(np.ones(4096, np.float16))[-1] == 4096
    assert cumsum(np.ones(1 << 20, np.float32))[-1] == 1 << 20


@given(st.lists(st.integers(-5, 5), max_size=12), st.booleans())
def test_against_loops(values: list[int], reverse: bool) -> None:
    order = values[::-1] if reverse else values
    total, sums, largest = 0, [], []
    for value in order:
        sums.append(total)
        total += value
        largest.append(max([*largest[-1:], value]))
    turn = slice(None, None, -1 if reverse else 1)
    x = np.array(values, int)
    assert cumsum(x, reverse=reverse, exclusive=True).tolist() == sums[turn]
    assert cummax(x, reverse=reverse).tolist() == largest[turn]


BAD = [
    (lambda: cumsum([1], 1), ShapeError, "axis=1"),
    (lambda: cumsum([1], 0.5), CallError, "axis=0.5"),
    (lambda: cumsum([1.5], out=np.ones(1, int)), DTypeError, "not written into"),
    (lambda: cumsum([1, 2], out=np.ones(3, int)), ShapeError, "out has shape"),
    (lambda: cumsum([1, 2], dtype="nothing"), DTypeError, "nothing"),
    (lambda: cummax([1j]), DTypeError, "no order"),
    (lambda: cummin(["a", "b"]), DTypeError, "associative_scan|cummin"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_arguments(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
