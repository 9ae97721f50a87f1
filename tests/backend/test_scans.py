"""Scans of lines longer than a block, of numbers near the ends of the range, and of signed zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from einloom._base.options import options
from einloom.backend.cpu import cpu, scan

UFUNCS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
N = 3 * scan.BLOCK + 100


def scanned(
    kind: str, x: Any, small: float, threads: int = 1, out: Any = None, axis: int = 0
) -> Any:
    with options(small=small, threads=threads):
        return cpu().apply("associative_scan", {"axis": axis, "kind": kind}, x, out=out)


def line(name: str) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(7).standard_normal(N)
    if name == "in turns":
        x = np.resize([2.0, 0.5], N)
    elif name == "out and back":
        x = np.exp(np.where(np.arange(N) < scan.BLOCK, -690.0, 0.0) / scan.BLOCK)
        x[scan.BLOCK : 2 * scan.BLOCK] = np.exp(920 / scan.BLOCK)
    elif name == "huge":
        x = np.resize([1e305, -1e305], N)
    elif name == "infinite":
        x[N // 2] = np.inf
    elif name == "zeros":
        x = np.resize([-0.0, -0.0, 0.0], N)
    return x


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
@pytest.mark.parametrize("name", ["drawn", "rising", "with NaN", "zeros"])
def test_lines_of_which_stretches_are_passed_over(name: str, dtype: str, kind: str) -> None:
    """The same bits as an extreme kept from element to element gives, the later of equals."""
    n = 1000
    x = np.random.default_rng(5).integers(-50, 50, n).astype(dtype)
    if name == "rising":
        x = np.linspace(-100, 100, n).astype(dtype)
    elif name == "zeros":
        x = np.where(x > 0, 0.0, -0.0).astype(dtype)
    elif x.dtype.kind == "f" and name == "with NaN":
        x[[300, 301, 700]] = np.nan
    best = x[0]
    want = np.empty_like(x)
    for k, one in enumerate(x):
        reaches = one >= best if kind == "max" else one <= best
        best = one if best == best and (reaches or one != one) else best
        want[k] = best
    for line in (x, np.repeat(x, 2)[::2]):
        assert scanned(kind, line, 0).tobytes() == want.tobytes()


# ---- previously failed -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", UFUNCS)
@pytest.mark.parametrize(
    "name", ["normal", "in turns", "out and back", "huge", "infinite", "zeros"]
)
def test_long_lines(name: str, kind: str) -> None:
    """As NumPy's; the same bits for any number of threads, and without kernels where nothing is cut."""
    x = line(name)
    with np.errstate(all="ignore"):
        want = UFUNCS[kind].accumulate(x)
        scale = np.add.accumulate(np.abs(x)) if kind == "sum" else np.abs(want)
    one = scanned(kind, x, 0)
    assert (np.isfinite(one) == np.isfinite(want)).all()
    sane = np.isfinite(want)
    assert (np.abs(one[sane] - want[sane]) <= 1e-12 * scale[sane]).all()
    for threads in (2, 3):
        assert scanned(kind, x, 0, threads).tobytes() == one.tobytes()
    assert scanned(kind, x, math.inf).tobytes() == want.tobytes()
    if kind != "sum":
        np.testing.assert_array_equal(one, want)
        sure = ~np.isnan(want)
        assert (np.signbit(one) == np.signbit(want))[sure].all()


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_complex_lines(kind: str) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(1j * rng.uniform(0, 6, N))
    one = scanned(kind, x, 0)
    np.testing.assert_allclose(one, UFUNCS[kind].accumulate(x), rtol=1e-9, atol=1e-9)
    for threads in (2, 3):
        assert scanned(kind, x, 0, threads).tobytes() == one.tobytes()


@pytest.mark.parametrize("small", [0, math.inf], ids=["kernels", "no kernels"])
def test_first_elements(small: float) -> None:
    """Are what they are: neither infinite parts nor signs of zeros are lost."""
    for kind, ufunc in UFUNCS.items():
        for values in ([-0.0], [-0.0, 0.0], [0.0, -0.0], [-np.inf, 1.0], [np.inf, -0.0]):
            one = np.array(values)
            for x in (one, np.repeat(one[:, None], 3, 1)):
                with np.errstate(all="ignore"):
                    want = ufunc.accumulate(x, axis=0)
                got = scanned(kind, x, small)
                np.testing.assert_array_equal(got, want)
                assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
    z = np.array([complex(np.inf, 0), 1])
    assert str(scanned("prod", z, small)) == "[inf +0.j inf+nanj]"


@pytest.mark.parametrize("kind", ["sum", "prod", "max"])
def test_layouts_of_the_result(kind: str) -> None:
    x = np.random.default_rng(5).standard_normal((2, N))
    rows, columns = np.empty(x.shape), np.empty(x.shape, order="F")
    scanned(kind, x, 0, 2, rows, 1)
    scanned(kind, np.asfortranarray(x), 0, 1, columns, 1)
    assert rows.tobytes() == columns.tobytes()


@pytest.mark.parametrize("small", [0, math.inf], ids=["kernels", "no kernels"])
def test_halves_are_rounded_once(small: float) -> None:
    x = np.array([1, 2**-11, 2**-24], np.float16)
    assert scanned("sum", x, small)[2] == np.float16(1 + 2**-10)
