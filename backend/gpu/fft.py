"""The ops fft, ifft, rfft and irfft by the module's own transforms; plans are its to keep."""

from __future__ import annotations

import math
from typing import Any

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .arrays import Binder, into
from .modules import Module

OPS = ("fft", "ifft", "rfft", "irfft")


def bind_fft(op: str) -> Binder:
    def bind(xp: Module, attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        axes, scale, n = attrs["axes"], attrs.get("scale", 1.0), attrs.get("n", 0)
        wide = compute_dtype(inputs[0].dtype)

        def compute(x: Any) -> Any:
            if not x.size or not axes:
                return (x if x.size else xp.zeros(output.shape, output.dtype)) * scale
            x = x.astype(wide, copy=False)
            y = half_spectrum(xp, x, axes, n) if op == "irfft" else _complex(xp, op, x, axes)
            return y if math.isclose(scale, 1, rel_tol=0) else y * scale

        return into(xp, compute, output)

    return bind


def _complex(xp: Module, op: str, x: Any, axes: tuple[int, ...]) -> Any:
    if op == "ifft":
        return xp.fft.ifftn(x, axes=axes, norm="forward")
    return getattr(xp.fft, f"{op}n")(x, axes=axes)


def half_spectrum(xp: Module, x: Any, axes: tuple[int, ...], n: int) -> Any:
    """Unnormalised, to n real numbers along the last of the axes.

    What the library makes of imaginary parts where the spectrum of real numbers has none is not said:
    they are cleared, after the other axes are transformed.
    """
    *others, last = axes
    x = xp.fft.ifftn(x, axes=others, norm="forward") if others else x.copy()
    ahead = (slice(None),) * last
    for k in (0, n // 2) if n % 2 == 0 else (0,):
        if k < x.shape[last]:
            x[(*ahead, k, ...)] = x[(*ahead, k, ...)].real
    return xp.fft.irfft(x, n=n, axis=last, norm="forward")


BINDERS: dict[str, Binder] = {op: bind_fft(op) for op in OPS}
