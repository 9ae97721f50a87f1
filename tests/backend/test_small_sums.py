"""Sums as products with ones: any shape and axes, numbers that are none, no warnings."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.test_memory import peak

import einloom
from einloom.backend.catalogue import infer
from einloom.backend.cpu import cpu, small_sums
from einloom.backend.cpu.small_sums import ALONE, small_sum
from einloom.backend.spec import ArraySpec

SHAPES = [
    (5, 7), (64, 12), (3, 100, 3), (100, 3, 3), (2000, 3), (40, 5, 6), (2, 3, 4, 5, 6),
    (7, 1, 9, 1, 8), (300, 300),
    (4096, 20), (20, 600), (2, 700, 13), (90, 90, 2), (2, 5000, 2), (ALONE + 5, 2),
]  # fmt: skip


def check(shape: tuple[int, ...], axes: tuple[int, ...], rng: np.random.Generator) -> bool:
    """Whether there is such a sum; its result."""
    total = small_sum(shape, axes)
    if total is None:
        return False
    x = rng.standard_normal(shape)
    found = total(x)
    exact = x.astype(np.longdouble).sum(axes)
    count = math.prod(shape[axis] for axis in axes)
    assert type(found) is np.ndarray
    assert (found.shape, found.dtype) == (exact.shape, np.float64)
    assert found.flags.c_contiguous
    bound = min(count, 2 * ALONE) * np.finfo(np.float64).eps * np.abs(x).sum(axes)
    assert np.all(np.abs(found - exact) <= bound)
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_all_axes(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    choices = [
        axes
        for count in range(1, len(shape) + 1)
        for axes in itertools.combinations(range(len(shape)), count)
    ]
    assert [axes for axes in choices if check(shape, axes, rng)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    shape = tuple(
        data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 17, 40]), min_size=1, max_size=5))
    )
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    check(shape, axes, np.random.default_rng(0))


def test_where_numpy_takes_no_longer() -> None:
    assert small_sum((1000,), (0,)) is None
    assert small_sum((3, 2000), (1,)) is None
    assert small_sum((2, ALONE + 5), (1,)) is None
    assert small_sum((2, 3), (1,)) is None
    assert small_sum((30, 40), ()) is None
    assert small_sum((1, 40), (0,)) is None
    assert small_sum((64, 12), (1,)) is not None


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("equation", ["abc->b", "abc->ac", "abc->a", "abc->c"])
def test_numbers_that_are_none(dtype: str, equation: str, rng: np.random.Generator) -> None:
    """Infinite numbers and NaN stay where they are; nothing warns."""
    x = rng.standard_normal((30, 20, 6)).astype(dtype)
    if x.dtype.kind == "c":
        x.imag = rng.standard_normal(x.shape)
    x[3, 4, 5], x[7, 8, 2], x[9, 9, 1] = np.inf, np.nan, -np.inf
    with np.errstate(all="raise"):
        found = einloom.einsum(equation, x)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gone = tuple(axis for axis, label in enumerate("abc") if label not in equation[5:])
        expected = x.astype(wide).sum(gone)
    assert found.dtype == x.dtype
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(found, part),
            getattr(expected, part),
            rtol=1e-5 if dtype in ("f4", "c8") else 1e-12,
        )


def test_single_precision_is_added_up_in_double(rng: np.random.Generator) -> None:
    """Each result is the exact one, rounded once or nearly so."""
    x = rng.random((2000, 60), np.float32) + np.float32(1e4)
    exact = np.array([math.fsum(map(float, column)) for column in x.T])
    found = einloom.einsum("ab->b", x)
    assert found.dtype == np.float32
    assert np.array_equal(found, exact.astype(np.float32))


def test_results_do_not_depend_on_threads(rng: np.random.Generator) -> None:
    for shape, equation in (
        ((4096, 20), "ab->a"),
        ((4096, 20), "ab->b"),
        ((9, 1500, 5), "abc->ac"),
    ):
        x = rng.standard_normal(shape)
        results = []
        for threads in (1, 2):
            with einloom.options(threads=threads):
                results.append(einloom.einsum(equation, x))
        assert np.array_equal(*results)


def test_other_layouts(rng: np.random.Generator) -> None:
    x = rng.standard_normal((30, 20, 6))
    for y in (x.T, x[::-1, ::2], np.asfortranarray(x), x[:, :, ::-1]):
        np.testing.assert_allclose(
            einloom.einsum("abc->b", y), y.sum((0, 2)), rtol=1e-12, atol=1e-12
        )
    out = np.zeros((20, 2))[:, 0]
    einloom.einsum("abc->b", x, out=out)
    np.testing.assert_allclose(out, x.sum((0, 2)), rtol=1e-12, atol=1e-12)


def test_it_is_asked(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Where memory is contiguous, and for nothing large."""
    asked = []

    def rows(rows: int, count: int, dtype: Any) -> Any:
        asked.append((rows, count))
        return lambda x: x.reshape(rows, count).sum(1)

    monkeypatch.setattr(small_sums, "_rows", rows)
    x = rng.standard_normal((64, 12))
    with einloom.options(small=1 << 18):
        program = einloom.compile("ab->a", x)
    np.testing.assert_allclose(program(x), x.sum(1), rtol=1e-12)
    assert asked == [(64, 12)]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("sizes", [(9, 5, 4), (40, 2, 3), (3, 40, 40), (300, 100, 5)], ids=str)
