"""Lines of batches that lie last in all arrays, and what contractions take by them."""

from __future__ import annotations

from .contraction import Contraction, Orders, without_ones

SHORTEST = 16  # batches of a line of NumPy, at least,
STRIP = 256  # and bytes of one of our kernel
# seconds of NumPy's two calls, of each line in both of them, and of each byte of products (Zen 4, float32 to
# complex128, lines of 16 to 10000)
BEGUN, LINE, BYTE = 3e-6, 3e-8, 9.5e-11


def line_length(step: Contraction, orders: Orders) -> int:
    """Batches that are neighbours, in the same order, at the end of all three arrays; 1 where there are none,
    or where nobody has decided how one of them lies.

    >>> step = Contraction({0: 4, 1: 3, 2: 1000}, (2,), (0,), (), (1,))
    >>> line_length(step, ((0, 1, 2), (1, 2), (0, 2))), line_length(step, ((0, 1, 2), (1, 2), (2, 0)))
    (1000, 1)
    """
    lhs, rhs, out = (without_ones(step, order) for order in orders)
    length = 1
    if not step.batch or lhs is None or rhs is None or out is None:
        return length
    for x, y, z in zip(reversed(lhs), reversed(rhs), reversed(out), strict=False):
        if not x == y == z:  # a label of all three is one of the batch
            break
        length *= step.sizes[x]
    return length


def are_packed(step: Contraction, orders: Orders) -> bool:
    """Whether batches lie last in both operands, so that BLAS reads neither as it lies."""
    lhs, rhs, _ = orders
    if not lhs or not rhs:
        return False
    return lhs[-1] == rhs[-1] and lhs[-1] in step.batch


def lines_seconds(step: Contraction, orders: Orders) -> float | None:
    """What NumPy takes to multiply lines and to add them up; None where there are none, and of products
    without sums and inner products: there are other ways."""
    batch, m, n, k = step.amounts
    if batch < SHORTEST or m * n == 1 or k < 2:
        return None
    length = line_length(step, orders)
    if length < SHORTEST:
        return None
    products = batch * m * n * k
    return BEGUN + products // length * LINE + products * step.itemsize * BYTE


def are_strips(step: Contraction, orders: Orders) -> bool:
    """Whether the kernel for loops adds lines up strip by strip: real ones, of a strip at least."""
    return step.rate >= 1 and line_length(step, orders) * step.itemsize >= STRIP
