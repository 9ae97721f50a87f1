"""Batches of matrix products as calls of strided-batched cuBLAS: which flags and distances say how they lie.

cuBLAS reads a matrix s whose columns lie side by side, `ld` elements apart: it is x itself (N), or x is its
transpose (T), or its adjoint (C). So x must be dense along its rows or along its columns; the result along
its rows, and where it is dense along its columns, c^T = b^T a^T is the product that is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from .blas import Multiply
from .modules import Module
from .routines import routines

Op = Literal["N", "T", "C"]
MOST = 1 << 31  # sizes and distances are integers of 32 bits


class Matrices(NamedTuple):
    """A batch of matrices: sizes, and strides in elements."""

    rows: int
    columns: int
    batch_stride: int
    row_stride: int
    column_stride: int

    @property
    def transposed(self) -> Matrices:
        return Matrices(
            self.columns, self.rows, self.batch_stride, self.column_stride, self.row_stride
        )

    @property
    def are_dense(self) -> bool:
        """Along their rows or along their columns."""
        return self.distance() is not None or self.transposed.distance() is not None

    def distance(self) -> int | None:
        """`ld` where columns are dense: between columns, which do not overlap; None where they are not."""
        if self.rows > 1 and self.row_stride != 1:
            return None
        if self.columns == 1:
            return self.rows
        return self.column_stride if self.column_stride >= self.rows else None


@dataclass(frozen=True, slots=True)
class Side:
    """An operand of a call: its flag, the distance of its columns, and of one matrix from the next."""

    op: Op
    ld: int
    stride: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """c[m, n] = alpha op(a) op(b) + beta c of each matrix of the batch, stored by columns.

    Attributes:
        swaps: whether a is the right operand of the product that was asked for.
    """

    swaps: bool
    m: int
    n: int
    k: int
    a: Side
    b: Side
    ldc: int
    stride_c: int
    batch: int


def gemm_of(
    lhs: Matrices, rhs: Matrices, out: Matrices, batch: int, conj: tuple[bool, bool]
) -> Gemm | None:
    """The call for out = lhs rhs, or None where one of the three does not lie as it must.

    >>> x = Matrices(2, 3, 6, 3, 1)  # row-major
    >>> gemm_of(x, Matrices(3, 4, 12, 4, 1), Matrices(2, 4, 8, 4, 1), 10, (False, False)).a
    Side(op='N', ld=4, stride=12)
    """
    swaps = out.transposed.distance() is not None  # row-major: the usual case
    if swaps:
        lhs, rhs, out, conj = rhs.transposed, lhs.transposed, out.transposed, conj[::-1]
    ldc, a, b = out.distance(), side_of(lhs, conj[0]), side_of(rhs, conj[1])
    if ldc is None or a is None or b is None:
        return None
    made = Gemm(swaps, lhs.rows, rhs.columns, lhs.columns, a, b, ldc, out.batch_stride, batch)
    numbers = (made.m, made.n, made.k, a.ld, b.ld, ldc, batch)
    strides = (a.stride, b.stride, made.stride_c)
    return made if max(numbers) < MOST and min(strides) >= 0 else None


def side_of(x: Matrices, conj: bool) -> Side | None:
    """How x is said to cuBLAS; a conjugate is the adjoint of what is stored."""
    ld = None if conj else x.distance()
    if ld is not None:
        return Side("N", ld, x.batch_stride)
    ld = x.transposed.distance()
    return None if ld is None else Side("C" if conj else "T", ld, x.batch_stride)


def bound(
    xp: Module,
    call: Gemm,
    of: Any,
    made: Any,
    factors: tuple[Any, Any] = (1, 0),
    precision: str = "full",
) -> Multiply:
    """`multiply(lhs, rhs, out)` that queues the call, for operands of dtype `of` and results of dtype `made`,
    which is the same or that of the sum. Half precisions and single are summed in single precision, others in
    their own. Arrays are known by their first elements."""
    wide = SUMMED.get(of.name, of)
    alpha, beta = (np.array(x, wide) for x in factors)
    found: Multiply = routines(xp).bound(call, of, made, (alpha, beta), precision)
    return found


SUMMED = {"float16": np.dtype(np.float32), "bfloat16": np.dtype(np.float32)}
DTYPES = frozenset(("float16", "bfloat16", "float32", "float64", "complex64", "complex128"))
