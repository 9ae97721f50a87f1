"""Functions of linalg inside `trace`: one program with one memory plan, for sizes known later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import adjoint, draw

import einloom
from einloom import linalg
from einloom._base.errors import EinloomError
from einloom.backend.cpu import cpu
from einloom.backend.spec import ArraySpec
from einloom.program.executable import Executable
from einloom.program.extension import family_of
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.schedule import schedule
from einloom.program.verify import verify

Fn = Callable[..., Any]

ONE: dict[str, Fn] = {
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "cholesky": linalg.cholesky,
    "cholesky upper": lambda a: linalg.cholesky(a, upper=True),
    "lu": linalg.lu,
    "lu_factor": linalg.lu_factor,
    "full_piv_lu": linalg.full_piv_lu,
    "qr": linalg.qr,
    "qr complete": lambda a: linalg.qr(a, "complete"),
    "qr r": lambda a: linalg.qr(a, "r"),
    "qr raw": lambda a: linalg.qr(a, "raw"),
    "svd": linalg.svd,
    "svd reduced": lambda a: linalg.svd(a, full_matrices=False),
    "svdvals": lambda a: linalg.svdvals(a),
    "eigh": linalg.eigh,
    "eigvalsh": lambda a: linalg.eigvalsh(a, "U"),
    "eig": linalg.eig,
    "eigvals": linalg.eigvals,
    "pinv": lambda a: linalg.pinv(a, rcond=1e-10),
    "lu permuted": lambda a: linalg.lu(a, permute_l=True),
    "lu indices": lambda a: linalg.lu(a, p_indices=True),
    "svd hermitian": lambda a: linalg.svd(a, hermitian=True),
    "svdvals hermitian": lambda a: linalg.svd(a, compute_uv=False, hermitian=True),
    "matrix_norm": linalg.matrix_norm,
    "matrix_norm nuc": lambda a: linalg.matrix_norm(a, ord="nuc", keepdims=True),
    "norm 1": lambda a: linalg.norm(a, 1, (-2, -1)),
    "norm of all": lambda a: linalg.norm(a),
    "norm along": lambda a: linalg.norm(a, np.inf, -1, keepdims=True),
    "norm 2": lambda a: linalg.norm(a, 2, (-1, -2)),
    "vector_norm": lambda a: linalg.vector_norm(a, axis=(-1, 0)),
    "vector_norm of all": lambda a: linalg.vector_norm(a, ord=1, keepdims=True),
    "cond": linalg.cond,
    "cond fro": lambda a: linalg.cond(a, "fro"),
    "matrix_rank": linalg.matrix_rank,
    "matrix_rank tol": lambda a: linalg.matrix_rank(a, tol=5.0, hermitian=True),
    "multi_dot": lambda a: linalg.multi_dot([a, a, a]),
    "matrix_power": lambda a: linalg.matrix_power(a, -2),
    "matrix_transpose": lambda a: linalg.matrix_transpose(a) @ a,
    "matmul": lambda a: linalg.matmul(a, a),
}
TWO: dict[str, Fn] = {
    "solve": linalg.solve,
    "solve auto": lambda a, b: linalg.solve(a, b, assume_a="auto"),
    "solve banded": lambda a, b: linalg.solve(a, b, assume_a="banded"),
    "lstsq default": lambda a, b: linalg.lstsq(a, b),
    "solve positive": lambda a, b: linalg.solve(a, b, assume_a="pos"),
    "lu_solve": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, "T"),
    "cho_solve": lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b),
    "full_piv_lu_solve": lambda a, b: linalg.full_piv_lu_solve(linalg.full_piv_lu(a), b),
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, lower=True, trans="C"),
    "lstsq": lambda a, b: linalg.lstsq(a, b, rcond=1e-10),
}
SHAPES: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("[n,n]", (4, 4), (4, 2)),
    ("[z,n,n]", (3, 4, 4), (3, 4, 2)),
]


def flat(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def run(fn: Fn, specs: list[str], *arrays: np.ndarray) -> tuple[Program, tuple[Any, ...]]:
    """The program that was traced, and what it gives."""
    template = einloom.trace(fn, *specs)
    program = template.bind([x.shape for x in arrays])
    verify(program)
    return program, flat(Executable(program, cpu())(*arrays))


@pytest.mark.parametrize("spec", SHAPES, ids=lambda s: s[0])
@pytest.mark.parametrize("name", ONE | TWO)
def test_as_outside(rng: np.random.Generator, name: str, spec: tuple[str, Any, Any]) -> None:
    """The same arrays as a call with arrays, in the same order."""
    text, a_shape, b_shape = spec
    if name == "multi_dot" and len(a_shape) > 2:
        return
    for dtype in ("float64", "complex64"):
        a = draw(rng, a_shape, dtype)
        a = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
        if name in ONE:
            fn, given, specs = ONE[name], [a], [dtype + text]
        else:
            fn, given = TWO[name], [a, draw(rng, b_shape, dtype)]
            specs = [dtype + text, dtype + text.replace("n]", "k]")]
        _, got = run(fn, specs, *given)
        want = flat(fn(*given))
        assert len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            assert x.dtype == np.asarray(y).dtype
            if not name.startswith("lstsq"):
                assert x.shape == np.shape(y)
                np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_einsum_svd_einsum(rng: np.random.Generator) -> None:
    """A bond of a tensor network is cut: one program, one schedule, the product restored."""

    def split(x: Any, y: Any) -> Any:
        theta = einloom.einsum("aib,bjc->aijc", x, y)
        u, s, vh = linalg.svd(einloom.einsum("aijc->iajc", theta), full_matrices=False)
        return einloom.einsum("iajk,iak,iakc->iajc", u, s, vh)

    specs = ["complex128[a,i,b]", "complex128[b,j,c]"]
    template = einloom.trace(split, *specs, sizes={"a": 4, "i": 3, "b": 5, "j": 4, "c": 6})
    for shapes in (((4, 3, 5), (5, 4, 6)), ((2, 3, 1), (1, 7, 2))):
        x, y = (draw(rng, shape, "complex128") for shape in shapes)
        program = template.bind(shapes)
        verify(program)
        assert sum(ins.op.startswith("extension:linalg.svd") for ins in program.instructions) == 1
        plan = schedule(program, cpu())
        assert plan.peak_bytes is not None
        assert plan.peak_bytes > 0
        want = np.einsum("aib,bjc->iajc", x, y)
        for each in (program, optimise(program)):
            (got,) = flat(Executable(each, cpu())(x, y))
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_broadcast_and_promotion(rng: np.random.Generator) -> None:
    a = draw(rng, (4, 4), "float32") + 4 * np.eye(4, dtype="float32")
    b = draw(rng, (3, 4, 2), "complex128")
    _, (x,) = run(linalg.solve, ["float32[n,n]", "complex128[z,n,k]"], a, b)
    np.testing.assert_allclose(a @ x, b, atol=1e-10)
    _, (x,) = run(linalg.solve, ["float32[n,n]", "int64[n]"], a, np.arange(4))
    assert x.shape == (4,)
    np.testing.assert_allclose(a @ x, np.arange(4), atol=1e-6)


def test_failures_inside_a_program(rng: np.random.Generator) -> None:
    a = draw(rng, (3, 2, 2), "float64")
    a[1] = 0
    with pytest.raises(einloom.LinAlgError, match=r"inv: Singular matrix: 1 of 3.*at 1;") as caught:
        run(linalg.inv, ["float64[z,n,n]"], a)
    assert caught.value.failed == ((1,),)
    _, (x,) = run(lambda a: linalg.inv(a, on_error="nan"), ["float64[z,n,n]"], a)
    assert np.isnan(x).all(axis=(1, 2)).tolist() == [False, True, False]

    def with_codes(a: Any) -> Any:
        inverse, info = linalg.inv(a, on_error="info")
        return inverse, info

    _, (x, info) = run(with_codes, ["float64[z,n,n]"], a)
    assert info.dtype == np.int32
    assert info.tolist() == [0, 1, 0]
    a[1] = np.nan
    with pytest.raises(einloom.LinAlgError, match="infs or NaNs"):
        run(linalg.eig, ["float64[z,n,n]"], a)


def test_shapes_are_refused_when_traced() -> None:
    for fn, specs in (
        (linalg.inv, ["float64[2,3]"]),
        (linalg.inv, ["float64[3]"]),
        (linalg.solve, ["float64[3,3]", "float64[4]"]),
        (linalg.solve, ["float64[2,3,3]", "float64[4,3,1]"]),
        (linalg.cholesky, ["float16[3,3]"]),
        (lambda a: linalg.norm(a, 3), ["float64[3,3]"]),
        (lambda a: linalg.norm(a, axis=(0, 0)), ["float64[3,3]"]),
        (lambda a: linalg.cond(a, 1), ["float64[3,2]"]),
        (lambda a: linalg.matrix_rank(a, tol=np.ones(2)), ["float64[2,3,3]"]),
        (linalg.select, ["float64[3,3]"]),
        (linalg.factorize, ["float64[3,3]"]),
    ):
        with pytest.raises(EinloomError):
            einloom.trace(fn, *specs)


def test_rules_agree_with_runs(rng: np.random.Generator) -> None:
    """Every family declares what its runtime returns; a run checks it, for wide, tall and empty."""
    for shape in ((5, 3), (3, 5), (2, 0, 3), (0, 2, 2), (1, 4)):
        a = draw(rng, shape, "complex64")
        for name in (
            "svd",
            "svd reduced",
            "svdvals",
            "qr",
            "qr complete",
            "qr r",
            "qr raw",
            "lu",
            "pinv",
        ):
            run(ONE[name], [f"complex64[{','.join(map(str, shape))}]"], a)


def test_families_are_declared() -> None:
    spec = ArraySpec(np.dtype("float32"), (3, 3))
    for name in (
        "cholesky", "solve", "inv", "det", "slogdet", "lu", "lu_factor", "full_piv_lu", "eigh", "svd",
        "eig", "pinv",
    ):  # fmt: skip
        family = family_of(f"linalg.{name}.v1")
        operands = (spec, spec) if name == "solve" else (spec,)
        assert all(isinstance(out, ArraySpec) for out in family.infer({}, operands))
