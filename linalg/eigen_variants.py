"""Eigenvalue problems beside `eig` and `eigh`: generalised, parts of the spectrum, left vectors."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from .._base.errors import MatrixShapeError, OptionError
from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import members
from ..backend.dims import differ, minimum, shapes_differ
from ..backend.spec import ArraySpec
from ..program.trace import Traced
from . import rules
from .beyond import finished, one_of
from .failures import OnError
from .op import Specs, apply, define
from .operands import adjoint, check_square, matrices, same_batch, square, wrap_of
from .ops import NO_EIGENVALUES, read_hermitian, triangle
from .results import EighResult

Array = np.ndarray[Any, Any]
Outputs = tuple[tuple[Any, ...], Array | None]
WHOLE = 48  # up to this order all eigenvalues are found and those asked for are taken


class EighSubsetResult(NamedTuple):
    """What `eigh_subset` returns; a @ eigenvectors = eigenvectors * eigenvalues for the first `counts`."""

    eigenvalues: Any
    eigenvectors: Any
    counts: Any


class TwoSidedEigResult(NamedTuple):
    """What `eig_two_sided` returns: a @ right = right * eigenvalues, leftᴴ @ a = eigenvalues * leftᴴ."""

    eigenvalues: Any
    left: Any
    right: Any


def eigh_generalized(
    a: Any,
    b: Any,
    UPLO: str = "L",  # noqa: N803
    *,
    type: Literal[1, 2, 3] = 1,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """Eigenvalues w and vectors V of Hermitian a and positive definite b: a V = b V diag(w), Vᴴ b V = 1.

    With b = L Lᴴ the problem is that of L⁻¹ a L⁻ᴴ. Type 2 is a b V = V diag(w) with Vᴴ b V = 1, type 3
    b a V = V diag(w) with Vᴴ b⁻¹ V = 1. Errors of small eigenvalues grow with the condition number of b.

    Args:
        a, b: [..., n, n], batch axes broadcast; one triangle of each is read.
        UPLO: "L" for the lower triangles, "U" for the upper ones.
        type: which of the three problems.
        check_finite, on_error: as everywhere in this package.

    Returns:
        EighResult(eigenvalues [..., n], ascending, eigenvectors [..., n, n]). With on_error="info"
        (result, info); info is n + k where the leading minor of order k of b is not positive.

    Raises:
        LinAlgError: b is not positive definite, or no convergence.

    Complexity: about 14 n³ multiplications. As `scipy.linalg.eigh(a, b)`; the method of LAPACK sygv.

    >>> w, v = eigh_generalized([[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 3.0]])
    >>> w.round(12).tolist()
    [1.0, 2.0]
    """
    call = "eigh_generalized"
    upper = _is_upper(call, UPLO)
    if type not in (1, 2, 3):
        raise OptionError(f"{call}(type={type!r}): give 1, 2 or 3")
    x, y = matrices(call, a, b)
    for each in (x, y):
        check_square(call, each)
    if differ(x.shape[-1], y.shape[-1]):
        raise MatrixShapeError(
            f"{call}: matrices of order {x.shape[-1]} and {y.shape[-1]}, of shapes {x.shape} and {y.shape}"
        )
    x, y = same_batch(call, x, y)
    attrs = {**({"upper": True} if upper else {}), **({"type": type} if type != 1 else {})}
    outputs, info = apply(EIGH_GENERALIZED, call, (x, y), attrs, on_error, check_finite)
    return finished(EighResult(*outputs), info, on_error, wrap_of(a))


def eigh_subset(
    a: Any,
    by_index: tuple[int, int] | None = None,
    by_value: tuple[float, float] | None = None,
    UPLO: str = "L",  # noqa: N803
    *,
    check_finite: bool = True,
    on_error: OnError = "raise",
) -> Any:
    """Some eigenvalues of Hermitian matrices, in ascending order, and their vectors.

    Args:
        a: [..., n, n]; one triangle is read.
        by_index: (first, last), counted from 0, both included, as in `scipy.linalg.eigh`.
        by_value: (low, high): the eigenvalues with low < w <= high, of which each matrix may have
            another number. Arrays are as large as the largest of them needs, and zero behind a
            matrix's own; of traced matrices they are as large as a.
        UPLO: "L" for the lower triangle, "U" for the upper one.
        check_finite: True here by default, because LAPACK may not return from NaN.
        on_error: as everywhere in this package.

    Returns:
        EighSubsetResult(eigenvalues [..., k], eigenvectors [..., n, k], counts int64 [...]). With
        on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, or NaN or infinity in a matrix.

    Complexity: about 4/3 n³ multiplications and some n² for each vector; for small n all are found and
    those asked for are taken. LAPACK syevr and heevr.

    >>> eigh_subset([[0.0, 1.0], [1.0, 0.0]], by_value=(0, 2)).eigenvalues.round(12)
    array([1.])
    """
    call = "eigh_subset"
    x, wrap = square(call, a), wrap_of(a)
    attrs: dict[str, Any] = {"upper": True} if _is_upper(call, UPLO) else {}
    if (by_index is None) == (by_value is None):
        raise OptionError(f"{call}: give either by_index=(first, last) or by_value=(low, high)")
    if by_index is not None:
        attrs["by_index"] = _indices(call, by_index, x.shape[-1])
    else:
        attrs["by_value"] = _bounds(call, by_value)
        if not isinstance(x, Traced):
            attrs["shrink"] = True
    outputs, info = apply(EIGH_SUBSET, call, (x,), attrs, on_error, check_finite)
    return finished(EighSubsetResult(*outputs), info, on_error, wrap)


def eig_two_sided(
    a: Any,
    *,
    biorthogonal: bool = False,
    check_finite: bool = True,
    on_error: OnError = "raise",
) -> Any:
    """Eigenvalues w with right and left eigenvectors: a R = R diag(w), Lᴴ a = diag(w) Lᴴ.

    Args:
        a: [..., n, n].
        biorthogonal: scale each left vector so that l_iᴴ r_i = 1; otherwise all have norm 1. Where l_iᴴ r_i
            is 0, as in a Jordan block, it stays. The inverse of its modulus, of unit vectors, is the
            condition of w_i.
        check_finite: True here by default, because LAPACK may not return from NaN.
        on_error: as everywhere in this package.

    Returns:
        TwoSidedEigResult(eigenvalues [..., n], left [..., n, n], right [..., n, n]), always complex. With
        on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, or NaN or infinity in a matrix.

    Complexity: about 27 n³ multiplications; LAPACK geev. As `scipy.linalg.eig(left=True)`.

    >>> w, left, right = eig_two_sided([[1.0, 1.0], [0.0, 2.0]], biorthogonal=True)
    >>> (left.conj().T @ right).real.round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    call = "eig_two_sided"
    attrs = {"biorthogonal": True} if biorthogonal else {}
    outputs, info = apply(EIG_TWO_SIDED, call, (square(call, a),), attrs, on_error, check_finite)
    return finished(TwoSidedEigResult(*outputs), info, on_error, wrap_of(a))


