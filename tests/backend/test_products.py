"""Around a product: which conjugates are taken, what it is added to, and where the result may lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.backends import BACKENDS, PATHS, get, path, put
from tests.backend.calls import CONJUGATES, dot

import einloom
from einloom._base.errors import CallError
from einloom.backend.cpu import cpu
from einloom.backend.cpu.products import conjugated
from einloom.backend.spec import ArraySpec

BACKEND = cpu()
INNER: dict[str, Any] = {"batch": ((), ()), "contracting": ((0,), (0,))}
MATRICES: dict[str, Any] = {"batch": ((), ()), "contracting": ((1,), (0,))}
each = pytest.mark.parametrize(("backend", "how"), [(b, how) for b in BACKENDS for how in PATHS])


def run(backend: str, how: str, op: str, attrs: dict[str, Any], *arrays: Any) -> Any:
    with path(how):
        return get(backend, BACKENDS[backend].apply(op, attrs, *put(backend, *arrays)))


KNOWN = [  # flags, sum of products of (1 + 2i, i) and (3 - 1i, 2)
    ((False, False), 5 + 7j),
    ((True, False), 1 - 9j),
    ((False, True), 1 + 9j),
    ((True, True), 5 - 7j),
]


@each
@pytest.mark.parametrize(("flags", "want"), KNOWN, ids=str)
def test_known_conjugates(backend: str, how: str, flags: Any, want: complex) -> None:
    x, y = np.array([1 + 2j, 1j]), np.array([3 - 1j, 2])
    assert run(backend, how, "dot_general", {**INNER, "conj": flags}, x, y) == want
    for dtype in ("c8", "G", "O"):
        a, b = x.astype(dtype), y.astype(dtype)
        assert run(backend, how, "dot_general", {**INNER, "conj": flags}, a, b) == want


@each
def test_known_sums(backend: str, how: str) -> None:
    x, y, acc = np.array([[1, 2], [3, 4]]), np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, -1]])
    for factors, want in (
        ({}, [[4, 2], [7, 3]]),
        ({"alpha": 2, "beta": -1}, [[5, 4], [14, 9]]),
        ({"alpha": -1}, [[-2, -2], [-7, -5]]),
        ({"beta": 3}, [[6, 2], [7, 1]]),
        ({"alpha": 0, "beta": 2}, [[2, 0], [0, -2]]),
        ({"beta": 0}, [[3, 2], [7, 4]]),
    ):
        for dtype in ("i1", "i8", "f2", "f4", "f8", "g", "c16", "O"):
            arrays = [a.astype(dtype) for a in (x, y, acc)]
            got = run(backend, how, "dot_general_add", {**MATRICES, **factors}, *arrays)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, want)


@each
def test_complex_and_broken_factors(backend: str, how: str) -> None:
    x = np.array([1j, 2])
    attrs = {**INNER, "conj": (True, False), "alpha": 1j, "beta": 0.5}
    assert run(backend, how, "dot_general_add", attrs, x, x, np.array(4 - 2j)) == 2 + 4j


@each
def test_what_is_not_read(backend: str, how: str) -> None:
    """With beta = 0 acc may hold anything."""
    x, acc = np.array([1.0, 2.0]), np.array(np.nan)
    assert run(backend, how, "dot_general_add", {**INNER, "beta": 0}, x, x, acc) == 5
    assert np.isnan(run(backend, how, "dot_general_add", INNER, x, x, acc))


@each
def test_half_precisions_are_rounded_once(backend: str, how: str) -> None:
    """2048 + 1 is no float16: added one by one after rounding, the ones would be lost."""
    x, y = np.ones(2, "f2"), np.array([2048, 1], "f2")
    got = run(backend, how, "dot_general_add", INNER, x, y, np.array(1, "f2"))
    assert got == 2050


@each
def test_integers_wrap_and_booleans_are_or(backend: str, how: str) -> None:
    x = np.array([100], "i1")
    got = run(backend, how, "dot_general_add", {**INNER, "alpha": 2}, x, x, np.array(100, "i1"))
    assert got == np.array(2 * 100 * 100 + 100).astype("i1")
    true, false = np.array([True]), np.array(False)
    assert run(backend, how, "dot_general_add", INNER, true, true, false)
    assert not run(backend, how, "dot_general_add", {**INNER, "alpha": 0}, true, true, false)


def test_every_way_to_conjugate_is_taken() -> None:
    spec = np.dtype("c16")
    found = {conjugated(call.attrs, *call.specs(spec)[:2]) for call in CONJUGATES}
    assert found == {"lhs", "rhs", "result", "lhs and result", "rhs and result"}
    assert {conjugated(c.attrs, *c.specs(np.dtype("f8"))[:2]) for c in CONJUGATES} == {"nothing"}


def test_the_smaller_copy_is_made() -> None:
    """Scratch counts it: a vector, not the matrix that is flagged."""
    specs = tuple(ArraySpec(np.dtype("c16"), shape) for shape in ((100, 100), (100,)))
    plain = BACKEND.scratch_bytes("dot_general", MATRICES, specs)
    flagged = {**MATRICES, "conj": (True, False)}
    assert BACKEND.scratch_bytes("dot_general", flagged, specs) == plain + specs[1].nbytes
    both = {**MATRICES, "conj": (True, True)}
    assert BACKEND.scratch_bytes("dot_general", both, specs) == plain


@pytest.mark.parametrize("dtype", ["f8", "c16", "i8", "f2", "O"])
@pytest.mark.parametrize("beta", [0, 1, 2])
def test_out_may_be_the_accumulator(dtype: str, beta: int, rng: np.random.Generator) -> None:
    """Also where its axes lie in another order; it must not lie across it, or over a factor."""
    attrs = {**MATRICES, "alpha": 2, "beta": beta}
    x, y, before = (rng.integers(-3, 4, s).astype(dtype) for s in ((5, 3), (3, 5), (5, 5)))
    want = 2 * np.dot(x, y) + beta * before
    for acc in (before.copy(), before.copy("F"), np.repeat(before, 2, axis=1)[:, ::2]):
        assert BACKEND.apply("dot_general_add", attrs, x, y, acc, out=acc) is acc
        np.testing.assert_array_equal(acc, want)
    square = before.copy()
    with pytest.raises(CallError, match="overlaps operand 2"):
        BACKEND.apply("dot_general_add", attrs, x, y, square.T, out=square)
    with pytest.raises(CallError, match="overlaps operand 0"):
        BACKEND.apply("dot_general_add", attrs, square, before, before, out=square)


def test_operands_stay(rng: np.random.Generator) -> None:
    """A conjugate is taken in a copy, whatever is cheaper; large ones keep their order in memory."""
    for call in (
        *CONJUGATES,
        dot((700, 600), (600, 3), contracting=((1,), (0,)), conj=(True, False)),
    ):
        x, y = (rng.normal(size=(*shape, 2)).view("c16")[..., 0] for shape in call.shapes)
        before = x.copy(), y.copy()
        got = BACKEND.apply("dot_general", call.attrs, x, y)
        np.testing.assert_array_equal(x, before[0])
        np.testing.assert_array_equal(y, before[1])
        left, right = call.attrs["conj"]
        plain = {name: call.attrs[name] for name in ("batch", "contracting")}
        a, b = x.conj() if left else x, y.conj() if right else y
        np.testing.assert_allclose(got, BACKEND.apply("dot_general", plain, a, b), atol=1e-10)


class Turning:
    """A 2 by 2 matrix of whole numbers whose conjugate is the transpose: conj(x * y) = conj(y) * conj(x)."""

    def __init__(self, rows: object) -> None:
        self.rows = np.array(rows)

    def __mul__(self, other: Turning) -> Turning:
        return Turning(self.rows @ other.rows)

    def __add__(self, other: Turning) -> Turning:
        return Turning(self.rows + other.rows)

    def conjugate(self) -> Turning:
        return Turning(self.rows.T)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turning) and bool((self.rows == other.rows).all())


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shapes", [((5, 3), (3, 1)), ((2, 3), (3, 4)), ((1, 3), (3, 6))])
def test_objects_that_do_not_commute(
    flags: tuple[bool, bool], shapes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """Previously failed: conj(a) . conj(b) is not conj(a . b) for them."""
    rng = np.random.default_rng(0)
    arrays = []
    for shape in shapes:
        x = np.empty(shape, object)
        for at in np.ndindex(shape):
            x[at] = Turning(rng.integers(-3, 4, (2, 2)))
        arrays.append(x)
    plain = [np.conj(x) if flag else x for x, flag in zip(arrays, flags, strict=True)]
    want = plain[0] @ plain[1]
    attrs = {"contracting": ((1,), (0,)), "batch": ((), ()), "conj": flags}
    assert (cpu().apply("dot_general", attrs, *arrays) == want).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [127, 128])
@pytest.mark.parametrize("k", [1, 24, 31, 32])
def test_a_line_of_sums_of_short_rows(k: int, rows: int, dtype: str) -> None:
    """As the sums are, and without a warning where they are infinite or no numbers (previously failed)."""
    rng = np.random.default_rng(k)
    lhs, rhs = (rng.integers(-3, 4, (rows, k)).astype(dtype) for _ in range(2))
    most = np.finfo(dtype).max
    lhs[0, :2], rhs[0, :2] = (np.inf, -np.inf)[:k], 1
    lhs[1, :2], rhs[1, :2] = most, 1
    with np.errstate(all="ignore"):
        want = np.sum(lhs * rhs, axis=1)
    expression = einloom.compile("pi,pi->p", lhs, rhs)
    np.testing.assert_array_equal(expression(lhs, rhs), want)
    out = np.empty(2 * rows, dtype)[::2]
    np.testing.assert_array_equal(expression(lhs[:, ::-1], rhs[:, ::-1], out=out), want)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("k", [1, 2, 3, 16, 31, 32])
def test_many_short_rows(dtype: str, k: int) -> None:
    """Rows of any strides, their sums into any array, infinite ones too."""
    rng = np.random.default_rng(k)
    lhs, rhs = (rng.integers(-3, 4, (9, 20, k)).astype(dtype) for _ in range(2))
    lhs[0, 0], rhs[0, 0] = np.inf, 1
    want = np.sum(lhs * rhs, axis=2)
    expression = einloom.compile("pqi,pqi->pq", lhs, rhs)
    np.testing.assert_array_equal(expression(lhs, rhs), want)
    turned = np.asfortranarray(lhs)
    for out in (
        np.empty((9, 20), dtype),
        np.empty((20, 9), dtype).T,
        np.empty((9, 40), dtype)[:, ::2],
    ):
        assert expression(turned, rhs, out=out) is out
        np.testing.assert_array_equal(out, want)
