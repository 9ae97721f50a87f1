"""Cosine and sine transforms as extension families of programs.

fft, ifft, rfft and irfft are ops of the catalogue; dct and dst are the families "fft.dct.v1" and
"fft.dst.v1", of which the attributes are `axes`, `type`, `norm` (0, 1, 2 divides by 1, sqrt(N), N) and
`orthogonalize`.
"""

from __future__ import annotations

from typing import Any

from .._base.errors import ProgramError
from ..backend.catalogue import Attrs
from ..backend.cpu.fft import Kind, Transform, transform
from ..backend.rules import check_axes
from ..backend.spec import ArraySpec, Axes
from ..program.extension import register_family, register_runtime
from ..program.trace import Traced, traced_extension

NAMES: dict[str, str] = {"dct": "fft.dct.v1", "dst": "fft.dst.v1"}


def _infer(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    (x,) = inputs
    check_axes("dct, dst", "axes", attrs["axes"], len(x.shape))
    if attrs["type"] not in (1, 2, 3, 4) or attrs["norm"] not in (0, 1, 2):
        raise ProgramError(f"dct, dst: no such type or norm in {attrs}")
    if x.dtype.char not in "fdg":
        raise ProgramError(f"dct, dst: take float32, float64 and longdouble, got {x}")
    return (x,)


def _runtime(kind: Kind) -> Any:
    def run(attrs: Attrs, x: Any) -> tuple[Any, ...]:
        what = Transform(kind, True, attrs["norm"], 0, attrs["type"], attrs["orthogonalize"])
        x = x if x.flags.aligned else x.copy()
        return (transform(what, x, attrs["axes"]),)

    return run


_RUNTIMES = {kind: _runtime(kind) for kind in ("dct", "dst")}


def register() -> None:
    """Declare the families and their runtimes on the CPU; once more changes nothing."""
    for kind, name in NAMES.items():
        register_family(name, _infer)
        register_runtime(name, "cpu", _RUNTIMES[kind])


def record(kind: str, x: Traced, axes: Axes, type_: int, norm: int, ortho: bool | None) -> Traced:
    """Append one to the trace of x."""
    attrs = {"axes": axes, "type": type_, "norm": norm, "orthogonalize": ortho}
    (out,) = traced_extension(NAMES[kind], attrs, x)
    return out
