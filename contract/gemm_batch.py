"""Many products of matrices of different sizes: what contractions of block-sparse tensors are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, OptionError, ShapeError, spoken_for
from ..backend.choice import placed
from ..backend.cpu import cpu
from ..backend.door import as_ndarray, check_torch_out, is_torch, to_torch
from ..backend.lent import returned
from ..backend.protocol import Backend
from .arguments import is_number
from .delivery import as_factor, is_given

Pair = tuple[Any, Any]
PLAIN = frozenset(map(np.dtype, "fdFD"))


def gemm_batch(
    pairs: Iterable[tuple[Any, Any]],
    *,
    out: Sequence[Any] | None = None,
    alpha: Any = 1,
    beta: Any = 0,
) -> list[Any]:
    """Products of matrices: c_i = alpha * a_i @ b_i for every pair, on all threads.

    With `out`, c_t = beta * c_t + alpha * sum of a_i @ b_i over all i whose target is c_t: blocks of a
    tensor with a symmetry are such sums. Matrices may differ in size; large products are left to the threads
    of BLAS one after another, the others are shared among einloom's with one thread of BLAS each.

    Args:
        pairs: (a_i, b_i), of shapes [m_i, k_i] and [k_i, n_i] and any strides; a transposed one is not
            copied. Their dtypes promote as in NumPy, each pair by itself; sizes may be 0.
        out: for each pair an array [m_i, n_i] to write to. An array that stands there several times takes
            the sum, in the order of the pairs. Arrays may be parts of one array, overlap each other or
            operands: pairs are then done one after another, and operands are read before anything is
            written.
        alpha, beta: factors of the products and of what `out` holds, which is not read when beta is 0.

    Returns:
        list of arrays [m_i, n_i], those of `out` if given; torch tensors come back as torch.

    Raises:
        ShapeError: a shape does not fit; the message names the pair.
        DTypeError, ConversionError: what cannot be multiplied or stored, or is no array.
        OptionError: beta without out.

    Complexity: sum of m_i k_i n_i multiplications. The same bits for any number of einloom's threads.
    As the gemm_batch of oneMKL and the grouped gemm of cuBLAS, for groups of one.

    >>> import numpy as np
    >>> a, b = np.ones((2, 3)), np.full((3, 1), 2.0)
    >>> gemm_batch([(a, b), (b, b.T)])[1].shape
    (3, 3)
    >>> block = np.ones((2, 1))
    >>> gemm_batch([(a, b), (a, b)], out=[block, block], beta=1)[0]
    array([[13.],
           [13.]])
    """
    given = list(pairs)
    work = _plain_work(given)
    backend: Backend | None = None
    there, into = given, out
    if not work:  # what is plain is all on the host
        backend, there, into = _placed(given, out)
    matrices = given if work else [_matrices(pair, at, backend) for at, pair in enumerate(there)]
    work = work or [a.size * b.shape[1] for a, b in matrices]
    if is_given(alpha, 1):
        alpha = _factor(alpha, {a.dtype for a, _ in matrices}, "alpha")
    if out is None:
        if is_given(beta, 0):
            raise OptionError("gemm_batch(beta=...): beta scales `out`; give out= as well")
        results = (backend or cpu()).gemm_batch(matrices, work, alpha=alpha)
        if matrices is given:
            return results
        return [_as_given(x, pair, backend) for x, pair in zip(results, given, strict=True)]
    if matrices is given and _own_memory(given, out):
        targets = list(out)
        chains = _by_target(targets)
    else:
        targets = _same_places(_targets(into, matrices, backend))
        chains = _chains(targets)
        if _overlaps_operands(targets, matrices):
            matrices = [(a.copy(), b.copy()) for a, b in matrices]
    if is_given(beta, 0):
        beta = _factor(beta, {x.dtype for x in targets}, "beta")
    (backend or cpu()).gemm_batch(matrices, work, targets, chains, alpha, beta)
    if backend is not None:  # torch's stream comes after them all
        returned(backend, targets[:1], chain(chain.from_iterable(given), out))
    return list(out)


# Lists of thousands of small matrices take longer to look at than to multiply, once their headers have left
# the cache: so what is plain is told in one pass.


def _plain_work(pairs: list[Any]) -> list[int] | None:
    """The multiplications of each product; None unless all are matrices of one dtype of BLAS that fit."""
    array, work = np.ndarray, []
    try:
        dtype = pairs[0][0].dtype
        for a, b in pairs:
            (m, k), (rows, n) = a.shape, b.shape
            if k != rows or a.dtype is not dtype or b.dtype is not dtype:
                return None
            if type(a) is not array or type(b) is not array:
                return None
            work.append(m * k * n)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    return work if dtype in PLAIN else None


def _own_memory(pairs: list[Pair], out: Any) -> bool:
    """Whether all targets are as they must be, and all arrays own their memory, targets other memory than
    operands."""
    if not isinstance(out, (list, tuple)) or len(out) != len(pairs):
        return False
    array, dtype = np.ndarray, pairs[0][0].dtype
    for (a, b), x in zip(pairs, out, strict=True):
        if type(x) is not array or x.dtype is not dtype or not x.flags.writeable:
            return False
        if x.shape != (a.shape[0], b.shape[1]):
            return False
        if x.base is not None or a.base is not None or b.base is not None:
            return False
    written = set(map(id, out))
    return written.isdisjoint(map(id, chain.from_iterable(pairs)))


def _as_given(result: Any, pair: Any, backend: Backend | None) -> Any:
    """A product as torch tensor where an operand is one."""
    if backend is not None:
        return returned(backend, result, pair)
    return to_torch(result) if any(map(is_torch, pair)) else result


def _both(pair: Any) -> Any:
    """The members of a pair; of what is none, nothing."""
    return pair if isinstance(pair, (tuple, list)) else ()


def _placed(pairs: list[Any], out: Any) -> tuple[Backend | None, list[Any], Any]:
    """The backend of the device where all lie, if any, and pairs and `out` as its arrays."""
    for x in out or ():
        if type(x) is not np.ndarray and is_torch(x):
            check_torch_out(x, "gemm_batch")
    given = [*chain.from_iterable(map(_both, pairs)), *(out or ())]
    backend, found = placed("gemm_batch", given)
    if backend is None:
        return None, pairs, out
    # a view has a base: what others lend may be one memory, in several arrays
    rest = (x if x is own else x.view() for x, own in zip(found, given, strict=True))
    there = [tuple(next(rest) for _ in pair) if _both(pair) else pair for pair in pairs]
    return backend, there, list(rest) if isinstance(out, (list, tuple)) else out


def _matrices(pair: Any, at: int, backend: Backend | None) -> Pair:
    """Both matrices of a pair in their common dtype."""
    try:
        a, b = pair
    except (TypeError, ValueError):
        raise CallError(f"gemm_batch: pair {at} is {type(pair).__name__}; give (a, b)") from None
    if backend is None:
        a, b = (as_ndarray(x, f"gemm_batch: pair {at}", k) for k, x in enumerate((a, b)))
    for name, x in (("a", a), ("b", b)):
        if x.ndim != 2:
            raise ShapeError(
                f"gemm_batch: pair {at}: {name} has shape {x.shape}; give matrices, of a vector v "
                f"v[:, None] or v[None, :]"
            )
        if not is_number(x.dtype):
            raise DTypeError(
                f"gemm_batch: pair {at}: {name} has dtype {x.dtype}, which cannot be multiplied and "
                f"added; convert it to numbers first"
            )
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"gemm_batch: pair {at}: shapes {a.shape} and {b.shape}: {a.shape[1]} columns do not meet "
            f"{b.shape[0]} rows"
        )
    try:
        dtype = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    except TypeError:
        raise DTypeError(
            f"gemm_batch: pair {at}: dtypes {a.dtype} and {b.dtype} have no common dtype; convert one"
        ) from None
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def _targets(out: Any, matrices: list[Pair], backend: Backend | None) -> list[Any]:
    """`out` as a list of arrays that take these products."""
    if not isinstance(out, (list, tuple)) or len(out) != len(matrices):
        got = f"{len(out)} entries" if isinstance(out, (list, tuple)) else type(out).__name__
        raise CallError(f"gemm_batch(out=...): give a list of {len(matrices)} arrays, got {got}")
    for at, (x, (a, b)) in enumerate(zip(out, matrices, strict=True)):
        is_array = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
        if not is_array and backend is None:
            raise DTypeError(
                f"gemm_batch(out=...): entry {at} must be a numpy.ndarray, got {type(x).__name__}"
            )
        shape = (a.shape[0], b.shape[1])
        if x.shape != shape:
            raise ShapeError(
                f"gemm_batch(out=...): entry {at} has shape {x.shape}, the product of pair {at} {shape}"
            )
        if backend is None and not x.flags.writeable:
            raise ShapeError(
                f"gemm_batch(out=...): entry {at} is read-only; pass a writeable array"
            )
        if not np.can_cast(a.dtype, x.dtype, "same_kind"):
            raise DTypeError(
                f"gemm_batch(out=...): entry {at} has dtype {x.dtype}, which does not hold the "
                f"{a.dtype} of pair {at}; pass an array of that dtype"
            )
    return list(out)


def _factor(value: Any, dtypes: Iterable[np.dtype[Any]], name: str) -> Any:
    with spoken_for("gemm_batch"):
        for dtype in dtypes:
            value = as_factor(value, dtype, name)
    return value


# ---- who writes where -----------------------------------------------------------------------------


def _owner(x: Any) -> Any:
    """The array whose memory this one shows; None where another object owns it."""
    base = x.base
    if base is None:
        return x
    return base if type(base) is np.ndarray and base.base is None else None


def _same_places(targets: list[Any]) -> list[Any]:
    """The targets, one array for all that show the same elements."""
    if _tell_by_owner(targets) and all(x.base is None for x in targets):
        return targets
    known: dict[Any, Any] = {}
    places = []
    for x in targets:
        key = _address(x), x.shape, x.strides, x.dtype
        places.append(known.setdefault(key, x))
    return places


def _tell_by_owner(targets: list[Any]) -> bool:
    """Whether arrays without a base have memory of their own: CuPy's that wrap a pointer have none either."""
    return not targets or isinstance(targets[0], np.ndarray)


