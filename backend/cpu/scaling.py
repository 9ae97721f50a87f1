"""Powers of two: the one that brings an array to unit size, and multiplication by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..dtypes import real_of
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .buffers import empty
from .elementwise import BLOCK, blocks_within, over_blocks, through_float32
from .threads import parallel_for

MOST = 1 << 20  # beyond the exponents of every dtype, and within those that np.ldexp takes


def bind_normal_exponent(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for k with 1/2 <= 2**k max |x| < 1."""
    (spec,) = inputs
    wide = real_of(compute_dtype(spec.dtype))

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty((), output.dtype)
        largest = _largest(x, wide)
        out[...] = -np.frexp(largest)[1] if 0 < largest < np.inf else 0
        return out

    return run


def bind_ldexp(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for x * 2**k, part by part where numbers are complex."""
    real: np.dtype[Any] = real_of(compute_dtype(output.dtype))
    least, most = int(np.finfo(real).minexp), int(np.finfo(real).maxexp)
    one, is_complex = real.type(1), output.dtype.kind == "c"
    is_half = compute_dtype(output.dtype) != output.dtype

    def run(x: Any, k: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        exponent = max(-MOST, min(MOST, int(k)))
        # one product rounds once; NumPy's ldexp does as well, for any exponent, but is not vectorised
        is_normal = least <= exponent < most
        by = np.ldexp(one, exponent) if is_normal else np.intc(exponent)
        scale = np.multiply if is_normal else np.ldexp

        def evaluate(target: Any, x: Any) -> None:
            if is_complex:
                scale(x.real, by, out=target.real)
                scale(x.imag, by, out=target.imag)
            else:
                scale(x, by, out=target)

        block = through_float32(evaluate, inputs[:1], output) if is_half else evaluate
        return over_blocks(block, out, (x,), cut=is_half)

    return run


def _largest(x: Any, wide: np.dtype[Any]) -> Any:
    """max |x| over the real and imaginary parts, NaN if any is; 0 of nothing. Large arrays on all threads."""
    if not x.ndim or x.size < max(1, get_options().small):
        return _extreme(x, wide)
    lines = np.moveaxis(x, int(np.argmax(x.shape)), 0)
    step = max(1, BLOCK * len(lines) // max(1, x.nbytes))
    found: list[Any] = []

    def piece(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            part = lines[at : min(at + step, stop)]
            for index in blocks_within(part.shape, BLOCK // x.itemsize):
                found.append(_extreme(part[index], wide))

    parallel_for(piece, len(lines))
    return np.maximum.reduce(np.array(found, wide), initial=0)


def _extreme(x: Any, wide: np.dtype[Any]) -> Any:
    if x.dtype.kind == "c":
        return np.maximum(_extreme(x.real, wide), _extreme(x.imag, wide))
    return np.maximum.reduce(np.absolute(x.astype(wide, copy=False)), axis=None, initial=0)


def normal_exponent_scratch_bytes(x: ArraySpec, threads: int) -> int:
    """Upper bound of the absolute values, of a block in each thread where x is large, and of it widened."""
    is_large = x.size >= max(1, get_options().small)
    return 4 * threads * BLOCK if is_large else 3 * x.size * compute_dtype(x.dtype).itemsize
