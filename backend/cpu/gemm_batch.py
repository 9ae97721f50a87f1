"""Products of matrices of different sizes, shared out by size.

BLAS with all its threads gains nothing on small matrices, and one product after another leaves the other
cores idle. So a product that is large, and a large part of all the work, is left to the threads of BLAS. The
others are given out to our threads one by one, the largest first, with one thread of BLAS each. Products so
small that BLAS takes one thread anyway, and ours would wait for the interpreter's lock, are done by the
caller. What is done how depends on shapes and dtypes alone, never on the number of our threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import infer
from ..cost_model import ENOUGH, THREADED
from ..protocol import Backend
from ..spec import ArraySpec
from .blas import ONE_BLAS_THREAD
from .buffers import LARGE, empty
from .sharing import BLAS
from .threads import parallel_for

LONE = 1 << 21  # multiplications from which BLAS gains much from threads of its own
SHARE = 16  # a product is left to BLAS's threads from this part of all the work on
PRODUCT = {"contracting": ((1,), (0,)), "batch": ((), ())}
Pairs = Sequence[tuple[Any, Any]]
Finish = Callable[[int], None]


def gemm_batch(
    backend: Backend,
    pairs: Pairs,
    work: Sequence[int],
    out: Sequence[Any] | None,
    chains: Sequence[Sequence[int]],
    alpha: Any,
    beta: Any,
    threads: int,
) -> list[Any]:
    """Backend.gemm_batch for numpy.ndarray; `chains` are looked at where `out` is given."""
    if not {dtype.char for dtype in {a.dtype for a, _ in pairs}} <= _by_blas():
        # kernels of our own have threads themselves
        takes = _by_blas()
        work = [n if a.dtype.char in takes else -1 for (a, _), n in zip(pairs, work, strict=True)]
    if out is None:
        results = _products(backend, pairs, work, threads)
        if alpha != 1:
            for x in results:
                backend.assign(x, x, alpha)
        return results
    # a chain of small products keeps the interpreter's lock as each of them does: the largest counts
    most = [max([work[at] for at in chain]) for chain in chains]
    if min(work, default=0) < 0:
        most = [
            -1 if min([work[at] for at in c]) < 0 else n for c, n in zip(chains, most, strict=True)
        ]
    alone, shared, small = _sorted(most)

    def accumulate(at: int) -> None:
        _accumulate(backend, pairs, out, chains[at], alpha, beta)

    with np.errstate(all="ignore"):
        for at in (*alone, *small):
            accumulate(at)
    _share(accumulate, shared, threads)
    return list(out)


def _by_blas() -> frozenset[str]:
    """Dtypes whose products BLAS makes."""
    return frozenset() if get_options().provider == "native" else BLAS


def _products(backend: Backend, pairs: Pairs, work: Sequence[int], threads: int) -> list[Any]:
    if get_options().small and 0 <= min(work, default=0) <= max(work, default=0) < THREADED:
        # the method: np.dot takes longer to look for overrides than for a tiny product
        with np.errstate(all="ignore"):
            return list(starmap(np.ndarray.dot, pairs))
    alone, shared, small = _sorted(work)
    results: list[Any] = [None] * len(pairs)

    def multiply(at: int) -> None:
        results[at] = _product(backend, *pairs[at])

    with np.errstate(all="ignore"):
        for at in alone:
            multiply(at)
        for at in small:
            a, b = pairs[at]
            results[at] = a.dot(b)
    _share(multiply, shared, threads)
    return results


def _sorted(work: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Tasks left to the threads of BLAS, or to those of a kernel (work of -1); tasks to share out, the
    largest first; and small ones."""
    forced = not get_options().small
    total, least, few = sum(work), 0 if forced else THREADED, 1 if forced else ENOUGH
    shared = [at for at, n in enumerate(work) if n >= least]
    alone = [at for at in shared if work[at] >= max(LONE, total // SHARE)] if shared else []
    taken = set(alone)
    shared = [at for at in shared if at not in taken]
    if sum(work[at] for at in shared) < few:
        alone, shared = sorted((*alone, *shared)), []
    alone += [at for at, n in enumerate(work) if n < 0]
    small = [at for at, n in enumerate(work) if 0 <= n < least]
    shared.sort(key=work.__getitem__, reverse=True)
    return alone, shared, small


def _share(finish: Finish, tasks: list[int], threads: int) -> None:
    """Each thread takes the next task when it is done with one, and BLAS uses no others."""
    if not tasks:
        return
    waiting = deque(tasks)

    def piece(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            while True:
                try:
                    at = waiting.popleft()
                except IndexError:
                    return
                try:
                    finish(at)
                except BaseException:
                    waiting.clear()
                    raise

    with ONE_BLAS_THREAD:
        parallel_for(piece, min(threads, len(tasks)), threads)


def _accumulate(
    backend: Backend, pairs: Pairs, out: Sequence[Any], chain: Sequence[int], alpha: Any, beta: Any
) -> None:
    """The pairs of a chain, each into its target; beta counts once for each target."""
    target, scale = None, beta
    begun: set[int] = set()
    for at in chain:
        a, b = pairs[at]
        if out[at] is not target:  # most chains have one
            target = out[at]
            scale = 1 if id(target) in begun else beta
            begun.add(id(target))
            is_same = alpha == 1 and target.dtype == a.dtype
            is_plain = is_same and target.dtype.char in _by_blas() and target.nbytes < LARGE
        if is_plain and scale == 1 and a.dtype is target.dtype:
            np.add(target, a.dot(b), out=target)
        elif is_same and scale == 0 and target.flags.c_contiguous and target.flags.aligned:
            _product(backend, a, b, target)
        else:
            backend.assign(target, _product(backend, a, b), alpha, scale)
        scale = 1


def _product(backend: Backend, a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.char in _by_blas():
        if out is not None:
            return a.dot(b, out)
        m, n = a.shape[0], b.shape[1]
        if m * n * a.itemsize < LARGE:
            return a.dot(b)
        return a.dot(b, empty((m, n), a.dtype))
    inputs = ArraySpec(a.dtype, a.shape), ArraySpec(b.dtype, b.shape)
    outputs = infer("dot_general", PRODUCT, inputs)
    kernel = backend.bind("dot_general", PRODUCT, inputs, outputs)
    return kernel(a, b) if out is None else kernel(a, b, out=out)