def _address(x: Any) -> int:
    """Of the first element, on the host or on the device."""
    found = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    return int(found["data"][0])


def _bounds(x: Any) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    start = end = _address(x)
    if not x.size:
        return start, start
    for n, step in zip(x.shape, x.strides, strict=True):
        if step > 0:
            end += (n - 1) * step
        else:
            start += (n - 1) * step
    return start, end + x.itemsize


def _overlaps_operands(targets: list[Any], matrices: list[Pair]) -> bool:
    """Whether a target and an operand may share memory."""
    written = {id(_owner(x)) for x in targets}
    owners = {id(x if x.base is None else _owner(x)) for pair in matrices for x in pair}
    is_apart = id(None) not in written and id(None) not in owners and written.isdisjoint(owners)
    if is_apart and _tell_by_owner(targets):
        return False
    regions = {(*_bounds(x), True) for x in targets}
    regions |= {(*_bounds(x), False) for pair in matrices for x in pair}
    ends = {True: 0, False: 0}
    for start, end, is_target in sorted(regions):
        if start < end:
            if start < ends[not is_target]:
                return True
            ends[is_target] = max(ends[is_target], end)
    return False


def _chains(targets: list[Any]) -> list[list[int]]:
    """Pairs, in their order, that must be done one after another: those whose targets may share memory."""
    of_array = {id(targets[ats[0]]): ats for ats in _by_target(targets)}
    distinct = [targets[ats[0]] for ats in of_array.values()]
    owners = [_owner(x) for x in distinct]
    is_known = not any(x is None for x in owners)
    if is_known and len({id(x) for x in owners}) == len(distinct):
        return [*of_array.values()]
    chains: list[list[int]] = []
    for cluster in _clusters(distinct):
        if len(cluster) == 1 or _are_apart(cluster):
            chains += (of_array[id(x)] for x in cluster)
        else:
            chains.append(sorted(at for x in cluster for at in of_array[id(x)]))
    return chains


