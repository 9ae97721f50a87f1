"""Factor once, solve many: a factorisation is a value that says what it is and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._base.errors import ConversionError, LinAlgError, MatrixShapeError
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import structured
from ..program.trace import Traced
from .factor import svd
from .failures import NOT_FINITE, OnError, check_on_error, settle
from .op import not_finite
from .operands import Array, adjoint, broadcast, columns, common, matrix, operand
from .ops import NOT_DEFINITE, SINGULAR, pseudoinverse, triangle
from .results import SlogdetResult
from .selection import Choice, kind_of, select
from .solving import finished, number, transposed


@dataclass(frozen=True, slots=True)
class Factorization:
    """Factors of a batch of matrices a [..., m, n], to solve with many times.

    Attributes:
        kind: of the matrices, as `select` names it.
        reason: why.
        shape: of a.
        dtype: of a.
        info: int32 [...]: 0 for a good member; else one plus its first pivot that is zero, or the order
            of its first leading minor that is not positive; -1 where elements that are read are NaN or
            infinite.
    """

    kind: str
    reason: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    info: Array
    _parts: Any = field(repr=False)

    @property
    def method(self) -> str:
        """How it is factored."""
        return Choice(self.kind, self.reason).method

    @property
    def failed(self) -> tuple[tuple[int, ...], ...]:
        """Batch indices of the members that cannot be solved with."""
        return tuple(tuple(map(int, at)) for at in np.argwhere(self.info))

    def solve(self, b: Any, trans: str | int = "N", *, on_error: OnError = "raise") -> Any:
        """x of a x = b, aᵀ x = b or aᴴ x = b; of least squares, and least norm, if a is not square.

        Args:
            b: [m] or [..., m, k]; its batch axes broadcast with those of a.
            trans: "N" or 0, "T" or 1, "C" or 2; "N" alone for matrices that are not square.
            on_error: as everywhere in this package.

        Returns:
            x [..., n], or [..., n, k]. With on_error="info" (x, info).

        Raises:
            LinAlgError: a member is singular, or not positive definite.
        """
        call = "Factorization.solve"
        check_on_error(call, on_error)
        op, y = transposed(call, trans), operand(call, b, 1)
        if type(y) is Traced:
            raise ConversionError(f"{call}: b is traced; use solve, or lu_factor and lu_solve")
        if op != "N" and self.shape[-1] != self.shape[-2]:
            raise MatrixShapeError(f"{call}(trans={trans!r}): matrices are not square")
        stand_in = broadcast(np.zeros((), self.dtype), self.shape)
        stand_in, y = common(call, stand_in, y)
        if y.dtype != self.dtype:  # complex b, real a; or double b, single a
            return factorize_as(self, y.dtype).solve(b, trans, on_error=on_error)
        stand_in, y, is_vector = columns(call, stand_in, y, y)
        batch = stand_in.shape[:-2]
        with np.errstate(all="ignore"):
            x = _solve(self, _spread(self._parts, self.shape[:-2], batch), y, op)
        info = np.broadcast_to(self.info, batch)
        settle(call, _failure(self.kind), (x,), info, on_error)
        return finished(x, is_vector, b, info, on_error)

    def slogdet(self) -> Any:
        """(sign, logabsdet) of the determinants."""
        if self.shape[-1] != self.shape[-2]:
            raise MatrixShapeError(f"Factorization.slogdet: matrices {self.shape} are not square")
        d, sign = _diagonal(self)
        with np.errstate(all="ignore"):
            size = abs(d)
            phase = np.where(size == 0, 0, d / np.where(size == 0, 1, size)).prod(axis=-1)
            logabs = np.log(size).sum(axis=-1)
        if self.kind == "positive definite":
            phase, logabs = np.where(self.info != 0, np.nan, phase), 2 * logabs
            logabs = np.where(self.info != 0, np.nan, logabs)
        sign = np.asarray(sign * phase, self.dtype)
        return SlogdetResult(number(sign), number(np.asarray(logabs, size.dtype)))

    def det(self) -> Any:
        """The determinants [...]."""
        sign, logabs = self.slogdet()
        with np.errstate(all="ignore"):
            return np.where(sign == 0, sign, sign * np.exp(logabs)).astype(self.dtype)[()]

    def inv(self, *, on_error: OnError = "raise") -> Any:
        """The inverses [..., n, n]; the pseudoinverses [..., n, m] if a is not square."""
        rows = np.eye(self.shape[-2], dtype=self.dtype)
        return self.solve(broadcast(rows, (*self.shape[:-2], *rows.shape)), on_error=on_error)


def factorize(a: Any, kind: str | None = "auto") -> Factorization:
    """Factors of all matrices of a batch, by the method that suits them.

    Nothing is raised for a singular matrix: `.info` and `.failed` tell, and `solve` acts on it.

    Args:
        a: [..., m, n].
        kind: "auto" is what `select(a)` says, and "general" where Cholesky then fails; or one of
            "diagonal", "upper triangular", "lower triangular", "banded", "positive definite",
            "general", "tall" (QR: least squares at full rank) and "wide" (SVD: least norm, any rank).
            What is named is not checked: elements elsewhere are not read.

    Returns:
        Factorization: `.kind`, `.reason`, `.solve(b)`, `.det()`, `.slogdet()`, `.inv()`.

    >>> f = factorize([[2.0, 1.0], [1.0, 2.0]])
    >>> f.kind, f.reason
    ('positive definite', 'a equals its adjoint and its diagonal is positive')
    >>> f.solve([3.0, 3.0])
    array([1., 1.])
    >>> round(float(f.det()), 12)
    3.0
    """
    asked = kind_of("factorize", "kind", kind)
    x = matrix("factorize", a)
    if type(x) is Traced:
        raise ConversionError(
            f"factorize: {x!r} is traced; inside trace use lu_factor and lu_solve"
        )
    choice = select(x) if asked == "auto" else Choice(asked, "it was asked for")
    if choice.kind in ("symmetric", "hermitian"):
        choice = Choice("general", f"{choice.kind} was asked for, which has no factors here")
    if choice.kind not in ("tall", "wide") and x.shape[-1] != x.shape[-2]:
        raise MatrixShapeError(f"factorize(kind={kind!r}): matrices of shape {x.shape}, not square")
    if choice.kind == "tall" and x.shape[-2] < x.shape[-1]:
        raise MatrixShapeError(f"factorize(kind='tall'): matrices of shape {x.shape} are wide")
    parts, info = _factors(choice.kind, x)
    if choice.kind == "positive definite" and asked == "auto" and info.any():
        choice = Choice("general", "a equals its adjoint, but is not positive definite")
        parts, info = _factors("general", x)
    infinite = not_finite(_read(choice.kind, x))
    if infinite is not None:
        info = np.where(infinite, np.int32(NOT_FINITE), info)
    return Factorization(choice.kind, choice.reason, x.shape, x.dtype, info, parts)


def _read(kind: str, a: Array) -> tuple[Array]:
    if kind == "diagonal":
        return (np.diagonal(a, axis1=-2, axis2=-1)[..., None],)
    if kind in ("upper triangular", "lower triangular", "positive definite"):
        return (triangle(a, kind != "upper triangular"),)
    return (a,)


def factorize_as(f: Factorization, dtype: np.dtype[Any]) -> Factorization:
    """The same factors in another dtype."""
    parts = tuple(x.astype(dtype) if _floating(x) else x for x in f._parts)
    if f.kind == "banded":
        parts = structured.Banded(*parts)
    return Factorization(f.kind, f.reason, f.shape, dtype, f.info, parts)


def _floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def _failure(kind: str) -> str:
    return NOT_DEFINITE if kind == "positive definite" else SINGULAR


def _factors(kind: str, a: Array) -> tuple[Any, Array]:
    """What `solve` needs, and the codes of the members."""
    if kind == "diagonal":
        d = np.diagonal(a, axis1=-2, axis2=-1).copy()
        return (d,), _first_zero(d)
    if kind in ("upper triangular", "lower triangular"):
        t = np.triu(a) if kind == "upper triangular" else np.tril(a)
        return (t,), _first_zero(np.diagonal(t, axis1=-2, axis2=-1))
    if kind == "banded":
        return structured.banded_lu(a, *structured.bandwidths(a))
    if kind == "positive definite":
        c, info = cpu.cholesky(a)
        return (c,), info
    if kind == "tall":
        q, r = cpu.qr(a, "reduced")
        return (q, r), _first_zero(np.diagonal(r, axis1=-2, axis2=-1))
    if kind == "wide":
        (u, s, vh), info = svd(a, False, on_error="info")
        rcond = np.finfo(a.dtype).eps * max(a.shape[-2:])
        return (pseudoinverse(u, s, vh, rcond),), info
    lu, pivots, info = cpu.lu(a)
    return (lu, pivots), info


def _first_zero(d: Array) -> Array:
    zero = d == 0
    if not d.shape[-1]:
        return np.zeros(d.shape[:-1], np.int32)
    return np.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0).astype(np.int32)


def _spread(parts: Any, given: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    """Parts with the batch axes of the right-hand sides, as views."""
    if given == batch:
        return parts
    moved: Any = (
        np.broadcast_to(x, batch + x.shape[len(given) :]) if isinstance(x, np.ndarray) else x
        for x in parts
    )
    return structured.Banded(*moved) if isinstance(parts, structured.Banded) else tuple(moved)


def _solve(f: Factorization, parts: Any, b: Array, trans: Any) -> Array:
    if f.kind == "diagonal":
        return structured.diagonal_solve(parts[0], b, trans)[0]
    if f.kind in ("upper triangular", "lower triangular"):
        return cpu.triangular_solve(parts[0], b, f.kind[0] == "l", trans, False)[0]
    if f.kind == "banded":
        return structured.banded_lu_solve(parts, b, trans)
    if f.kind == "positive definite":
        if trans != "T":
            return cpu.cho_solve(parts[0], b)
        return cpu.cho_solve(parts[0], b.conj()).conj()  # aᵀ is the conjugate of a
    if f.kind == "tall":
        q, r = parts
        return cpu.triangular_solve(r, adjoint(q) @ b, False, "N", False)[0]
    if f.kind == "wide":
        return np.asarray(parts[0] @ b)
    return cpu.lu_solve(parts[0], parts[1], b, trans)


def _diagonal(f: Factorization) -> tuple[Array, Any]:
    """Numbers whose product is the determinant, or its root, and a sign."""
    if f.kind == "diagonal":
        return f._parts[0], 1
    if f.kind == "banded":
        packed, pivots, lower, upper = f._parts
        return packed[..., lower + upper, :], structured.parity(pivots)
    if f.kind in ("tall", "wide"):
        raise LinAlgError(
            f"Factorization.slogdet: {f.method} has no determinant; kind='general' has"
        )
    sign = structured.parity(f._parts[1]) if f.kind == "general" else 1
    return np.diagonal(f._parts[0], axis1=-2, axis2=-1), sign
