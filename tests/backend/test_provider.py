"""Who multiplies matrices belongs to an instance of the backend: BLAS, or kernels of einloom's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.tolerance import assert_close, tolerance

import einloom
from einloom._base.errors import OptionError
from einloom._base.options import get_options, options
from einloom.backend.cpu import cpu, gemm_batch, matrices, sharing
from einloom.backend.cpu.backend import CpuBackend
from einloom.backend.spec import ArraySpec

NATIVE = cpu(provider="native")
CALLS = {
    # shapes, contracting, batch; what runs real and complex numbers where kernels may be compiled
    "matrices": ((40, 50), (50, 60), ((1,), (0,)), ((), ()), ("blocked", "loops")),
    "batch": ((3, 20, 30), (3, 30, 40), ((2,), (1,)), ((0,), (0,)), ("blocked", "loops")),
    "tiny": ((50, 2, 3), (50, 3, 2), ((2,), (1,)), ((0,), (0,)), ("loops", "loops")),
    "vectors": ((5000,), (5000,), ((0,), (0,)), ((), ()), ("blocked", "sum product")),
    "rows": ((50, 13), (50, 13), ((1,), (1,)), ((0,), (0,)), ("dots", "dots")),
    "outer": ((30,), (40,), ((), ()), ((), ()), ("multiply", "multiply")),
    "empty": ((3, 0), (0, 4), ((1,), (0,)), ((), ()), ("zeros", "zeros")),
}


@pytest.fixture
def no_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to BLAS is an error."""

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("BLAS is called")

    monkeypatch.setattr(sharing, "_matmul", refuse)
    monkeypatch.setattr(matrices, "_dot", refuse)
    binders = ("_bind_plain", "_bind_rows", "_bind_short_rows", "_bind_one", "_bind_loops")
    for binder in (*binders, "bind_element_by_element"):
        monkeypatch.setattr(matrices, binder, refuse)
    monkeypatch.setattr(gemm_batch, "BLAS", frozenset())


def operands(name: str, dtype: str, rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    *shapes, contracting, batch, _ = CALLS[name]
    x, y = (rng.standard_normal(shape) + 0.5j * rng.random(shape) for shape in shapes)
    if np.dtype(dtype).kind != "c":
        x, y = x.real, y.real
    return x.astype(dtype), y.astype(dtype), {"contracting": contracting, "batch": batch}


def test_rows_that_are_none_call_no_blas(no_blas: None, rng: np.random.Generator) -> None:
    """Arrays need not lie as specs that name no order have it."""
    x, y, attrs = operands("rows", "float64", rng)
    with options(small=0):
        found = NATIVE.apply("dot_general", attrs, np.asfortranarray(x), y)
    np.testing.assert_allclose(found, (x * y).sum(1), rtol=1e-12, atol=1e-12)


COMPILED = [("float64", 0), ("complex128", 0)]
PLAIN = [
    (d, s) for d in ("float32", "float64", "complex64", "complex128") for s in (None, math.inf)
]
SLOW = [(d, 0) for d in ("float32", "complex64", "float16")]


@pytest.mark.parametrize(
    ("dtype", "small"),
    [*COMPILED, *PLAIN, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)],
)
def test_products_agree_and_call_no_blas(
    dtype: str, small: float | None, no_blas: None, rng: np.random.Generator
) -> None:
    for name, (*_, rungs) in CALLS.items():
        x, y, attrs = operands(name, dtype, rng)
        inputs = ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape)
        with options() if small is None else options(small=small):
            found = NATIVE.apply("dot_general", attrs, x, y)
            engine = NATIVE.engine("dot_general", attrs, inputs)
        terms = max(1, x.size)
        want = summed(x, y, attrs)
        scale = summed(abs(x), abs(y), attrs)
        assert_close(found, want, scale, tolerance(dtype, terms, 2))
        if small == 0 and dtype != "float16":
            assert engine == rungs[x.dtype.kind == "c"], name
        if small == math.inf and engine not in ("zeros", "multiply"):
            assert engine == "sum product", name


