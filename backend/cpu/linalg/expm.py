"""Exponentials of batches of matrices: Taylor polynomials of few products, scaling and squaring.

exp(A) = T(A / 2^s)^(2^s), where T is the Taylor polynomial of degree 4, 8, 12 or 18, evaluated with 2, 3, 4
or 5 products. P. Bader, S. Blanes, F. Casas, Mathematics 7, 1174 (2019): the forms, their coefficients and
the norms up to which a degree is exact to rounding. Where A is scaled, s is chosen by the norms of A² and
A³ instead of A's, as A. Al-Mohy and N. Higham do, SIAM J. Matrix Anal. Appl. 31, 970 (2009), theorem 4.2:
matrices that are far from normal are not scaled for nothing.

The kernel and the plain way run the same lists of steps. A step makes a slot: a product of two, or a sum of
four with factors and the identity. Slot 0 is A, then the result.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...._base.options import get_options
from ..blas import ONE_BLAS_THREAD
from ..buffers import empty
from ..kernels.across import PAIRS, STRIP
from ..kernels.expm import BACK, HALVE, PRODUCT, SUM, column_norms, expm_lanes
from ..kernels.vectors import LINE, side
from ..threads import parallel_for

Array = np.ndarray[Any, Any]
Step = tuple[int, tuple[int, ...], tuple[float, ...]]

WIDEST = 16  # matrices beyond are left to BLAS one by one: the slots of a strip leave the cache
SLOTS = 10
FEW = 4  # small matrices, up to which a call of SciPy for each takes less time than the steps by np.matmul
SMALL = 32  # order, for that
CHUNK = 1 << 18  # bytes of a stack of matrices that is done at once
FAR = 1024.0  # norm beyond which triangular matrices are left to SciPy (_mend_far)

THETA = {  # the largest norm for degrees 4, 8, 12 and 18
    "f": (5.116619363445086e-02, 5.800524627688768e-01, 1.461661507209034e00, 3.010066362817634e00),
    "d": (
        3.397168839976962e-04,
        4.991228871115323e-02,
        2.996158913811580e-01,
        1.090863719290036e00,
    ),
}

_ROOT = 177**0.5
_X3 = 2 / 3
_X1, _X2 = _X3 * (1 + _ROOT) / 88, _X3 * (1 + _ROOT) / 352
_X4, _X5 = (-271 + 29 * _ROOT) / (315 * _X3), 11 * (-1 + _ROOT) / (1260 * _X3)
_X6, _X7 = 11 * (-9 + _ROOT) / (5040 * _X3), (89 - _ROOT) / (5040 * _X3 * _X3)
_Y2 = (857 - 58 * _ROOT) / 630

B12 = (  # rows: factors of 1, A, A², A³
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (
        5.31597895759871264183,
        1.19926790417132231573,
        0.01179296240992997031,
        0.01108844528519167989,
    ),
    (
        0.18188869982170434744,
        0.05502798439925399070,
        0.09351590770535414968,
        0.00610700528898058230,
    ),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)
B18 = (  # rows: factors of 1, A, A², A³, A⁶
    (0.0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0.0),
    (0.0, 3.97849749499645077844e-01, 1.36783778460411720168, 4.98289622525382669416e-01,
     -6.37898194594723280150e-04),
    (-1.09676396052962061844e01, 1.68015813878906206114, 5.71779846478865511061e-02,
     -6.98210122488052056106e-03, 3.34975017086070470649e-05),
    (-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02,
     2.95552570429315521194e-02, -1.39180257516060693404e-05),
    (0.0, 0.0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05),
)  # fmt: skip


def product(to: int, x: int, y: int) -> Step:
    """slot to = slot x @ slot y; it is another slot than both."""
    return PRODUCT, (to, x, y, 0, 0), (0.0,) * 5


def add(to: int, terms: dict[int, float], one: float = 0.0) -> Step:
    """slot to = sum of factor * slot, of at most four other ones, + one * identity."""
    slots, factors = [*terms], [*terms.values()]
    rest = 4 - len(slots)  # a slot that is read anyway: others may hold no numbers
    return SUM, (to, *slots, *slots[:1] * rest), (*factors, *[0.0] * rest, one)


def _combined(to: int, row: tuple[float, ...], powers: tuple[int, ...]) -> Step:
    one, *factors = row
    return add(to, {p: f for p, f in zip(powers, factors, strict=True) if f}, one)


LISTS: tuple[tuple[Step, ...], ...] = (
    (
        product(1, 0, 0),  # T4 = 1 + A + A² (1/2 + A/6 + A²/24)
        add(2, {0: 1 / 6, 1: 1 / 24}, 0.5),
        product(3, 1, 2),
        add(4, {3: 1.0, 0: 1.0}, 1.0),
        add(0, {4: 1.0}),
    ),
    (
        product(1, 0, 0),
        add(2, {0: _X1, 1: _X2}),
        product(3, 1, 2),  # A⁴
        add(4, {1: _X3, 3: 1.0}),
        add(5, {0: _X5, 1: _X6, 3: _X7}, _X4),
        product(6, 4, 5),  # A⁸
        add(7, {0: 1.0, 1: _Y2, 6: 1.0}, 1.0),
        add(0, {7: 1.0}),
    ),
    (
        product(1, 0, 0),
        product(2, 0, 1),
        *(_combined(3 + k, row, (0, 1, 2)) for k, row in enumerate(B12)),
        product(7, 6, 6),
        add(0, {7: 1.0, 5: 1.0}),  # A⁶ = B3 + B4²
        add(8, {4: 1.0, 0: 1.0}),
        product(7, 8, 0),
        add(0, {7: 1.0, 3: 1.0}),  # T12 = B1 + (B2 + A⁶) A⁶
    ),
    (
        (HALVE, (0,) * 5, (0.0,) * 5),
        product(1, 0, 0),
        product(2, 0, 1),
        (BACK, (0,) * 5, (0.0,) * 5),
        product(3, 2, 2),
        *(_combined(4 + k, row, (0, 1, 2, 3)) for k, row in enumerate(B18)),
        product(9, 4, 8),
        add(0, {9: 1.0, 7: 1.0}),  # A⁹ = B1 B5 + B4
        add(9, {6: 1.0, 0: 1.0}),
        product(4, 9, 0),
        add(0, {4: 1.0, 5: 1.0}),  # T18 = B2 + (B3 + A⁹) A⁹
    ),
)


def expm(a: Array) -> Array:
    """exp(a) of square matrices [..., n, n] of any strides; of NaN and infinity it is NaN somewhere."""
    n = a.shape[-1]
    if n <= 1:  # numbers, or nothing
        with np.errstate(all="ignore"):
            return np.asarray(np.exp(a))
    if a.size == 0:
        return np.empty(a.shape, a.dtype)
    flat = np.ascontiguousarray(a).reshape(-1, n, n)
    work = 8 * flat.shape[0] * n**3 * (4 if a.dtype.kind == "c" else 1)
    small = get_options().small
    if n <= SMALL and len(flat) <= FEW and work < small:
        return _one_by_one(flat).reshape(a.shape)
    if n <= WIDEST and work >= small:
        return _in_lanes(flat).reshape(a.shape)
    return _plain(flat).reshape(a.shape)


class Tables(NamedTuple):
    """What the kernel needs for matrices of one size and dtype."""

    sizes: Array
    places: Array
    begins: Array
    steps: Array
    factors: Array


@cache
def _tables(n: int, char: str) -> Tables:
    dtype = np.dtype(char)
    parts = 2 if dtype.kind == "c" else 1
    real = np.dtype(char.lower())
    width = (PAIRS if parts == 2 else STRIP) * LINE // real.itemsize
    element = parts * width
    rows, columns = np.arange(n) * element, np.arange(n) * n * element
    every = np.arange(n * n * parts) * width
    spare = np.full(
        side(real.itemsize), every.size * width
    )  # zeros go to slot 1, which is not made yet
    listed = [step for steps in LISTS for step in steps]
    return Tables(
        np.array([n, width, side(real.itemsize), parts], np.int64),
        np.concatenate([rows, columns, every, spare]).astype(np.int64),
        np.cumsum([0, *map(len, LISTS)]),
        np.array([[kind, *slots] for kind, slots, _ in listed], np.int64),
        np.array([factors for _, _, factors in listed], real),
    )


def _in_lanes(a: Array) -> Array:
    """By the kernel; matrices that take the same list, and are halved about as often, share a strip."""
    count, n = a.shape[0], a.shape[-1]
    tables, real = _tables(n, a.dtype.char), np.dtype(a.dtype.char.lower())
    theta = np.array(THETA[real.char])
    norms = np.empty(count, real)
    flat, parts = a.view(real).reshape(-1), int(tables.sizes[3])
    parallel_for(lambda start, stop: column_norms(start, stop, flat, n, parts, norms), count)
    members, lists = _strips(norms, theta, int(tables.sizes[1]))
    out = empty(a.shape, a.dtype)
    addresses = np.array([x.__array_interface__["data"][0] for x in (a, out)], np.int64)
    elements = SLOTS * n * n * parts * int(tables.sizes[1])

    def piece(start: int, stop: int) -> None:
        expm_lanes(
            start, stop, addresses, members, lists, tables.begins, tables.steps, tables.factors,
            tables.places, tables.sizes, theta[-1], np.zeros(elements, real),
        )  # fmt: skip

    parallel_for(piece, len(lists))
    _mend_far(a, norms, out)
    return out


def _strips(norms: Array, theta: Array, width: int) -> tuple[Array, Array]:
    """(members [strips, lanes], list of each strip); the last strip of a list repeats its last member."""
    which = np.searchsorted(theta[:-1], norms).astype(np.int16)
    scaled = norms > theta[-1]
    if scaled.any():
        with np.errstate(over="ignore", invalid="ignore"):
            halvings = np.frexp(norms / theta[-1])[1]
        which = which + np.where(scaled, halvings, 0).astype(np.int16)
    order = np.argsort(which, kind="stable")
    counts = np.bincount(np.minimum(which, len(theta) - 1), minlength=len(theta))
    members, lists, start = [], [], 0
    for at, size in enumerate(counts):
        if size:
            strips = -(-size // width)
            some = np.full(strips * width, order[start + size - 1])
            some[:size] = order[start : start + size]
            members.append(some.reshape(strips, width))
            lists.append(np.full(strips, at))
        start += size
    return np.concatenate(members), np.concatenate(lists)


def _mend_far(a: Array, norms: Array, out: Array) -> None:
    """Triangular matrices with large elements beside the diagonal, for which out is made anew.

    They are scaled until nothing is left of the diagonal, each squaring doubles its error, and yet the
    exponentials of its elements are that of the result. SciPy puts them in after each squaring.
    """
    far = np.flatnonzero(norms > FAR)
    if not len(far):
        return
    below = np.any(np.tril(a[far], -1) != 0, axis=(-2, -1))
    above = np.any(np.triu(a[far], 1) != 0, axis=(-2, -1))
    which = far[~(below & above)]
    wide = a[which].astype(np.result_type(a.dtype, np.float64))  # SciPy's norms of powers overflow
    with np.errstate(all="ignore"):
        out[which] = _one_by_one(wide)


# ---- without a compiler ---------------------------------------------------------------------------


def _one_by_one(a: Array) -> Array:
    from scipy.linalg import expm

    out = np.empty(a.shape, a.dtype)
    with np.errstate(all="ignore"):
        for k, x in enumerate(a):
            out[k] = expm(x)
    return out


def _plain(a: Array) -> Array:
    """Stacks of matrices by np.matmul, shared among threads."""
    count, out = a.shape[0], empty(a.shape, a.dtype)
    size = max(1, CHUNK // a[0].nbytes)
    chunks = -(-count // size)

    def run(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):  # each thread has its own
            for chunk in range(start, stop):
                part = slice(chunk * size, (chunk + 1) * size)
                _of_stack(a[part], out[part])

    if chunks == 1:
        run(0, 1)
    else:
        with ONE_BLAS_THREAD:
            parallel_for(run, chunks)
    return out


def _of_stack(a: Array, out: Array) -> None:
    theta = np.array(THETA[a.dtype.char.lower()])
    norms = np.abs(a).sum(axis=-2).max(axis=-1)
    which = np.searchsorted(theta[:-1], norms)
    for at in set(which.tolist()):
        mine = which == at
        if mine.all():
            out[...] = _by_steps(a, LISTS[at], theta[-1])
        else:
            out[mine] = _by_steps(a[mine], LISTS[at], theta[-1])
    _mend_far(a, norms, out)


def _by_steps(a: Array, steps: tuple[Step, ...], theta: float) -> Array:
    slots: list[Any] = [a, *[None] * (SLOTS - 1)]
    halved = np.zeros(len(a), np.int64)
    for kind, (to, *read), factors in steps:
        if kind == PRODUCT:
            slots[to] = slots[read[0]] @ slots[read[1]]
        elif kind == SUM:
            slots[to] = _sum(slots, read, factors)
        elif kind == HALVE:
            halved = _halvings(_norms(a) / theta)
            slots[0] = _scaled(a, -halved)
        elif halved.any():
            root = np.maximum(_norms(slots[1]) ** 0.5, _norms(slots[2]) ** (1 / 3))
            back = np.minimum(halved, _halvings(theta / root, np.floor))
            back = np.where(root == 0, halved, back)
            slots[:3] = (_scaled(x, (k + 1) * back) for k, x in enumerate(slots[:3]))
            halved = halved - back
    x = slots[0]
    for squared in range(halved.max(initial=0)):
        more = halved > squared
        if more.all():
            x = x @ x
        else:
            x[more] = x[more] @ x[more]
    return x


def _sum(slots: list[Any], read: list[int], factors: tuple[float, ...]) -> Array:
    (first, factor), *terms = [(k, f) for k, f in zip(read, factors, strict=False) if f]
    total = slots[first] * factor
    for k, f in terms:
        total += slots[k] if f == 1 else slots[k] * f
    if one := factors[-1]:
        flat = total.reshape(len(total), -1)  # a view: what products and sums make is contiguous
        flat[:, :: total.shape[-1] + 1] += one
    return total


def _norms(a: Array) -> Array:
    return np.abs(a).sum(axis=-2).max(axis=-1).astype(np.float64)


def _halvings(ratio: Array, rounded: Any = np.ceil) -> Array:
    """Powers of 2 in the ratio, not negative; none where it is no number."""
    good = (ratio > 1) & (ratio < np.inf)
    return np.where(good, rounded(np.log2(np.where(good, ratio, 1))), 0).astype(np.int64)


def _scaled(a: Array, powers: Array) -> Array:
    if not powers.any():
        return a
    return a * np.exp2(powers).astype(a.real.dtype)[:, None, None]
