"""Solutions of linear systems: general, triangular, factored, least squares; inverse, determinant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.errors import CallError, MatrixShapeError, OptionError
from ..program.trace import Traced
from . import ops, recent
from .failures import OnError
from .on_device import on_devices
from .op import apply
from .operands import (
    check_square,
    columns,
    common,
    expand,
    operand,
    same_batch,
    square,
    squeeze,
    wrap_of,
)
from .results import LstsqResult, SlogdetResult

_TRANS: dict[Any, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


@recent.of_pair(recent.solve)
@on_devices
def solve(
    a: Any,
    b: Any,
    *,
    assume_a: str | None = "general",
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """x of a x = b for square matrices.

    b is one vector if it has one axis; else its last two axes are matrices whose columns are solved
    for. So vectors of a batch are columns: `solve(a, b[..., None])[..., 0]`.

    Args:
        a: [..., n, n].
        b: [n] or [..., n, k]; its batch axes broadcast with those of a.
        assume_a: what is known of a: "general"; "symmetric", "hermitian", "positive definite" (by one
            triangle); "upper triangular", "lower triangular"; "banded"; "diagonal". Or the short
            names of `scipy.linalg.solve`. "auto", or None, looks at the matrices: see `select`.
        lower: the triangle to read where one is enough; the upper one by default, as in SciPy.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        x [..., n], or [..., n, k]. With on_error="info" (x, info).

    Raises:
        LinAlgError: a matrix is singular (exactly: a pivot is zero), or not positive definite where
            that was assumed.
        MatrixShapeError, ShapeError: a is not square, or b does not fit it.

    Time n³/3 + n² k multiplications. As `numpy.linalg.solve`; LAPACK gesv.

    >>> solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0])
    array([1., 2.])
    """
    if assume_a != "general" and assume_a != "gen":
        from .assumed import solve_assumed

        return solve_assumed(a, b, assume_a, lower, check_finite, on_error)
    x, y = system("solve", a, b)
    check_square("solve", x)
    x, y, is_vector = columns("solve", x, y, y)
    attrs = {"overwrite": True} if overwrite_a else {}
    (found,), info = apply(ops.SOLVE, "solve", (x, y), attrs, on_error, check_finite)
    return finished(found, is_vector, b, info, on_error)


def system(call: str, a: Any, b: Any) -> tuple[Any, Any]:
    """a and b as arrays of one dtype."""
    if type(a) is np.ndarray and type(b) is np.ndarray and a.ndim >= 2:
        return common(call, a, b)
    x, y = operand(call, a), operand(call, b, 1)
    if x.ndim < 2:
        raise MatrixShapeError(
            f"{call}: operand 0 is {x.ndim}-dimensional, of shape {x.shape}; give a matrix, or a "
            f"stack of matrices in the last two axes"
        )
    return common(call, x, y)


def finished(x: Any, is_vector: bool, b: Any, info: Any, on_error: OnError) -> Any:
    """x as b was: a vector, a subclass, a tensor of torch; and the codes where they are asked for."""
    if is_vector:
        x = squeeze(x)
    wrap = wrap_of(b)
    if wrap is not None:
        x = wrap(x)
    return (x, info) if on_error == "info" else x


@on_devices
def solve_triangular(
    a: Any,
    b: Any,
    *,
    lower: bool = False,
    trans: str | int = "N",
    unit_diagonal: bool = False,
    side: str = "left",
    overwrite_b: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """x of op(a) x = b, or of x op(a) = b, for triangular a.

    Args:
        a: [..., n, n]; only the triangle that `lower` names is read.
        b: [n] or [..., n, k]; with side="right" [n] or [..., k, n].
        lower: a is lower triangular.
        trans: op(a) is a ("N" or 0), aᵀ ("T" or 1) or aᴴ ("C" or 2).
        unit_diagonal: the diagonal is taken as ones and not read.
        side: "left" or "right" of x.
        overwrite_b: the memory of `b` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        x, of the shape of b with broadcast batch axes. With on_error="info" (x, info).

    Raises:
        LinAlgError: the diagonal has an exact zero; the code is one plus its position.

    Time n² k / 2 multiplications. As `scipy.linalg.solve_triangular`; LAPACK trtrs.

    >>> solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
    array([1., 2.])
    """
    call = "solve_triangular"
    if side not in ("left", "right"):
        raise OptionError(f'{call}(side={side!r}): give "left" or "right"')
    x, y = system(call, a, b)
    check_square(call, x)
    if side == "left":
        x, y, is_vector = columns(call, x, y, y)
    else:
        x, y, is_vector = _rows(call, x, y)
    attrs: dict[str, Any] = {"side": side} if side == "right" else {}
    for name, asked in (
        ("lower", lower),
        ("unit_diagonal", unit_diagonal),
        ("overwrite", overwrite_b),
    ):
        if asked:
            attrs[name] = True
    if (op := transposed(call, trans)) != "N":
        attrs["trans"] = op
    (found,), info = apply(ops.TRIANGULAR_SOLVE, call, (x, y), attrs, on_error, check_finite)
    if is_vector and side == "right":
        found, is_vector = _first_row(found), False
    return finished(found, is_vector, b, info, on_error)


def _rows(call: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """As `columns`, for x a = b."""
    is_vector = len(b.shape) == 1
    if is_vector:
        b = b.session.op("expand_dims", b, axes=(0,)) if type(b) is Traced else b[None, :]
    if len(b.shape) < 2 or b.shape[-1] != a.shape[-1]:
        raise MatrixShapeError(
            f"{call}(side='right'): Incompatible dimensions: matrices {a.shape} and a right-hand "
            f"side {b.shape}, whose last axis must be {a.shape[-1]}"
        )
    return (*same_batch(call, a, b), is_vector)


def _first_row(x: Any) -> Any:
    if type(x) is Traced:
        return x.session.op("squeeze", x, axes=(x.ndim - 2,))
    return x[..., 0, :]


def transposed(call: str, trans: Any) -> str:
    """ "N", "T" or "C", which SciPy also calls 0, 1 and 2."""
    if isinstance(trans, (str, int)) and trans in _TRANS:
        return _TRANS[trans]
    raise OptionError(f'{call}(trans={trans!r}): give "N", "T" or "C" (0, 1 or 2)')


@on_devices
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: str | int = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    on_error: OnError = "raise",
) -> Any:
    """x of a x = b, aᵀ x = b or aᴴ x = b, from `lu_factor(a)`.

    Args:
        lu_and_piv: (lu [..., n, n], piv [..., n]).
        b: [n] or [..., n, k].
        trans: "N" or 0, "T" or 1, "C" or 2.
        overwrite_b: accepted for SciPy's sake.
        check_finite, on_error: as everywhere in this package.

    Returns:
        x, of the shape of b with broadcast batch axes. With on_error="info" (x, info).

    Raises:
        LinAlgError: U has an exact zero on its diagonal: the code is one plus its position. Or NaN or
            infinity.

    Time n² k multiplications. As `scipy.linalg.lu_solve`; LAPACK getrs.

    >>> from einloom.linalg import lu_factor
    >>> lu_solve(lu_factor([[2.0, 0.0], [1.0, 4.0]]), [2.0, 9.0])
    array([1., 2.])
    """
    call = "lu_solve"
    lu, pivots = pair(call, lu_and_piv, "(lu, piv)")
    x, y = system(call, lu, b)
    check_square(call, x)
    pivots = operand(call, pivots, 1)
    if pivots.dtype != np.int32:
        pivots = common_integers(call, pivots)
    if tuple(pivots.shape) != tuple(x.shape[:-1]):
        raise MatrixShapeError(f"{call}: piv has the shape {pivots.shape}, lu {x.shape}")
    given = x.shape[:-2]
    x, y, is_vector = columns(call, x, y, y)
    if x.shape[:-2] != given:
        x, moved = same_batch(call, x, expand(pivots))
        pivots = squeeze(moved)
    op = transposed(call, trans)
    attrs = {} if op == "N" else {"trans": op}
    (found,), info = apply(ops.LU_SOLVE, call, (x, pivots, y), attrs, on_error, check_finite)
    return finished(found, is_vector, b, info, on_error)


def common_integers(call: str, pivots: Any) -> Any:
    """Pivots as int32, checked before the cast may wrap them; which rows they name, `ops` checks."""
    if type(pivots) is Traced or pivots.dtype.kind not in "iu":
        raise CallError(f"{call}: piv has the dtype {pivots.dtype}; give what lu_factor returned")
    if (pivots.astype(np.int32) != pivots).any():
        raise CallError(f"{call}: piv names rows that are not there; give what lu_factor returned")
    return pivots.astype(np.int32)


def pair(call: str, given: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise CallError(f"{call}: the first argument is a {type(given).__name__}; give {what}")
    return given[0], given[1]


@on_devices
def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: Any,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    on_error: OnError = "raise",
) -> Any:
    """x of a x = b, from `cho_factor(a)`.

    Args:
        c_and_lower: (c [..., n, n], lower).
        b: [n] or [..., n, k].
        overwrite_b: accepted for SciPy's sake.
        check_finite, on_error: as everywhere in this package.

    Returns:
        x, of the shape of b with broadcast batch axes. With on_error="info" (x, info).

    Raises:
        LinAlgError: the factor's diagonal has a zero, NaN or infinity.

    Time n² k multiplications. As `scipy.linalg.cho_solve`; LAPACK potrs.

    >>> from einloom.linalg import cho_factor
    >>> cho_solve(cho_factor([[4.0, 2.0], [2.0, 5.0]]), [6.0, 7.0])
    array([1., 1.])
    """
    call = "cho_solve"
    c, lower = pair(call, c_and_lower, "(c, lower)")
    x, y = system(call, c, b)
    check_square(call, x)
    x, y, is_vector = columns(call, x, y, y)
    attrs = {} if lower else {"upper": True}
    (found,), info = apply(ops.CHO_SOLVE, call, (x, y), attrs, on_error, check_finite)
    return finished(found, is_vector, b, info, on_error)


@recent.of_matrix(recent.inv)
@on_devices
def inv(
    a: Any, *, overwrite_a: bool = False, check_finite: bool = False, on_error: OnError = "raise"
) -> Any:
    """a⁻¹, so that a a⁻¹ = 1. To solve systems, `solve` takes a third of the time and errs less.

    Args:
        a: [..., n, n].
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        [..., n, n]. With on_error="info" (inverse, info).

    Raises:
        LinAlgError: a matrix is singular (exactly: a pivot is zero).

    Time n³ multiplications. As `numpy.linalg.inv`; LAPACK gesv, getri.

    >>> inv([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])

    One singular matrix does not spoil the others:

    >>> inv([[[2.0]], [[0.0]], [[4.0]]], on_error="nan").ravel()
    array([0.5 ,  nan, 0.25])
    """
    x, wrap = square("inv", a), wrap_of(a)
    attrs = {"overwrite": True} if overwrite_a else {}
    (found,), info = apply(ops.INV, "inv", (x,), attrs, on_error, check_finite)
    if wrap is not None:
        found = wrap(found)
    return (found, info) if on_error == "info" else found


@recent.of_matrix(recent.det)
@on_devices
def det(a: Any, *, check_finite: bool = False, on_error: OnError = "raise") -> Any:
    """The determinants of a [..., n, n]: [...], a number of one matrix; 1 of an empty one.

    It may overflow where `slogdet` does not. As `numpy.linalg.det`, from LU; LAPACK getrf.

    >>> det([[1.0, 2.0], [3.0, 4.0]]).round(12)
    np.float64(-2.0)
    """
    (d,), info = apply(ops.DET, "det", (square("det", a),), {}, on_error, check_finite)
    d = number(d)
    return (d, info) if on_error == "info" else d


@on_devices
def slogdet(a: Any, *, check_finite: bool = False, on_error: OnError = "raise") -> Any:
    """det(a) = sign exp(logabsdet), which neither overflows nor underflows.

    Args:
        a: [..., n, n].
        check_finite, on_error: as everywhere in this package.

    Returns:
        SlogdetResult(sign [...], of modulus 1, logabsdet [...], real); (0, -inf) of a singular matrix.
        With on_error="info" (result, info).

    As `numpy.linalg.slogdet`, from LU; LAPACK getrf.

    >>> sign, logabsdet = slogdet(np.eye(1000) * 1e5)
    >>> sign, (logabsdet / np.log(10)).round(9)
    (np.float64(1.0), np.float64(5000.0))
    """
    found, info = apply(ops.SLOGDET, "slogdet", (square("slogdet", a),), {}, on_error, check_finite)
    result = SlogdetResult(*map(number, found))
    return (result, info) if on_error == "info" else result


def number(x: Any) -> Any:
    """A NumPy number instead of an array without axes, as NumPy returns it."""
    return x[()] if type(x) is np.ndarray else x


@recent.of_pair(recent.lstsq)
@on_devices
def lstsq(
    a: Any,
    b: Any,
    rcond: float | None = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """x of least norm among those that make `|a x - b|` least.

    Args:
        a: [..., m, n].
        b: [m] or [..., m, k]; its batch axes broadcast with those of a.
        rcond: singular values up to rcond times the largest count as zero; None is max(m, n) times
            the spacing of the dtype at 1, -1 its spacing alone.
        overwrite_a: the memory of `a` may be used.
        check_finite, on_error: as everywhere in this package.

    Returns:
        (x, residuals, rank, s): x [..., n] or [..., n, k]; sums of squares of b - a x, [..., k];
        ranks [...] and singular values [..., min(m, n)] of a. For one matrix the residuals are as
        NumPy's: empty where m <= n or the rank is less than n. With on_error="info" (result, info).

    Raises:
        LinAlgError: the SVD did not converge, or a and b do not fit.

    As `numpy.linalg.lstsq`, which takes no batches; LAPACK gelsd.

    >>> x, residuals, rank, s = lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0])
    >>> x.round(12), int(rank)
    (array([1., 1.]), 2)
    """
    x, y = system("lstsq", a, b)
    x, y, is_vector = columns("lstsq", x, y, y)
    attrs: dict[str, Any] = {}
    if rcond is not None and rcond < 0:  # what that means differs from one routine to another
        rcond = float(np.finfo(x.dtype).eps) / 2  # as gelsd has it
    if rcond is not None:
        attrs["rcond"] = float(rcond)
    if overwrite_a:
        attrs["overwrite"] = True
    found, info = apply(ops.LSTSQ, "lstsq", (x, y), attrs, on_error, check_finite)
    solution, residuals, rank, s = found
    if type(solution) is not Traced and solution.ndim == 2:
        (m, n), rank = x.shape, rank[()]
        if m <= n or rank < n:
            residuals = residuals[:0]
    wrap = wrap_of(b)
    solution = squeeze(solution) if is_vector else solution
    if wrap is not None:
        solution, residuals = wrap(solution), wrap(residuals)
    result = LstsqResult(solution, residuals, rank, s)
    return (result, info) if on_error == "info" else result


@on_devices
def tensorsolve(a: Any, b: Any, axes: Any = None, *, on_error: OnError = "raise") -> Any:
    """x of tensordot(a, x, x.ndim) = b, where a has the axes of b first and then those of x.

    Args:
        a: an array whose first b.ndim axes have as many elements as the others together.
        b: an array.
        axes: axes of a that are moved to the end first.

    As `numpy.linalg.tensorsolve`: `solve` with the axes merged.

    >>> a = np.eye(2 * 3).reshape(2, 3, 6)
    >>> tensorsolve(a, np.ones((2, 3))).shape
    (6,)
    """
    x, y = operand("tensorsolve", a), operand("tensorsolve", b, 1)
    wrap = wrap_of(a)
    for axis in () if axes is None else axes:
        x = np.moveaxis(x, axis, -1)
    shape = x.shape[-(x.ndim - y.ndim) :] if x.ndim > y.ndim else ()
    n = math.prod(shape)
    if x.size != n**2 or y.size != n:
        raise MatrixShapeError(
            f"tensorsolve: Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            f"prod(a.shape[:b.ndim]): got shapes {x.shape} and {y.shape}"
        )
    found = solve(x.reshape(n, n), y.reshape(n), on_error=on_error)
    x, info = found if on_error == "info" else (found, None)
    x = x.reshape(shape)
    x = x if wrap is None else wrap(x)
    return (x, info) if on_error == "info" else x


@on_devices
def tensorinv(a: Any, ind: int = 2, *, on_error: OnError = "raise") -> Any:
    """The inverse of tensordot with a over its last a.ndim - ind axes.

    Args:
        a: an array whose first `ind` axes have as many elements as the others together.
        ind: how many axes make the rows; > 0.

    Returns:
        An array with the axes of a, the last ones first. As `numpy.linalg.tensorinv`.

    >>> tensorinv(np.eye(6).reshape(6, 2, 3), ind=1).shape
    (2, 3, 6)
    """
    x, wrap = operand("tensorinv", a), wrap_of(a)
    if not isinstance(ind, (int, np.integer)) or ind <= 0:
        raise OptionError(f"tensorinv: Invalid ind argument, got {ind!r}; it must be positive")
    shape = (*x.shape[ind:], *x.shape[:ind])
    n = math.prod(x.shape[ind:])
    if n * n != x.size:
        raise MatrixShapeError(
            f"tensorinv(ind={ind}): the first {ind} axes of shape {x.shape} must have as many "
            f"elements as the others"
        )
    found = inv(x.reshape(n, n), on_error=on_error)
    x, info = found if on_error == "info" else (found, None)
    x = x.reshape(shape)
    x = x if wrap is None else wrap(x)
    return (x, info) if on_error == "info" else x
