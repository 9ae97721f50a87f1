"""The ladder of `dot_general`: every rung is taken, and all rungs agree (see test_conformance too)."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from tests.backend.calls import Call, dot, operands
from tests.tolerance import assert_close, tolerance

from einloom._base.errors import ProgramError
from einloom._base.options import ENGINES, options
from einloom.backend.catalogue import dot_dims, known_dims
from einloom.backend.cpu import cpu
from einloom.backend.cpu.contraction import Engine
from einloom.backend.spec import compute_dtype, dtype_from_name

BACKEND = cpu()
DTYPES = sorted(BACKEND.capabilities()["dot_general"])
COMPILED = {
    *("float32", "float64", "complex64", "complex128"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
BLAS = {"float32", "float64", "complex64", "complex128"}
HALF = {"float16", "bfloat16"}
SIBLINGS = {
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "complex64",
}  # of others in every way but their kernels
SMALL = {"kernels forced": 0, "as shipped": None, "kernels forbidden": math.inf}
SETTINGS: list[dict[str, Any]] = [
    *({"small": value} for value in (0, math.inf)),
    *({"engine": name} for name in ENGINES),
    {},
]


def engine(call: Call, name: str) -> str:
    dtype = dtype_from_name(name)
    return BACKEND.engine("dot_general", call.attrs, call.specs(dtype))


def small(value: float | None) -> Any:
    return options() if value is None else options(small=value)


LADDER: list[tuple[str, Call, dict[str, str]]] = [
    # what, call, rung by (kind of dtype and small)
    ("empty", dot((0, 2), (2, 3), contracting=((1,), (0,))), {"any": "zeros"}),
    ("empty batch", dot((0, 2), (0, 3), ((0,), (0,))), {"any": "zeros"}),
    (
        "one matrix product",
        dot((20, 30), (30, 40), contracting=((1,), (0,))),
        {
            "blas": "gemm",
            "half": "gemm",
            "compiled 0": "blocked",
            "compiled inf": "matmul",
            "bool 0": "blocked",
            "bool inf": "matmul",
            "other": "matmul",
        },
    ),
    (
        "one thin matrix product",
        dot((4, 30), (30, 40), contracting=((1,), (0,))),
        {"half": "gemm", "compiled 0": "loops", "compiled inf": "matmul", "bool 0": "blocked"},
    ),
    (
        "one large matrix product",
        dot((128, 128), (128, 128), contracting=((1,), (0,))),
        {"blas": "gemm", "half 0": "blocked", "half inf": "gemm", "compiled 0": "blocked"},
    ),
    (
        "outer product",
        dot((3, 4), (5,)),
        {"any": "multiply"},
    ),
    (
        "many tiny matrices",
        dot((50, 2, 3), (50, 3, 2), ((0,), (0,)), ((2,), (1,))),
        {
            "blas 0": "loops",
            "blas inf": "batched gemm",
            "half inf": "batched gemm",
            "half 0": "loops",
            "compiled 0": "loops",
            "bool": "matmul",
            "other": "matmul",
        },
    ),
    (
        "large matrices in a batch",
        dot((2, 20, 30), (2, 30, 20), ((0,), (0,)), ((2,), (1,))),
        {"blas": "batched gemm", "half": "batched gemm", "compiled 0": "blocked"},
    ),
    (
        "more contracted elements than the kernel takes",
        dot((2, 5000), (5000, 2), contracting=((1,), (0,))),
        {"compiled": "matmul", "blas": "gemm", "half": "gemm", "bool": "matmul", "other": "matmul"},
    ),
    (
        "few rows, and much work",
        dot((20, 400), (400, 1000), contracting=((1,), (0,))),
        {
            "blas 0": "strips",
            **dict.fromkeys(("blas inf", "half inf"), "gemm"),
        },
    ),
    (
        "contracted axes apart in both operands",
        dot((4, 96, 256), (4, 96, 256), contracting=((0, 2), (0, 2))),
        {
            "blas 0": "strips",
            "compiled 0": "blocked",
            **dict.fromkeys(("blas inf", "half inf"), "gemm"),
        },
    ),
    (
        "a vector, contracted axes apart",
        dot((60, 60, 60, 60), (60, 60), contracting=((1, 3), (0, 1))),
        {
            **dict.fromkeys(("blas 0", "half 0"), "sums"),
            **dict.fromkeys(("blas inf", "half inf"), "gemm"),
            "compiled 0": "sums",
            "compiled inf": "matmul",
            "bool 0": "blocked",
        },
    ),
    (
        "many vectors",
        dot((60, 50, 40), (60, 40), ((0,), (0,)), ((2,), (1,))),
        {"compiled 0": "sums", "bool 0": "sums", "bool inf": "matmul"},
    ),
    (
        "many pairs of vectors",
        dot((60, 40), (60, 40), ((0,), (0,)), ((1,), (1,))),
        {
            **dict.fromkeys(("blas 0", "half 0"), "dots"),
            **dict.fromkeys(("blas inf", "half inf"), "batched gemm"),
            "compiled 0": "sums",
            "bool 0": "sums",
            **dict.fromkeys(("compiled inf", "bool inf", "other"), "matmul"),
        },
    ),
]


def kind_of(name: str) -> str:
    kinds = {"blas": BLAS, "half": HALF, "compiled": COMPILED - BLAS, "bool": {"bool"}}
    return next((kind for kind, names in kinds.items() if name in names), "other")


def test_ladder() -> None:
    """The rung depends on sizes, dtype and the option `small`, and each rung is reached."""
    seen = set()
    for what, call, rungs in LADDER:
        for name in DTYPES:
            kind = kind_of(name)
            for text, value in (("0", 0), ("inf", math.inf)):
                with options(small=value):
                    got = engine(call, name)
                seen.add(got)
                for key in ("any", kind, f"{kind} {text}", name, f"{name} {text}"):
                    assert rungs.get(key, got) == got, f"{what}, {name}, small={text}"
                if text == "inf":
                    assert got not in ("loops", "blocked", "strips", "dots")
    # which reads results whose batches lie last: see test_lines.py
    assert seen == {*get_args(Engine)} - {"sum product", "lines"}


ASKED: dict[str, dict[str, tuple[str, ...]]] = {
    # engine that is asked for: by dtype or its kind, what runs each call of LADDER but the empty ones;
    # "" and kinds that are not here: the ladder's own choice
    "multiply": {"any": ("", "", "", "multiply", *("",) * 8)},
    "gemm": dict.fromkeys(("blas", "half"), (*("gemm",) * 4, "", "", *("gemm",) * 4, "", "")),
    "batched gemm": dict.fromkeys(
        ("blas", "half"), (*("",) * 4, *("batched gemm",) * 2, *("",) * 4, *("batched gemm",) * 2)
    ),
    "matmul": dict.fromkeys(("compiled", "bool", "other"), ("matmul",) * 12),
    "loops": dict.fromkeys(("compiled", "blas", "half"), (*("loops",) * 6, "", *("loops",) * 5)),
    "blocked": dict.fromkeys(("compiled", "bool", "half", "float32", "float64"), ("blocked",) * 12),
    "strips": dict.fromkeys(("half", "blas"), ("strips",) * 12),
    "sums": dict.fromkeys(("half", "blas", "compiled", "bool"), (*("",) * 9, *("sums",) * 3)),
    "dots": dict.fromkeys(("half", "blas"), (*("",) * 11, "dots")),
    "lines": dict.fromkeys(
        ("blas", "half"), (*("",) * 4, *("lines",) * 2, *("",) * 4, *("lines",) * 2)
    ),
    "sum product": {"any": ("sum product",) * 12},
    "lanes": {},
    "sequence": {},
}


@pytest.mark.parametrize("asked", ENGINES)
def test_an_engine_that_is_asked_for_runs_what_it_can(asked: str) -> None:
    """What it cannot run, the ladder runs."""
    rows = [(what, call) for what, call, rungs in LADDER if rungs != {"any": "zeros"}]
    for name in DTYPES:
        by_kind = ASKED[asked]
        keys = ("any", name, kind_of(name))
        rungs = next((by_kind[key] for key in keys if key in by_kind), ("",) * len(rows))
        for (what, call), rung in zip(rows, rungs, strict=True):
            with options(small=math.inf):
                own = engine(call, name)
            with options(small=math.inf, engine=asked):
                assert engine(call, name) == (rung or own), f"{what}, {name}"


def test_engines_have_one_list_of_names() -> None:
    of_many = {"lanes", "sequence"}  # no rungs of one product
    assert {*ENGINES} == {*get_args(Engine)} - {"zeros"} | of_many


def test_small_is_a_number_of_multiplications() -> None:
    call = dot((50, 2, 3), (50, 3, 20), ((0,), (0,)), ((2,), (1,)))
    with options(small=6000):
        assert engine(call, "int64") == "loops"
    with options(small=6001):
        assert engine(call, "int64") == "matmul"


@pytest.mark.parametrize(
    "name",
    [
        # halves have kernels of their own for each engine, which take long to compile
        pytest.param(x, marks=pytest.mark.slow) if x in {*SIBLINGS, "bfloat16", "float16"} else x
        for x in DTYPES
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        dot((4, 17, 30), (4, 30, 13), ((0,), (0,)), ((2,), (1,))),
        dot((300, 2, 3), (300, 3, 2), ((0,), (0,)), ((2,), (1,))),
        dot((40, 30), (30, 50), contracting=((1,), (0,))),
        dot((300, 7), (7, 300), ((0,), (1,)), ((1,), (0,))),
        dot((7, 40), (7, 50), ((0,), (0,))),
    ],
    ids=str,
)
def test_engines_agree(call: Call, name: str, rng: np.random.Generator) -> None:
    """Sizes for which the rungs differ: against a sum over an axis of all products."""
    dtype = dtype_from_name(name)
    lhs, rhs = operands(call, dtype, "C", rng)
    output = call.output(dtype)
    dims = dot_dims(call.attrs, lhs.shape, rhs.shape)
    wide = compute_dtype(dtype)
    left = lhs.astype(wide).transpose(dims.lhs_batch + dims.lhs_free + dims.lhs_contracting)
    right = rhs.astype(wide).transpose(dims.rhs_batch + dims.rhs_free + dims.rhs_contracting)
    products = left.reshape(dims.batch, dims.m, 1, dims.k) * right.reshape(
        dims.batch, 1, dims.n, dims.k
    )
    want = products.sum(axis=-1, dtype=wide).reshape(output.shape)
    scale = abs(products).sum(axis=-1).reshape(output.shape) if wide.kind in "fc" else 1
    for settings in SETTINGS:
        with options(**settings):
            got = BACKEND.apply("dot_general", call.attrs, lhs, rhs)
        if wide.kind in "fc":
            assert_close(got, want, scale, 2 * tolerance(dtype, dims.k, 2, wide))
        else:
            np.testing.assert_array_equal(got, want)


def test_booleans_are_or_of_and(rng: np.random.Generator) -> None:
    """A count of 256 true products is true, not 0."""
    ones = np.ones((256,), bool)
    for value in SMALL.values():
        with small(value):
            attrs = {"batch": ((), ()), "contracting": ((0,), (0,))}
            assert BACKEND.apply("dot_general", attrs, ones, ones)[()] == np.True_
            assert BACKEND.apply("dot_general", attrs, ones, ~ones)[()] == np.False_


def test_nan_and_infinity_reach_the_result() -> None:
    x = np.array([[np.nan, 1.0], [np.inf, 1.0], [2.0, 1.0]])
    y = np.array([[1.0, 1.0], [1.0, 0.0]])
    for value in SMALL.values():
        with small(value), np.errstate(invalid="ignore"):
            attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
            got = BACKEND.apply("dot_general", attrs, x, y)
            np.testing.assert_array_equal(got, [[np.nan, np.nan], [np.inf, np.inf], [3.0, 2.0]])
            attrs = {"batch": ((0,), (0,)), "contracting": ((1,), (1,))}
            got = BACKEND.apply("dot_general", attrs, x[:, :, None], y[[0, 1, 0]][:, :, None])
            np.testing.assert_array_equal(got[:, 0, 0], [np.nan, np.inf, 3.0])


def test_more_axes_than_one_kind_of_matrix(rng: np.random.Generator) -> None:
    """Twenty axes of size 2, in scrambled order."""
    lhs, rhs = (tuple(int(i) for i in rng.permutation(12)) for _ in range(2))
    call = dot((2,) * 12, (2,) * 12, (lhs[:4], rhs[:4]), (lhs[4:8], rhs[4:8]))
    x, y = operands(call, "int64", "transposed", rng)
    left = x.transpose(lhs[:4] + tuple(sorted(lhs[8:])) + lhs[4:8]).reshape(16, 16, 16)
    right = y.transpose(rhs[:4] + rhs[4:8] + tuple(sorted(rhs[8:]))).reshape(16, 16, 16)
    for value in SMALL.values():
        with small(value):
            got = BACKEND.apply("dot_general", call.attrs, x, y)
        assert got.shape == (2,) * 12
        np.testing.assert_array_equal(got.reshape(16, 16, 16), left @ right)


def test_trailing_batches_of_column_major_arrays_are_the_mirror_image(
    rng: np.random.Generator,
) -> None:
    """out[lhs free, rhs free, batch] in column-major memory: all axes reversed, operands exchanged."""
    lhs = np.asarray(rng.random((2, 3, 4, 5)), order="F")  # p, q, k, b
    rhs = np.asarray(rng.random((4, 6, 5)), order="F")  # k, n, b
    attrs = {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}
    mirrored = BACKEND.apply("dot_general", attrs, rhs.T, lhs.T).T
    np.testing.assert_allclose(mirrored, np.einsum("pqkb,knb->pqnb", lhs, rhs), rtol=1e-14)
    assert mirrored.flags.f_contiguous
    assert all(mirrored[..., k].flags.f_contiguous for k in range(5))


def test_known_axes_are_those_that_were_sorted() -> None:
    attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    shapes = (7, 2, 3), (7, 3, 5)
    assert known_dims(attrs, *shapes) == dot_dims(attrs, *shapes)
    assert known_dims(attrs, *shapes) is known_dims(dict(attrs), *shapes)
    listed = {"contracting": ([2], [1]), "batch": ([0], [0])}
    with pytest.raises(ProgramError):
        known_dims(listed, *shapes)
