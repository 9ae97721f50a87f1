"""What functions that numpy.linalg has not share: operands in, failures out."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import numpy as np

from .._base.errors import DTypeError, OptionError, ShapeError
from ..backend.door import as_ndarray

Array = np.ndarray[Any, Any]
OnError = Literal["raise", "nan"]
DTYPES = "fdFD"


class Failure(Enum):
    """What a positive `info` means."""

    SVD = "SVD did not converge"
    EIG = "eigenvalues did not converge"
    SINGULAR = "singular matrix"
    NOT_DEFINITE = "matrix is not positive definite"
    NO_ROOT = "the matrix has no square root that is found from its Schur form"


def matrices(a: Any, call: str, position: int = 0, check_finite: bool = True) -> Array:
    """An operand as array [..., m, n] of float32, float64, complex64 or complex128."""
    x = as_ndarray(a, call, position)
    if x.ndim < 2:
        raise ShapeError(
            f"{call}: operand {position} has shape {x.shape}; give matrices [..., m, n]"
        )
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if x.dtype.char not in DTYPES:
        raise DTypeError(
            f"{call}: operand {position} has dtype {x.dtype}; convert it to float32, float64, "
            f"complex64 or complex128"
        )
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if check_finite and not np.isfinite(x).all():
        raise OptionError(
            f"{call}: operand {position} has elements that are NaN or infinite; remove them, or pass "
            f"check_finite=False"
        )
    return x


def square(a: Any, call: str, position: int = 0, check_finite: bool = True) -> Array:
    """`matrices`, and they must be square."""
    x = matrices(a, call, position, check_finite)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{call}: operand {position} has shape {x.shape}; give square matrices [..., n, n]"
        )
    return x


def settle(call: str, info: Array, what: Failure, on_error: OnError, *results: Array) -> None:
    """Raise where `info` is positive, or fill those members of the results with NaN."""
    bad = info > 0
    if not bad.any():
        return
    if on_error == "raise":
        failed = [tuple(map(int, at)) for at in np.argwhere(bad)]
        raise np.linalg.LinAlgError(f"{call}: {what.value}: {failed[:3]}")
    for x in results:
        x[bad] = np.nan