def test_products_that_are_added_up(
    dtype: str, sizes: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Of two operands with the same axes in any orders, whatever is summed."""
    extents = dict(zip("abc", sizes, strict=True))
    for right in map("".join, itertools.permutations("abc")):
        for kept in ("", "a", "b", "c", "ab", "ac", "bc", "ca"):
            x, y = (
                (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
                if dtype[0] == "c"
                else rng.standard_normal(shape).astype(dtype)
                for shape in ([extents[label] for label in term] for term in ("abc", right))
            )
            equation = f"abc,{right}->{kept}"
            expected = np.einsum(equation, x.astype("c16"), y.astype("c16"))
            found = einloom.einsum(equation, x, y)
            out = np.full((*expected.shape, 2), 7, dtype)[..., 0]
            einloom.compile(equation, x, y)(x, y, out=out)
            tolerance = 1e-4 if dtype in ("f4", "c8") else 1e-12
            for result in (found, out):
                assert result.dtype == x.dtype
                np.testing.assert_allclose(result, expected, rtol=tolerance, atol=30 * tolerance)


def test_infinite_products_warn_nobody(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 6, 500))
    x[0, 0], x[1, 0], x[:, 1], y[:, 0], y[0, 1] = np.inf, -np.inf, 1, 1, np.nan
    with np.errstate(all="raise"):
        found = einloom.einsum("ab,ab->b", x, y)
    assert np.isnan(found[:2]).all()
    np.testing.assert_allclose(found[2:], (x[:, 2:] * y[:, 2:]).sum(0), rtol=1e-12, atol=1e-12)


# ---- previously failed --------------------------------------------------------------------------

BACKEND = cpu()


def bound_of(op: str, attrs: dict[str, Any], *specs: ArraySpec) -> tuple[Any, Any, int]:
    """The kernel, an array for its result, and the bytes that it may allocate beside that."""
    outputs = infer(op, attrs, specs)
    kernel = BACKEND.bind(op, attrs, specs, outputs)
    out = np.empty(outputs[0].shape, outputs[0].dtype)
    return kernel, out, BACKEND.scratch_bytes(op, attrs, specs, outputs) + (4 << 10)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((100000,), (0,)), ((1000, 200), (1,)), ((1000, 5, 4), (1,)), ((100, 50, 4, 2, 3), (1, 3)),
        ((3, 30000), (0,)),
    ],
    ids=str,
)  # fmt: skip
def test_memory_of_sums(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    kernel, out, bound = bound_of("reduce_sum", {"axes": axes}, ArraySpec(np.dtype(dtype), shape))
    for x in (np.zeros(shape, dtype), np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]):
        assert peak(partial(kernel, x, out=out)) <= bound


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize(
    ("shapes", "attrs"),
    [
        (((60, 4, 2), (60, 2, 60)), {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}),
        (((60, 16, 2), (60, 2, 16)), {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}),
        (((300, 300), (300, 300)), {"batch": ((1,), (1,)), "contracting": ((0,), (0,))}),
        (((3, 60000), (3, 60000)), {"batch": ((1,), (1,)), "contracting": ((0,), (0,))}),
        (((9000, 3), (3, 9000)), {"batch": ((0,), (1,)), "contracting": ((1,), (0,))}),
        (((20000, 6), (20000, 6)), {"batch": ((1,), (1,)), "contracting": ((0,), (0,))}),
        (((50, 60), (60,)), {"batch": ((), ()), "contracting": ((1,), (0,))}),
    ],
    ids=str,
)  # fmt: skip
def test_memory_of_products(
    shapes: tuple[tuple[int, ...], ...], attrs: dict[str, Any], dtype: str
) -> None:
    specs = [ArraySpec(np.dtype(dtype), shape) for shape in shapes]
    kernel, out, bound = bound_of("dot_general", attrs, *specs)
    arrays = [np.zeros(shape, dtype) for shape in shapes]
    assert peak(partial(kernel, *arrays, out=out)) <= bound


def test_products_of_all_do_not_grow_with_what_is_small() -> None:
    """`small` may be infinite; a product for each element of large operands is formed in pieces at most."""
    attrs = {"batch": ((1,), (1,)), "contracting": ((0,), (0,))}
    spec = ArraySpec(np.dtype("f8"), (1000, 300))
    with einloom.options(small=math.inf):
        kernel, out, bound = bound_of("dot_general", attrs, spec, spec)
    x = np.ones(spec.shape)
    assert peak(lambda: kernel(x, x, out=out)) <= bound
    assert np.array_equal(out, np.full(300, 1000))


def test_one_element_of_any_kind() -> None:
    """An operand all of whose axes are contracted, with one element, stays an array."""
    spec = ArraySpec(np.dtype(object), (1,))
    kernel, out, _ = bound_of(
        "dot_general", {"batch": ((), ()), "contracting": ((0,), (0,))}, spec, spec
    )
    large = np.array([2**40], object)
    assert kernel(large, large, out=out)[()] == 2**80
    assert kernel(np.array(["ab"], object), np.array([2], object))[()] == "abab"


def test_results_are_arrays_of_their_own(rng: np.random.Generator) -> None:
    x = rng.standard_normal((64, 12))
    for _ in range(3):
        assert einloom.einsum("ab->b", x).flags.owndata


@pytest.mark.slow
def test_wrap_around(rng: np.random.Generator) -> None:
    """Of integers that are added up as they are read, by a kernel, wherever they lie."""
    dtype = np.dtype("u1")
    whole = rng.integers(0, 255, (70, 130, 90), dtype, endpoint=True)
    vector = rng.integers(0, 255, (130, 90), dtype, endpoint=True)
    for x in (whole, whole[::-1, :, ::-1], np.asfortranarray(whole)):
        for equation in ("abc,bc->a", "abc,bc->c"):
            found = einloom.compile(equation, x, vector)(x, vector)
            assert found.dtype == dtype
            assert np.array_equal(found, np.einsum(equation, x, vector))