def summed(x: Any, y: Any, attrs: dict[str, Any]) -> Any:
    """By broadcasting: batch, free axes of x, free axes of y, and the sum over the contracted ones."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    (of_x, of_y), (batch_x, batch_y) = attrs["contracting"], attrs["batch"]
    free_x = [k for k in range(x.ndim) if k not in (*of_x, *batch_x)]
    free_y = [k for k in range(y.ndim) if k not in (*of_y, *batch_y)]
    x = x.astype(wide).transpose(*batch_x, *free_x, *of_x)
    y = y.astype(wide).transpose(*batch_y, *free_y, *of_y)
    b, c = len(batch_x), len(of_x)
    x = x.reshape(*x.shape[: x.ndim - c], *(1 for _ in free_y), *x.shape[x.ndim - c :])
    y = y.reshape(*y.shape[:b], *(1 for _ in free_x), *y.shape[b:])
    return (x * y).sum(axis=tuple(range(x.ndim - c, x.ndim)))


def test_a_real_operand_beside_a_complex_one(no_blas: None, rng: np.random.Generator) -> None:
    x, y = rng.random((30, 40)), rng.random((40, 20)) + 1j * rng.random((40, 20))
    attrs = {"contracting": ((1,), (0,)), "batch": ((), ())}
    for a, b in ((x, y), (y.T, x.T)):
        for small in (0, math.inf):
            with options(small=small):
                found = NATIVE.apply("dot_general", attrs, a, b)
            scale = summed(abs(a), abs(b), attrs)
            assert_close(
                found, summed(a + 0j, b + 0j, attrs), scale, tolerance("complex128", 40, 2)
            )


def test_a_batch_of_products(no_blas: None, rng: np.random.Generator) -> None:
    pairs = [(rng.random((n, n)), rng.random((n, n))) for n in (3, 40)]
    want = [(a[:, :, None] * b[None]).sum(axis=1) for a, b in pairs]
    work = [a.size * b.shape[1] for a, b in pairs]
    for small in (0, math.inf):
        with options(small=small):
            for got, total in zip(NATIVE.gemm_batch(pairs, work), want, strict=True):
                np.testing.assert_allclose(got, total, rtol=1e-12)
            out = [np.ones_like(total) for total in want]
            NATIVE.gemm_batch(pairs, work, out, [(0,), (1,)], 1, 1)
            for got, total in zip(out, want, strict=True):
                np.testing.assert_allclose(got, total + 1, rtol=1e-12)


def test_programs_and_einsum(no_blas: None, rng: np.random.Generator) -> None:
    """The option sets that of the default instance; what was compiled for another is not used again."""
    x, y, z = rng.random((3, 20, 20))
    want = (((x[:, :, None] * y).sum(axis=1))[:, :, None] * z).sum(axis=1)
    with pytest.raises(AssertionError, match="BLAS is called"):
        einloom.einsum("ij,jk,kl->il", x, y, z)
    with options(provider="native"):
        np.testing.assert_allclose(einloom.einsum("ij,jk,kl->il", x, y, z), want, rtol=1e-12)
    with pytest.raises(AssertionError, match="BLAS is called"):
        einloom.einsum("ij,jk,kl->il", x, y, z)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_plain_takes_no_kernels(dtype: str) -> None:
    """Loops, strips and blocks are for others; products without sums are the same everywhere."""
    plain = cpu(provider="plain")

    def engines(contracting: Any, batch: Any, *shapes: Any) -> tuple[str, str]:
        attrs = {"contracting": contracting, "batch": batch}
        specs = tuple(ArraySpec(np.dtype(dtype), shape) for shape in shapes)
        return tuple(one.engine("dot_general", attrs, specs) for one in (cpu(), plain))  # type: ignore[return-value]

    some = [
        engines(((2,), (1,)), ((0,), (0,)), (90000, 3, 3), (90000, 3, 3)),
        engines(((0,), (0,)), ((), ()), (800, 17), (800, 900)),
        engines(((), ()), ((), ()), (800,), (900,)),
        engines(((1,), (0,)), ((), ()), (700, 700), (700, 700)),
    ]
    assert {one for _, one in some} == {"batched gemm", "gemm", "multiply"}
    assert some[0] == ("loops" if dtype[0] == "c" else "batched gemm", "batched gemm")


def test_plain_einsum_is_right(rng: np.random.Generator) -> None:
    x, y = rng.random((9000, 4, 4)), rng.random((9000, 4, 4))
    with options(provider="plain"):
        np.testing.assert_allclose(einloom.einsum("bij,bjk,bkl->bil", x, y, x), x @ y @ x)


def test_instances() -> None:
    assert cpu() is cpu(None, None)
    assert (NATIVE.provider, NATIVE.threads, cpu().provider) == ("native", None, None)
    both = cpu(threads=3, provider="native")
    assert (both.threads, both.provider) == (3, "native")
    assert repr(both) == "cpu(threads=3, provider='native')"
    assert both.alone().provider == "native"
    with both.session(threads=2) as inside:
        assert (inside.threads, inside.provider) == (2, "native")
    with options(provider="native"), cpu(provider="blas").session() as inside:
        assert inside.provider == "blas"
        specs = (ArraySpec(np.dtype("f8"), (9, 9)),) * 2
        assert inside.engine("matmul", {}, specs) == "gemm"
        assert cpu().engine("matmul", {}, specs) == "sum product"
    assert get_options().provider == "blas"


@pytest.mark.parametrize("provider", ["", "BLAS", "mkl", 1, True, ("blas",)])
def test_another_provider_is_refused(provider: Any) -> None:
    with pytest.raises(OptionError, match=r"provider=.*: give one of blas, native"):
        CpuBackend(provider=provider)
    with pytest.raises(OptionError, match=r"provider=.*: give one of blas, native"):
        options(provider=provider).__enter__()
