"""Products by cuTENSOR, where it can be imported.

CuPy keeps descriptors and plans for each device and thread; they are found again by shapes, strides and
labels. What cuTENSOR does not take is not handed to it: sizes of 0, strides of 0, axes of one element, more
than 64 axes, other dtypes than those of BLAS. Where it refuses all the same (an old card, say), the next rung
is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base.caches import Cache
from ..._base.log import log
from ..rules import DotDims
from ..spec import Shape
from .modules import Module, companion

DTYPES = frozenset("fdFD")
MOST_AXES = 64
WORKSPACES = (2, 1)
"""cutensorWorksizePreference_t: the default, and the least where there is no memory for that. With the least
some products take twice as long."""


MODULES: Cache[tuple[Module, Any]] = Cache("cutensor", 16)
"""By array module, which is kept with it: cupyx.cutensor, or None where it failed to import."""


def module(xp: Module) -> Any:
    """cupyx.cutensor, or None. A failing import looks through the disk: it is tried once, until the cache is
    cleared."""
    found = MODULES.get(id(xp))
    return (found or MODULES.put(id(xp), (xp, _imported(xp))))[1]


def _imported(xp: Module) -> Any:
    try:
        return companion(xp, "cutensor")
    except (ImportError, RuntimeError) as error:
        log.debug("cuTENSOR cannot be used: %s", error)
        return None


def takes(xp: Module, dtype: np.dtype[Any], lhs: Any, rhs: Any) -> bool:
    if dtype.char not in DTYPES or lhs.ndim + rhs.ndim > MOST_AXES:
        return False
    strided = all(_is_plain(x) for x in (lhs, rhs))
    return strided and module(xp) is not None


def _is_plain(x: Any) -> bool:
    """Whole, positive strides of elements; descriptors know no others."""
    return all(
        n == 1 or (stride > 0 and stride % x.itemsize == 0)
        for n, stride in zip(x.shape, x.strides, strict=True)
    )


def contract(xp: Module, lhs: Any, rhs: Any, dims: DotDims, shape: Shape, out: Any = None) -> Any:
    """The product, in `out` if that is of its dtype and lies as cuTENSOR writes, or None where cuTENSOR
    refuses it."""
    library = module(xp)
    left, right = labels(dims, lhs.ndim, rhs.ndim)
    shared = [left[axis] for axis in dims.lhs_batch]
    of = (*shared, *(left[a] for a in dims.lhs_free), *(right[b] for b in dims.rhs_free))
    is_fit = out is not None and out.dtype == lhs.dtype and _is_plain(out)
    target = out if is_fit else xp.empty(shape, lhs.dtype)
    terms = ((lhs, left), (rhs, right), (target, of))
    (a, of_a), (b, of_b), (c, of_c) = (_without_ones(*term) for term in terms)
    for preference in WORKSPACES:
        try:
            library.contraction(1.0, a, of_a, b, of_b, 0.0, c, of_c, ws_pref=preference)
            return target
        except MemoryError:
            continue
        except (RuntimeError, ValueError) as error:  # of the library: not supported here
            log.debug("cuTENSOR refuses %s x %s: %s", lhs.shape, rhs.shape, error)
            return None
    return None


def _without_ones(x: Any, names: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Without axes of one element: whatever their strides are, which cuTENSOR looks at."""
    kept = tuple(axis for axis, n in enumerate(x.shape) if n != 1)
    if len(kept) == x.ndim:
        return x, names
    return x.squeeze(), tuple(names[axis] for axis in kept)


def labels(dims: DotDims, left: int, right: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A number for each axis of both operands; axes that belong together have the same."""
    lhs, rhs = list(range(left)), list(range(left, left + right))
    for i, j in zip(
        dims.lhs_batch + dims.lhs_contracting, dims.rhs_batch + dims.rhs_contracting, strict=True
    ):
        rhs[j] = lhs[i]
    return tuple(lhs), tuple(rhs)
