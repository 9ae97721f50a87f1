"""What a batch of matrices looks like, and which method that speaks for: one visible ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.errors import ConversionError, OptionError
from ..backend.cpu.linalg.structured import bandwidths
from ..program.trace import Traced
from .operands import Array, adjoint, matrix

KINDS = {
    "diagonal": "division",
    "upper triangular": "substitution",
    "lower triangular": "substitution",
    "banded": "banded LU",
    "positive definite": "Cholesky",
    "symmetric": "Bunch-Kaufman",
    "hermitian": "Bunch-Kaufman",
    "general": "LU with partial pivoting",
    "tall": "QR, least squares",
    "wide": "SVD, least norm",
}

_SHORT = {
    "gen": "general",
    "sym": "symmetric",
    "her": "hermitian",
    "pos": "positive definite",
    "tridiagonal": "banded",
    None: "auto",
}
"""Names of `scipy.linalg.solve`."""

BAND = 4
"""A band pays when it is this many times narrower than the matrix."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What `select` chose: the kind of the matrices, its method, and why."""

    kind: str
    reason: str

    @property
    def method(self) -> str:
        return KINDS[self.kind]

    def __str__(self) -> str:
        return f"{self.kind}: {self.method}, because {self.reason}"


def select(a: Any) -> Choice:
    """The method that suits all matrices of a batch; what `factorize` and assume_a="auto" take.

    The first that holds, of elements that are exactly zero or equal:

    1. not square: "tall" (more rows) or "wide";
    2. zero off the diagonal: "diagonal";
    3. zero below or above it: "upper triangular", "lower triangular";
    4. zero outside a band four times narrower than the matrix: "banded";
    5. aᴴ = a with a positive diagonal: "positive definite", until Cholesky fails;
    6. else "general".

    Args:
        a: [..., m, n].

    Returns:
        Choice(kind, reason), with the method as `.method`.

    Time about m n comparisons for each matrix.

    >>> print(select([[2.0, 1.0], [1.0, 2.0]]))
    positive definite: Cholesky, because a equals its adjoint and its diagonal is positive
    >>> select([[2.0, 1.0], [0.0, 2.0]]).kind
    'upper triangular'
    """
    x = matrix("select", a)
    if type(x) is Traced:
        raise ConversionError(
            f"select: {x!r} is traced and has no elements yet; name the kind, or use "
            f'solve(assume_a="auto"), which looks at them when the program runs'
        )
    m, n = x.shape[-2:]
    if m != n:
        kind = "tall" if m > n else "wide"
        return Choice(kind, f"matrices are {m} by {n}")
    lower, upper = bandwidths(x)
    if lower == upper == 0:
        return Choice("diagonal", "elements off the diagonal are zero")
    if lower == 0:
        return Choice("upper triangular", "elements below the diagonal are zero")
    if upper == 0:
        return Choice("lower triangular", "elements above the diagonal are zero")
    if BAND * (lower + upper + 1) <= n:
        return Choice("banded", f"elements off {lower} + 1 + {upper} diagonals of {n} are zero")
    if is_hermitian(x):
        return Choice("positive definite", "a equals its adjoint and its diagonal is positive")
    return Choice("general", "no other form holds")


def is_hermitian(a: Array) -> bool:
    """Whether all are Hermitian with a positive diagonal; one element is looked at before all are."""
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if not (diagonal.real > 0).all() or (a[..., 0, -1] != a[..., -1, 0].conj()).any():
        return False
    return bool((a == adjoint(a)).all())


def kind_of(call: str, argument: str, kind: Any) -> str:
    """A kind by its full name, or "auto"."""
    kind = _SHORT.get(kind, kind) if kind is None or isinstance(kind, str) else kind
    if kind == "auto" or kind in KINDS:
        return str(kind)
    raise OptionError(f'{call}({argument}={kind!r}): give "auto" or one of {", ".join(KINDS)}')
