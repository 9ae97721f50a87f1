"""LU with full pivoting, which tells the rank of matrices where partial pivoting does not."""

from __future__ import annotations

from typing import Any

from .._base.errors import CallError
from . import ops
from .failures import OnError
from .op import apply
from .operands import broadcast, check_square, columns, common, operand, square, wrap_of
from .results import FullPivLUResult
from .solving import finished, number, transposed


def full_piv_lu(a: Any, *, check_finite: bool = False, on_error: OnError = "raise") -> Any:
    """P a Qᵀ = L U, so a = Pᵀ L U Q: every pivot is the largest element of what is left.

    Args:
        a: [..., n, n].
        check_finite, on_error: as everywhere in this package.

    Returns:
        FullPivLUResult(P, L, U, Q, parity): permutations [..., n, n] and det P det Q [...] of the real
        dtype. With on_error="info" (result, info).

    Time n³/3 multiplications and as many comparisons. Golub and Van Loan, Matrix Computations,
    section 3.4.8.

    >>> p, l, u, q, parity = full_piv_lu([[1.0, 2.0], [3.0, 8.0]])
    >>> u
    array([[8.  , 3.  ],
           [0.  , 0.25]])
    >>> p.T @ l @ u @ q, parity
    (array([[1., 2.],
           [3., 8.]]), np.float64(1.0))
    """
    x, wrap = square("full_piv_lu", a), wrap_of(a)
    found, info = apply(ops.FULL_PIV_LU, "full_piv_lu", (x,), {}, on_error, check_finite)
    p, lower, upper, q, parity = found
    if wrap is not None:
        p, lower, upper, q = map(wrap, (p, lower, upper, q))
    result = FullPivLUResult(p, lower, upper, q, number(parity))
    return (result, info) if on_error == "info" else result


def full_piv_lu_solve(
    factors: Any,
    b: Any,
    *,
    trans: str | int = "N",
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """x of a x = b, aᵀ x = b or aᴴ x = b, from `full_piv_lu(a)`.

    Args:
        factors: what `full_piv_lu` returned, or its first four.
        b: [n] or [..., n, k].
        trans: "N" or 0, "T" or 1, "C" or 2.
        check_finite, on_error: as everywhere in this package.

    Returns:
        x, of the shape of b with broadcast batch axes. With on_error="info" (x, info).

    Raises:
        LinAlgError: a pivot is at most n times the spacing of the dtype at 1 times the largest, which
            no factor on a changes; the code is one plus its position.

    Time n² k multiplications.

    >>> full_piv_lu_solve(full_piv_lu([[2.0, 0.0], [1.0, 4.0]]), [2.0, 9.0])
    array([1., 2.])
    """
    call = "full_piv_lu_solve"
    if not isinstance(factors, (tuple, list)) or len(factors) < 4:
        raise CallError(f"{call}: give what full_piv_lu returned, got {type(factors).__name__}")
    p, q = operand(call, factors[0]), operand(call, factors[3], 3)
    lower, upper, y = common(call, *(operand(call, x) for x in (factors[1], factors[2], b)))
    check_square(call, upper)
    upper, y, is_vector = columns(call, upper, y, y)
    p, lower, q = (broadcast(x, upper.shape) for x in (p, lower, q))
    op = transposed(call, trans)
    attrs = {} if op == "N" else {"trans": op}
    arrays = (p, lower, upper, q, y)
    (x,), info = apply(ops.FULL_PIV_LU_SOLVE, call, arrays, attrs, on_error, check_finite)
    return finished(x, is_vector, b, info, on_error)
