"""Products without sums: the lines of their results, and results in every order of the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import options
from einloom.backend.cpu import cpu, fused
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.outer import ENOUGH, LITTLE, Lines, lines_of
from einloom.backend.spec import ArraySpec

A, B, C, D = range(4)
SOME = ["f4", "c8", "i8", "i4", "u2", "b", "?"]


@pytest.mark.parametrize(
    ("sizes", "lhs", "rhs", "out", "expected"),
    [
        ((90, 70), (A,), (B,), (A, B), Lines(70, 1)),
        ((90, 70), (A,), (B,), (B, A), Lines(90, 1)),
        ((90, 70), (A, B), (A, B), (A, B), Lines(6300, 2)),
        ((90, 70), (A, B), (A, B), (B, A), Lines(1)),  # both lie across, and are not little
        ((90, 70), (A, B), (), (A, B), Lines(6300, 2)),  # a single number
        ((9, 70), (A,), (B,), (A, B), Lines(70, 1)),
        # little operands: one that lies across, one that is repeated
        ((20, 30, 40), (B, A), (C, A), (C, B, A), Lines(20, 1)),
        ((200, 9, 30, 4), (A, C), (B, D), (A, B, C, D), Lines(120, 2, (True, True), 25080)),
        ((20, 9, 30, 4), (A, C), (B, D), (A, B, C, D), Lines(4, 1)),
        ((50, 40, 5, 60), (D, C), (A, B), (A, B, C, D), Lines(300, 2, (True, False), 300)),
        ((400, 40, 5), (A,), (C, B), (A, B, C), Lines(200, 2, (False, True), 200)),
        ((4, 4, 5), (A,), (C, B), (A, B, C), Lines(1)),  # too small to matter
    ],
)
def test_lines(sizes: Any, lhs: Any, rhs: Any, out: Any, expected: Lines) -> None:
    assert lines_of(dict(enumerate(sizes)), lhs, rhs, out) == expected


def test_what_copies_may_be(rng: np.random.Generator) -> None:
    """They are little, and lines longer by them; a line is one piece of each operand, or one number of it."""
    seen = 0
    for _ in range(2000):
        sizes, lhs, rhs, out = random_case(rng)
        found = lines_of(sizes, lhs, rhs, out)
        line = out[len(out) - found.axes :]
        assert found.length == math.prod(sizes[x] for x in line)
        for order, is_copied in zip((lhs, rhs), found.copied, strict=True):
            own = tuple(x for x in order if x in line)
            assert is_copied or not own or order[-len(line) :] == line
        assert LITTLE * found.elements <= math.prod(sizes.values())
        if any(found.copied):
            seen += 1
            fewer = out[len(out) - found.axes + 1 :]
            assert math.prod(sizes[x] for x in fewer) < ENOUGH
    assert seen > 50


def random_case(rng: np.random.Generator) -> tuple[dict[int, int], Any, Any, Any]:
    n = int(rng.integers(1, 5))
    sizes = {x: int(rng.integers(1, [200, 60, 30, 14][n - 1])) for x in range(n)}
    roles = rng.integers(0, 3, n)  # shared, of lhs, of rhs
    shuffled = [int(x) for x in rng.permutation(n)]
    lhs = tuple(x for x in shuffled if roles[x] != 2)
    rhs = tuple(int(x) for x in rng.permutation(n) if roles[x] != 1)
    return sizes, lhs, rhs, tuple(int(x) for x in rng.permutation(n))


@pytest.mark.parametrize("small", [None, 0, math.inf], ids=["default", "kernels", "no kernels"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "?"])
def test_random_products(dtype: str, small: float | None, rng: np.random.Generator) -> None:
    letters = "abcd"
    changes = {} if small is None else {"small": small}
    for _ in range(10):
        sizes, *orders = random_case(rng)
        terms = ["".join(letters[x] for x in order) for order in orders]
        x, y = (
            rng.integers(-4, 5, [sizes[k] for k in order]).astype(dtype) for order in orders[:2]
        )
        equation = f"{terms[0]},{terms[1]}->{terms[2]}"
        want = np.einsum(equation, x, y)
        with options(**changes):
            for order in "KC":
                got = einloom.compile(equation, x, y, order=order)(x, y)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want, err_msg=f"{equation} {sizes}")
            np.testing.assert_array_equal(einloom.einsum(equation, x, y), want)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_every_order_of_the_result(dtype: str, rng: np.random.Generator) -> None:
    """Operands that are repeated and copied, and such as lie backwards or apart."""
    x = rng.random((40, 5)).astype(dtype)[::-1]  # b, c
    y = np.repeat(rng.random((7, 30)), 2, axis=1)[:, ::2].astype(dtype)  # d, a
    attrs = {"batch": ((), ()), "contracting": ((), ())}
    want = np.multiply.outer(x, y)
    specs = tuple(ArraySpec(z.dtype, z.shape) for z in (x, y))
    for layout in permutations(range(4)):
        made = ArraySpec(want.dtype, want.shape, layout)
        kernel = cpu().bind("dot_general", attrs, specs, (made,))
        got = kernel(x, y)
        np.testing.assert_allclose(got, want, rtol=1e-15)
        assert got.transpose(layout).flags.c_contiguous
        out = np.zeros(want.shape[::-1], want.dtype).T
        assert kernel(x, y, out=out) is out
        np.testing.assert_allclose(out, want, rtol=1e-15)


@pytest.mark.parametrize(
    "dtype", ["f8", "c16", *(pytest.param(x, marks=pytest.mark.slow) for x in SOME)]
)
def test_results_past_the_caches(dtype: str, rng: np.random.Generator) -> None:
    """Rows that begin and end anywhere in a cache line, of less than a line and of one, and in addresses
    between elements; nothing beside them is written."""
    with _past_the_caches() as kernels, options(small=0):
        for lhs, rhs, out in (("i", "j", "ij"), ("i", "j", "ji"), ("ai", "aj", "aij")):
            for n_i, n_j in ((3, 2500), (70, 61), (40, 9), (40, 16), (9, 8), (64, 64)):
                sizes = {"a": 3, "i": n_i, "j": n_j}
                x, y = (
                    rng.integers(-4, 5, [sizes[k] for k in term]).astype(dtype)
                    for term in (lhs, rhs)
                )
                equation = f"{lhs},{rhs}->{out}"
                want = np.einsum(equation, x, y)
                run = einloom.compile(equation, x, y, order="C")
                np.testing.assert_array_equal(run(x, y), want)
                room = np.full(want.nbytes + 256, 77, np.uint8)
                for offset in (64, 64 + want.itemsize, 64 + want.itemsize // 2):
                    room[...] = 77
                    start = -room.ctypes.data % 64 + offset
                    target = room[start : start + want.nbytes].view(dtype).reshape(want.shape)
                    np.testing.assert_array_equal(run(x, y, out=target), want)
                    assert (room[:start] == 77).all()
                    assert (room[start + want.nbytes :] == 77).all()
    assert any(kernels) == (dtype != "?")


def test_several_results_past_the_caches(rng: np.random.Generator) -> None:
    """Of two sizes of elements; and one over what is read."""
    z = ArraySpec(np.dtype("f8"), (50, 77))
    steps = (
        FusionStep("multiply", (0, 1)),
        FusionStep("cast", (2,), {"dtype": "float32"}),
    )
    with _past_the_caches() as kernels, options(small=0):
        both = cpu().fuse(ElementwiseFusionPlan((z, z), steps, (2, 3)))
        over = cpu().fuse(ElementwiseFusionPlan((z, z), (FusionStep("multiply", (0, 1)),), (2,)))
        assert both is not None
        assert over is not None
        left, right = rng.random((50, 1)), rng.random((1, 77))
        product, rounded = both(left, right)
        np.testing.assert_array_equal(product, left * right)
        np.testing.assert_array_equal(rounded, (left * right).astype("f4"))
        want = product * right
        assert over(product, right, out=product) is product
        np.testing.assert_array_equal(product, want)
    assert len(kernels) == 2
    assert all(kernels)


@contextmanager
def _past_the_caches() -> Iterator[list[bool]]:
    """Whatever the sizes, but for truth values; gives whether each kernel that is made writes so."""
    made: list[bool] = []
    text = fused.elementwise_source

    def source(body: Any, pattern: str, streams: bool) -> str:
        made.append(streams)
        found = text(body, pattern, streams)
        assert ("stream_line" in found) == streams
        return found

    def are_streamed(shape: Any, strides: Any, dtypes: Any, outputs: int) -> bool:
        return all(dtype.kind != "b" for dtype in dtypes[:outputs])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "ROW", 0)
        patch.setattr(fused, "_are_streamed", are_streamed)
        patch.setattr(fused, "elementwise_source", source)
        yield made


@pytest.mark.parametrize(
    ("operands", "dtype", "expected"),
    [
        (((-1, 1), (1, -1)), "f8", True),
        (((-1, 1), (-1, -1)), "f8", False),  # as much is read
        (((-1, 1), (1, -1)), "?", False),  # no lines of such are stored
        (((-1, 1), (1, 8)), "f8", False),  # a cache may hold it
    ],
)
def test_what_goes_past_the_caches(operands: Any, dtype: str, expected: bool) -> None:
    n = math.isqrt(fused.STREAMED // np.dtype(dtype).itemsize) + 1
    shape = tuple(max(n if k < 0 else k for k in sizes) for sizes in zip(*operands, strict=True))
    strides = [[0 if k == 1 else 1 for k in sizes] for sizes in (shape, *operands)]
    dtypes = [np.dtype(dtype)] * 3
    assert fused._are_streamed(shape, strides, dtypes, 1) is expected


def test_complex_kernels_come_only_where_they_are_asked_for(rng: np.random.Generator) -> None:
    """They round otherwise: `einsum` has them once as much was lost as loading takes."""
    x = rng.random(500) + 1j * rng.random(500)
    attrs = {"batch": ((), ()), "contracting": ((), ())}
    specs = (ArraySpec(x.dtype, x.shape),) * 2
    made = ArraySpec(x.dtype, (500, 500))
    with options(small=1 << 17, patience=0):
        assert cpu().uses_threads("dot_general", attrs, specs, (made,))
        with options(provider="plain"):
            assert not cpu().uses_threads("dot_general", attrs, specs, (made,))
            plain = cpu().bind("dot_general", attrs, specs, (made,))(x, x)
    assert np.array_equal(plain, np.multiply.outer(x, x))
