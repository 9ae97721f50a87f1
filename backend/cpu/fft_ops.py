"""The ops fft, ifft, rfft and irfft: unnormalised transforms, but for the factor `scale`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .buffers import empty
from .fft import Kind, Transform, transform

KINDS: dict[str, tuple[Kind, bool]] = {
    "fft": ("c2c", True),
    "ifft": ("c2c", False),
    "rfft": ("r2c", True),
    "irfft": ("c2r", False),
}
WITHIN = 4  # units in the last place by which a scale may miss 1/N and be taken for it
LINES = 1 << 22  # bytes of what the library and our kernel keep for lines, in each thread


def bind_fft(op: str) -> Callable[[Attrs, tuple[ArraySpec, ...], ArraySpec], Kernel]:
    kind, forward = KINDS[op]

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        axes, n, scale = attrs["axes"], attrs.get("n", 0), attrs.get("scale", 1.0)
        lengths = [
            n if op == "irfft" and axis == axes[-1] else inputs[0].shape[axis] for axis in axes
        ]
        norm, rest = _as_norm(scale, math.prod(lengths))
        what = Transform(kind, forward, norm, n)
        wide = compute_dtype(inputs[0].dtype)

        def run(x: Any, out: Any = None) -> Any:
            if out is not None and not out.flags.aligned:  # the library takes it for aligned
                np.copyto(out, run(x))
                return out
            if out is None:
                out = empty(output.shape, output.dtype)
            if not x.size or not axes:
                out[...] = x if x.size else 0
            elif x.dtype == wide and x.flags.aligned:
                transform(what, x, axes, out)
            else:
                transform(what, x.astype(wide), axes, out)
            return out if rest == 1 else np.multiply(out, out.real.dtype.type(rest), out=out)

        return run

    return bind


def _as_norm(scale: float, total: int) -> tuple[int, float]:
    """What the library divides by, as it counts norms, and the factor that is left."""
    for norm, divisor in ((0, 1.0), (1, math.sqrt(total)), (2, float(total))):
        if math.isclose(scale * divisor, 1, rel_tol=WITHIN * 2.0**-53):
            return norm, 1.0
    return 0, scale


def fft_scratch_bytes(op: str, attrs: Attrs, x: ArraySpec, threads: int) -> int:
    """A widened operand, what lies between the axes of irfft, and lines in each thread."""
    wide = compute_dtype(x.dtype)
    copies = (not x.dtype.isnative or wide != x.dtype) + (op == "irfft" and len(attrs["axes"]) > 1)
    return x.size * wide.itemsize * copies + threads * min(LINES, 64 * x.size * wide.itemsize)
