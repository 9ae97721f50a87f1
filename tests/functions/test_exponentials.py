"""logsumexp, softmax and log_softmax beside SciPy, and where numbers are large, small or infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from tests.functions.cases import COMPLEX, REAL, close, in_program, layouts, numbers

from einloom import CallError, DTypeError, ShapeError, log_softmax, logsumexp, softmax
from einloom.backend.spec import dtype_from_name

INF, NAN = np.inf, np.nan
AXES = (None, 0, 1, -1, (0, 2), (2, 1))


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX, "int8", "bool"])
def test_as_scipy(axis: Any, dtype: str) -> None:
    x = numbers((3, 4, 2), dtype) * (np.asarray(3).astype(dtype) if dtype != "bool" else True)
    wanted = scipy.special.logsumexp(x, axis=axis)
    for y in layouts(x):
        close(logsumexp(y, axis), wanted, 16)
    kept = scipy.special.logsumexp(x, axis=axis, keepdims=True)
    close(logsumexp(x, axis, keepdims=True), kept, 16)
    close(in_program(lambda y: logsumexp(y, axis), x, names=True), wanted, 16)
    wide = x.astype(np.result_type(x.dtype, np.float32) if x.dtype.kind in "fc" else float)
    close(softmax(x, axis), wide * 0 + np.exp(wide) / np.exp(wide).sum(axis, keepdims=True), 16)
    close(log_softmax(x, axis), wide - np.log(np.exp(wide).sum(axis, keepdims=True)), 16)
    close(in_program(lambda y: softmax(y, axis), x, names=True), softmax(x, axis), 16)
    for function in (softmax, log_softmax):
        out = np.empty_like(function(x, axis))
        assert function(x, axis, out=out) is out
        close(out, function(x, axis))


def test_over_no_axis() -> None:
    x = numbers((2, 3))
    close(logsumexp(x, ()), x)
    assert softmax(x, ()).tolist() == [[1] * 3] * 2
    assert log_softmax(x, ()).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), ()])
def test_weights(dtype: str, shape: tuple[int, ...]) -> None:
    x, b = numbers((3, 4), dtype), numbers(shape, "float32", 1)
    total = np.asarray((b.astype(complex) * np.exp(x.astype(complex))).sum(1))
    got, sign = logsumexp(x, 1, b, return_sign=True)
    kind = np.result_type(x.dtype, b.dtype)
    close(got, np.log(abs(total)).astype(np.dtype(kind.char.lower())), 64)
    phase = total / abs(total)
    close(sign, (phase if kind.kind == "c" else phase.real).astype(kind), 64)
    if kind.kind == "c":
        close(logsumexp(x, 1, b), np.log(total).astype(kind), 64)
    else:
        wanted = np.where(total.real > 0, np.log(abs(total)), NAN).astype(kind)
        close(logsumexp(x, 1, b), wanted, 64)
    wanted = logsumexp(x, 1, b, return_sign=True)
    found = in_program(lambda y, w: logsumexp(y, 1, w, return_sign=True), x, b)
    for one, other in zip(found, wanted, strict=True):
        close(one, other, 16)


SPECIAL: list[tuple[list[Any], list[Any] | None, Any]] = [
    ([1000, 1000], None, 1000 + np.log(2)),
    ([-1000.0, -1000.0], None, -1000 + np.log(2)),
    ([INF, 1], None, INF),
    ([INF, -INF], None, INF),
    ([-INF, -INF], None, -INF),
    ([], None, -INF),
    ([NAN, 1], None, NAN),
    ([NAN, INF], None, NAN),
    ([0.0, -40.0], None, np.log1p(np.exp(-40))),
    ([0.0, -700.0], None, np.exp(-700)),
    ([1.0, 1.0], [1, -1], -INF),
    ([INF, 1.0], [0, 2], 1 + np.log(2)),
    ([NAN, 1.0], [0, 1], 1.0),
    ([-INF, 3.0], [5, 1], 3.0),
    ([1.0, 2.0], [0, 0], -INF),
    ([0.0, 0.0, 5.0], [-1, 1, 1e-300], 5 + np.log(1e-300)),
    ([1e308, 1e308], None, 1e308),
]


@pytest.mark.parametrize(("a", "b", "wanted"), SPECIAL, ids=range(len(SPECIAL)))
def test_special_values(a: list[Any], b: list[Any] | None, wanted: float) -> None:
    x = np.array(a, float)
    np.testing.assert_allclose(logsumexp(x, b=b), wanted, rtol=4e-16)
    if b is None:
        got = in_program(logsumexp, x)
        np.testing.assert_allclose(got, wanted, rtol=4e-16)


def test_signs_of_what_vanishes() -> None:
    assert logsumexp([1.0, 1.0], b=[1, -1], return_sign=True) == (-INF, 0)
    found, sign = logsumexp([0.0, -50.0], b=[-1, 1], return_sign=True)
    assert sign == -1
    assert found == pytest.approx(-np.exp(-50), rel=1e-14)


def test_softmax_of_large_and_infinite_numbers() -> None:
    assert softmax([1e4, 1e4, -1e4]).tolist() == [0.5, 0.5, 0]
    assert log_softmax([0.0, 1e4]).tolist() == [-1e4, 0]
    assert softmax([-INF, 0.0]).tolist() == [0, 1]
    assert np.isnan(softmax([NAN, 0.0])).all()
    assert softmax(np.ones((2, 0)), 1).shape == (2, 0)
    assert softmax(3.0) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    x = (numbers((50, 40), "float32") * 4).astype(dtype_from_name(dtype))
    for function in (logsumexp, softmax, log_softmax):
        got = function(x, 1)
        assert got.dtype == x.dtype
        wanted = function(x.astype(np.float32), 1).astype(x.dtype)
        assert (got == wanted).all()


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=8), st.floats(-300, 300))
def test_laws(values: list[float], shift: float) -> None:
    """A shift of all exponents is one of the result; probabilities sum to 1."""
    x = np.array(values)
    scale = abs(x).max() + abs(shift) + 1
    assert abs(logsumexp(x + shift) - logsumexp(x) - shift) <= 1e-15 * 8 * scale
    assert x.max() <= logsumexp(x) <= x.max() + np.log(len(x)) + 1e-12
    assert abs(softmax(x).sum() - 1) < 1e-14
    np.testing.assert_allclose(np.exp(log_softmax(x)), softmax(x), rtol=1e-12, atol=1e-307)


def test_out() -> None:
    x = numbers((3, 4))
    out = np.empty(6)[::2]
    assert logsumexp(x, 1, out=out) is out
    close(out, logsumexp(x, 1))
    found, sign = logsumexp(x, 1, return_sign=True, out=out)
    assert found is out
    assert sign.tolist() == [1, 1, 1]
    y = x.copy()
    assert softmax(y, 0, out=y) is y
    close(y, softmax(x, 0))


BAD = [
    (lambda: logsumexp([1.0], 1), ShapeError, "axis=1"),
    (lambda: logsumexp(np.ones((2, 2)), (0, -2)), ShapeError, "twice"),
    (lambda: logsumexp([1.0], 0.5), CallError, "axis=0.5"),
    (lambda: logsumexp([1.0, 2.0], b=[1, 2, 3]), ShapeError, "broadcast"),
    (lambda: logsumexp(["a"]), DTypeError, "convert them"),
    (lambda: softmax([1.0], out=np.ones(2)), ShapeError, "out has shape"),
    (lambda: softmax([1.0], out=np.ones(1, int)), DTypeError, "not written into"),
    (lambda: logsumexp([1j], out=np.ones(())), DTypeError, "not written into"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_arguments(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
