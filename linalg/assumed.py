"""`solve` where the form of the matrices is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import OptionError
from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import structured
from . import rules
from .failures import OnError
from .op import Array, apply, define
from .operands import check_square, columns
from .ops import NOT_DEFINITE, SINGULAR, triangle
from .selection import kind_of, select
from .solving import finished, system


def solve_assumed(
    a: Any, b: Any, assume_a: Any, lower: bool, check_finite: bool, on_error: OnError
) -> Any:
    """`solve` for any `assume_a` but "general"."""
    call = f"solve(assume_a={assume_a!r})"
    kind = kind_of("solve", "assume_a", assume_a)
    if kind in ("tall", "wide"):
        raise OptionError(f"{call}: systems are square; use lstsq")
    x, y = system("solve", a, b)
    check_square("solve", x)
    x, y, is_vector = columns("solve", x, y, y)
    op = POSITIVE if kind == "positive definite" else ASSUMED
    attrs: Attrs = {"kind": kind} | ({"lower": True} if lower else {})
    (found,), info = apply(op, call, (x, y), attrs, on_error, check_finite)
    return finished(found, is_vector, b, info, on_error)


def _run(attrs: Attrs, a: Array, b: Array) -> tuple[tuple[Array], Array]:
    kind = attrs["kind"]
    if kind == "auto":
        kind = select(a).kind
        kind = "perhaps positive definite" if kind == "positive definite" else kind
    x, info = _solve(kind, a, b, attrs.get("lower", False))
    return (x,), info


def _solve(kind: str, a: Array, b: Array, lower: bool) -> tuple[Array, Array]:
    if kind == "diagonal":
        return structured.diagonal_solve(np.diagonal(a, axis1=-2, axis2=-1), b)
    if kind in ("upper triangular", "lower triangular"):
        return cpu.triangular_solve(a, b, kind == "lower triangular", "N", False)
    if kind == "banded":
        factors, info = structured.banded_lu(a, *structured.bandwidths(a))
        return structured.banded_lu_solve(factors, b), info
    if kind in ("symmetric", "hermitian"):
        return structured.symmetric_solve(a, b, lower, kind == "hermitian")
    if kind in ("positive definite", "perhaps positive definite"):
        return _by_cholesky(a, b, lower, kind == "perhaps positive definite")
    return cpu.solve(a, b)


def _by_cholesky(a: Array, b: Array, lower: bool, perhaps: bool) -> tuple[Array, Array]:
    """Members that are not positive definite are solved by LU, if they need not be."""
    c, info = cpu.cholesky(a, lower)
    bad = info != 0
    if bad.all() and perhaps:
        return cpu.solve(a, b)
    c[bad] = np.eye(a.shape[-1])
    x = cpu.cho_solve(c, b, lower)
    if perhaps and bad.any():
        x[bad], info[bad] = cpu.solve(a[bad], b[bad])
    return x, info


def _read(attrs: Attrs, a: Array, b: Array) -> tuple[Array, Array]:
    kind = attrs["kind"]
    if kind == "diagonal":
        return np.diagonal(a, axis1=-2, axis2=-1)[..., None], b
    if kind in ("upper triangular", "lower triangular"):
        return triangle(a, kind == "lower triangular"), b
    if kind in ("general", "banded", "auto"):
        return a, b
    return triangle(a, attrs.get("lower", False)), b


ASSUMED = define("solve_assumed", rules.solution, _run, SINGULAR, _read)
POSITIVE = define("solve_positive", rules.solution, _run, NOT_DEFINITE, _read)