# ---- arguments and rules --------------------------------------------------------------------------


def _is_upper(call: str, uplo: Any) -> bool:
    one_of(call, "UPLO", uplo, ("L", "U", "l", "u"))
    return uplo in ("U", "u")


def _indices(call: str, given: Any, n: Any) -> tuple[int, int]:
    try:
        first, last = (int(x) for x in given)
    except (TypeError, ValueError):
        raise OptionError(f"{call}(by_index={given!r}): give (first, last)") from None
    if not 0 <= first <= last or (isinstance(n, int) and last >= n):
        raise OptionError(
            f"{call}(by_index={given!r}): give 0 <= first <= last < {n}, the order of the matrices"
        )
    return first, last


def _bounds(call: str, given: Any) -> tuple[float, float]:
    try:
        low, high = (float(x) for x in given)
    except (TypeError, ValueError):
        raise OptionError(f"{call}(by_value={given!r}): give (low, high)") from None
    if not low < high:
        raise OptionError(f"{call}(by_value={given!r}): low must be less than high")
    return low, high


def _generalized_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] twice -> real [..., n], [..., n, n]"""
    a, b = inputs
    if shapes_differ(a.shape, b.shape):
        raise MatrixShapeError(f"linear algebra: {a} and {b} do not fit each other")
    return rules.hermitian_spectrum({}, (a,))


def _subset_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> real [..., k], [..., n, k], int64 [...]"""
    (x,) = inputs
    batch, n = rules.square_parts(x)
    k = n
    if "by_index" in attrs:
        first, last = attrs["by_index"]
        k = minimum(n, last - first + 1)
    return (
        ArraySpec(rules.real(x.dtype), (*batch, k)),
        ArraySpec(x.dtype, (*batch, n, k)),
        ArraySpec(np.dtype(np.int64), batch),
    )


