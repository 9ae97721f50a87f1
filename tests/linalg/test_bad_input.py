"""What no function takes is refused with a typed error that says the call, what was got, the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.each import each

import einloom
from einloom import linalg

A = np.eye(3)
B = np.ones((3, 2))
WIDE = np.ones((2, 3))

SQUARE: dict[str, Callable[..., Any]] = {
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "cholesky": linalg.cholesky,
    "cho_factor": linalg.cho_factor,
    "eig": linalg.eig,
    "eigvals": linalg.eigvals,
    "eigh": linalg.eigh,
    "eigvalsh": linalg.eigvalsh,
    "full_piv_lu": linalg.full_piv_lu,
    "solve": lambda a: linalg.solve(a, B),
    "solve_triangular": lambda a: linalg.solve_triangular(a, B),
    "matrix_power": lambda a: linalg.matrix_power(a, 2),
}
ANY: dict[str, Callable[..., Any]] = {
    "svd": linalg.svd,
    "svdvals": linalg.svdvals,
    "qr": linalg.qr,
    "lu": linalg.lu,
    "lu_factor": linalg.lu_factor,
    "pinv": linalg.pinv,
    "cond": linalg.cond,
    "select": linalg.select,
    "factorize": linalg.factorize,
    "lstsq": lambda a: linalg.lstsq(a, B),
}


@pytest.mark.parametrize("name", SQUARE)
def test_not_square(name: str) -> None:
    with pytest.raises(einloom.MatrixShapeError, match=r"square, got matrices of 2 by 3") as caught:
        SQUARE[name](np.ones((4, 2, 3)))
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", SQUARE | ANY)
def test_too_few_axes(name: str) -> None:
    with pytest.raises(einloom.MatrixShapeError, match=r"dimensional|two axes"):
        (SQUARE | ANY)[name](np.ones(3))


@pytest.mark.parametrize("name", SQUARE | ANY)
@each("dtype", ["float16", "longdouble", "clongdouble", "object", "U3", "datetime64[s]"])
def test_dtypes(name: str, dtype: str) -> None:
    if name == "matrix_power":
        return  # NumPy multiplies what LAPACK does not take
    with pytest.raises(einloom.DTypeError, match="unsupported in linalg; convert it"):
        (SQUARE | ANY)[name](np.zeros((3, 3), dtype))


def test_bfloat16_is_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(einloom.DTypeError, match="bfloat16 is unsupported"):
        linalg.inv(np.eye(3, dtype=ml_dtypes.bfloat16))


def test_masked_and_foreign_arrays_are_refused() -> None:
    with pytest.raises(einloom.ConversionError, match="mask"):
        linalg.inv(np.ma.masked_array(np.eye(2)))
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(einloom.ConversionError, match="toarray"):
        linalg.solve(sparse.eye_array(3).tocsr(), B)


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))), einloom.ShapeError,
     r"batch axes of shapes \(2, 3, 3\) and \(4, 3, 1\) do not broadcast"),
    (lambda: linalg.lstsq(np.ones((2, 4, 3)), np.ones((3, 4, 1))), einloom.ShapeError, "do not broadcast"),
    (lambda: linalg.solve(A, np.ones(4)), einloom.MatrixShapeError, "Incompatible dimensions"),
    (lambda: linalg.solve(np.ones((4, 3, 3)), np.ones((4, 3))), einloom.MatrixShapeError,
     r"b\[..., None\] makes"),
    (lambda: linalg.solve(A, 1.0), einloom.MatrixShapeError, "b has no axis"),
    (lambda: linalg.solve(A, B, assume_a="sparse"), einloom.OptionError, "give \"auto\" or one of"),
    (lambda: linalg.solve(A, B, assume_a="tall"), einloom.OptionError, "use lstsq"),
    (lambda: linalg.solve(A, B, on_error="ignore"), einloom.OptionError,
     '"raise", "nan" or "info"'),
    (lambda: linalg.det(A, on_error=None), einloom.OptionError, "on_error=None"),  # type: ignore[arg-type]
    (lambda: linalg.solve_triangular(A, B, trans="H"), einloom.OptionError, '"N", "T" or "C"'),
    (lambda: linalg.solve_triangular(A, B, trans=[0]), einloom.OptionError, "trans"),  # type: ignore[arg-type]
    (lambda: linalg.solve_triangular(A, B, side="up"), einloom.OptionError, "left"),
    (lambda: linalg.solve_triangular(A, B, side="right"), einloom.MatrixShapeError, "last axis must be 3"),
    (lambda: linalg.lu_solve(A, B), einloom.CallError, "piv"),  # type: ignore[arg-type]
    (lambda: linalg.lu_solve((A, np.arange(2)), B), einloom.MatrixShapeError, "piv has the shape"),
    (lambda: linalg.lu_solve((A, np.ones(3)), B), einloom.CallError, "lu_factor"),
    (lambda: linalg.cho_solve(A, B), einloom.CallError, "lower"),  # type: ignore[arg-type]
    (lambda: linalg.full_piv_lu_solve(A, B), einloom.CallError, "full_piv_lu"),
    (lambda: linalg.qr(A, "economic"), einloom.OptionError, "reduced, complete, r, raw"),
    (lambda: linalg.eigh(A, "X"), einloom.OptionError, "UPLO"),
    (lambda: linalg.eigh(A, 1), einloom.OptionError, "UPLO"),  # type: ignore[arg-type]
    (lambda: linalg.norm(A, "max"), einloom.OptionError, "ord='max'"),
    (lambda: linalg.norm(A, 3), einloom.OptionError, "ord=3"),
    (lambda: linalg.norm(A, 2, (0, 0)), einloom.OptionError, "Duplicate axes"),
    (lambda: linalg.norm(A, None, 5), np.exceptions.AxisError, "axis 5"),
    (lambda: linalg.pinv(A, rcond=0.1, rtol=0.1), einloom.OptionError, "both"),
    (lambda: linalg.matrix_rank(A, tol=0.1, rtol=0.1), einloom.OptionError, "both"),
    (lambda: linalg.cond(np.ones((0, 3))), einloom.MatrixShapeError, "empty"),
    (lambda: linalg.tensorsolve(np.ones((2, 3)), np.ones(2)), einloom.MatrixShapeError, "prod"),
    (lambda: linalg.tensorinv(np.ones((2, 3)), 1), einloom.MatrixShapeError, "as many"),
    (lambda: linalg.tensorinv(np.ones((2, 2)), 0), einloom.OptionError, "ind"),
    (lambda: linalg.multi_dot([A]), einloom.ShapeError, "at least two"),
    (lambda: linalg.multi_dot([A, np.ones(3), A]), einloom.MatrixShapeError, "array 1"),
    (lambda: linalg.matrix_power(A, 0.5), einloom.DTypeError, "integer"),
    (lambda: linalg.matrix_transpose(np.ones(3)), einloom.MatrixShapeError, "2-dimensional"),
    (lambda: linalg.outer(A, A), einloom.ShapeError, "one-dimensional"),
    (lambda: linalg.cross(B, B), einloom.ShapeError, "3-dimensional"),
    (lambda: linalg.vecdot(np.ones(2), np.ones(3)), einloom.ShapeError, "differ"),
    (lambda: linalg.trace(np.ones(3)), einloom.MatrixShapeError, "two axes"),
    (lambda: linalg.diagonal(np.ones(3)), einloom.MatrixShapeError, "two axes"),
    (lambda: linalg.factorize(WIDE, "general"), einloom.MatrixShapeError, "not square"),
    (lambda: linalg.factorize(WIDE, "tall"), einloom.MatrixShapeError, "wide"),
    (lambda: linalg.factorize(A, "cholesky"), einloom.OptionError, "give \"auto\""),
    (lambda: linalg.factorize(WIDE).det(), einloom.MatrixShapeError, "not square"),
    (lambda: linalg.factorize(A, "wide").det(), einloom.LinAlgError, "kind='general'"),
    (lambda: linalg.factorize(WIDE).solve(np.ones(2), "T"), einloom.MatrixShapeError, "not square"),
    (lambda: linalg.factorize(A).solve(np.ones(4)), einloom.MatrixShapeError, "Incompatible"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(number: int) -> None:
    call, kind, words = CALLS[number]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, (einloom.EinloomError, np.exceptions.AxisError))