def _by_target(targets: list[Any]) -> list[list[int]]:
    of_array: dict[int, list[int]] = {}
    for at, x in enumerate(targets):
        of_array.setdefault(id(x), []).append(at)
    return [*of_array.values()]


def _clusters(arrays: list[Any]) -> list[list[Any]]:
    """Arrays whose ranges of addresses overlap, together."""
    clusters: list[list[Any]] = []
    behind = 0
    for (start, end), at in sorted((_bounds(x), at) for at, x in enumerate(arrays)):
        if clusters and start < behind:
            clusters[-1].append(arrays[at])
        else:
            clusters.append([arrays[at]])
        behind = max(behind, end)
    return clusters


def _are_apart(arrays: list[Any]) -> bool:
    """Whether these are blocks of one row-major matrix of which no two overlap; False where that is not
    told easily."""
    matrix = _owner(arrays[0])
    if matrix is None or matrix.ndim != 2 or not matrix.flags.c_contiguous:
        return False
    if any(_owner(x) is not matrix or x.strides != matrix.strides for x in arrays):
        return False
    origin, (row, size) = _bounds(matrix)[0], matrix.strides
    blocks = []
    for x in arrays:
        top, left = divmod(_bounds(x)[0] - origin, row)
        blocks.append((top, left, top + x.shape[0], left + x.shape[1] * size))
    # row by row of blocks: in each strip between two edges they stand side by side
    edges = sorted({edge for top, _, bottom, _ in blocks for edge in (top, bottom)})
    if len(edges) > len(blocks) + 1:
        return False  # no grid of blocks
    strip = {edge: k for k, edge in enumerate(edges)}
    spans: list[list[tuple[int, int]]] = [[] for _ in edges]
    for top, left, bottom, right in blocks:
        for k in range(strip[top], strip[bottom]):
            spans[k].append((left, right))
    return all(one[1] <= other[0] for strips in spans for one, other in pairwise(sorted(strips)))