def _two_sided_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> complex [..., n], twice complex [..., n, n]"""
    return rules.general_spectrum({"left": True}, inputs)


# ---- on the CPU -----------------------------------------------------------------------------------


def _generalized(attrs: Attrs, a: Array, b: Array) -> Outputs:
    upper, kind, n = attrs.get("upper", False), attrs.get("type", 1), a.shape[-1]
    a = hermitian(a, upper)
    factor, bad = cpu.cholesky(b, not upper)
    if upper:
        factor = adjoint(factor)
    if bad.any():  # members that failed must give no warning either
        factor = np.where((bad > 0)[..., None, None], np.eye(n, dtype=a.dtype), factor)
    if kind == 1:
        half = cpu.triangular_solve(factor, a, True, "N", False)[0]
        inner = cpu.triangular_solve(factor, adjoint(half), True, "N", False)[0]
    else:
        inner = adjoint(factor) @ a @ factor
    w, y, info = cpu.eigh(inner)
    assert y is not None
    v = factor @ y if kind == 3 else cpu.triangular_solve(factor, y, True, "C", False)[0]
    return (w, v), np.where(bad > 0, n + bad, info).astype(np.int32)


def hermitian(a: Array, upper: bool) -> Array:
    """The Hermitian matrix that one triangle of a means."""
    strict = np.triu(a, 1) if upper else np.tril(a, -1)
    full = strict + adjoint(strict)
    index = np.arange(a.shape[-1])
    full[..., index, index] = a.real[..., index, index]
    return np.asarray(full)


def _subset(attrs: Attrs, a: Array) -> Outputs:
    n, lower = a.shape[-1], not attrs.get("upper", False)
    by_value = attrs.get("by_value")
    low, high = by_value or attrs["by_index"]
    if n > WHOLE:
        w, v, counts, info = members.eigh_range(a, lower, "V" if by_value else "I", low, high)
    else:
        w, vectors, info = cpu.eigh(a, lower)
        assert vectors is not None
        inside = (w > low) & (w <= high) if by_value else np.ones(w.shape, np.bool_)
        first = inside.argmax(axis=-1) if n else np.zeros(a.shape[:-2], np.int64)
        counts = inside.sum(axis=-1, dtype=np.int64)
        if not by_value:
            first, counts = np.full_like(first, low), np.full_like(counts, high - low + 1)
        w, v = _from(w, vectors, first)
    k = n if by_value else high - low + 1
    if attrs.get("shrink"):
        k = int(counts.max(initial=0))
    own = np.arange(k) < counts[..., None]
    return (
        np.where(own, w[..., :k], 0),
        np.where(own[..., None, :], v[..., :k], 0),
        counts,
    ), info


def _from(w: Array, v: Array, first: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors from `first` on; what is behind the last is the last again."""
    n = w.shape[-1]
    order = np.minimum(first[..., None] + np.arange(n), max(n - 1, 0))
    return (
        np.take_along_axis(w, order, axis=-1),
        np.take_along_axis(v, order[..., None, :], axis=-1),
    )


def _two_sided(attrs: Attrs, a: Array) -> Outputs:
    w, left, right, info = cpu.eig(a, left=True, right=True)
    assert left is not None
    assert right is not None
    if attrs.get("biorthogonal"):
        overlap = np.einsum("...ij,...ij->...j", right.conj(), left)  # conj of l_iᴴ r_i
        good = (overlap != 0) & np.isfinite(overlap)
        left = left / np.where(good, overlap, 1)[..., None, :]
    return (w, left, right), info


def _read_both(attrs: Attrs, a: Array, b: Array) -> tuple[Array, ...]:
    return *read_hermitian(attrs, a), triangle(b, not attrs.get("upper", False))


EIGH_GENERALIZED = define(
    "eigh_generalized",
    _generalized_rule,
    _generalized,
    "b is not positive definite, or eigenvalues did not converge",
    _read_both,
)
EIGH_SUBSET = define("eigh_subset", _subset_rule, _subset, NO_EIGENVALUES, read_hermitian)
EIG_TWO_SIDED = define("eig_two_sided", _two_sided_rule, _two_sided, NO_EIGENVALUES)
