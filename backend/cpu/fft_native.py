"""SciPy's transforms as plain functions: array in, array out, no dispatch and no checks.

`scipy.fft` wraps compiled functions (pocketfft; ducc from SciPy 1.18 on) in several layers of Python.
Where these functions are found and a small transform by each of them is right, they are called directly;
otherwise the public functions are, of SciPy's own backend and of no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

MODULES = ("scipy.fft._duccfft.pyduccfft", "scipy.fft._pocketfft.pypocketfft")
NORMS = (
    "backward",
    "ortho",
    "forward",
)  # of a forward transform, by what the compiled functions call it

Call = Callable[..., Any]


class Native(NamedTuple):
    """Transforms along a list of axes; `norm` 0, 1, 2 divides by 1, sqrt(N), N. None as `out` allocates.

    Attributes:
        name: where the functions come from.
        c2c: (a, axes, forward, norm, out, threads).
        r2c: (a, axes, forward, norm, out, threads); the last of the axes is halved.
        c2r: (a, axes, length of the last axis, forward, norm, out, threads).
        dct: (a, type, axes, norm, out, threads, orthogonalize); neither divides twice.
        dst: the same.
        good_size: (n, real); the next length that is transformed fast.
        prev_good_size: the one before; None where SciPy has none.
    """

    name: str
    c2c: Call
    r2c: Call
    c2r: Call
    dct: Call
    dst: Call
    good_size: Call
    prev_good_size: Call | None


@cache
def native() -> Native:
    """SciPy's compiled transforms, or its public ones where those are not what they were."""
    for name in MODULES:
        try:
            found = _compiled(name)
            _try_out(found)
        except Exception:  # private names: whatever is wrong with them, the public ones serve
            continue
        return found
    return _public()


def _compiled(name: str) -> Native:
    module: Any = import_module(name)
    functions = (module.c2c, module.r2c, module.c2r, module.dct, module.dst)
    previous = getattr(module, "prev_good_size", None)
    return Native(name, *functions, module.good_size, previous)


def _try_out(found: Native) -> None:
    """One small transform of each kind, called as this package calls them."""
    x = np.array([[1.0, 2.0, 4.0]])
    spectrum = np.array([[7.0, 1 + 2j], [0.0, 0.0]])[:1]
    spectrum[0, 1] = complex(-2.0, np.sqrt(3.0))
    out = np.empty((1, 3))
    full = np.array([[7.0, spectrum[0, 1], spectrum[0, 1].conj()]])
    close: list[tuple[Any, Any]] = [
        (found.c2c(x + 0j, (1,), True, 0, np.empty((1, 3), complex), 1), full),
        (found.r2c(x, (1,), True, 0, None, 1), spectrum),
        (found.c2r(spectrum, (1,), 3, False, 2, out, 1), x),
        (found.dct(x, 1, (1,), 0, None, 1, False), [[9.0, -3.0, 1.0]]),
        (found.dst(x, 1, (1,), 0, None, 1, False)[:, 1:2], [[-6.0]]),
    ]
    if not all(np.allclose(got, want) for got, want in close) or found.good_size(11, True) < 11:
        raise ValueError(f"{found.name} is not called as it was")


def _public() -> Native:
    """The same functions by way of `scipy.fft`, told to use SciPy's own backend."""
    import scipy.fft

    def told(name: str, x: Any, out: Any, **keywords: Any) -> Any:
        with scipy.fft.set_backend("scipy", only=True):
            result = getattr(scipy.fft, name)(x, **keywords)
        if out is None:
            return result
        np.copyto(out, result)
        return out

    def c2c(a: Any, axes: Any, forward: bool, norm: int, out: Any, threads: int) -> Any:
        name = "fftn" if forward else "ifftn"
        return told(name, a, out, axes=axes, norm=_norm(norm, forward), workers=threads)

    def r2c(a: Any, axes: Any, forward: bool, norm: int, out: Any, threads: int) -> Any:
        name = "rfftn" if forward else "ihfftn"
        return told(name, a, out, axes=axes, norm=_norm(norm, forward), workers=threads)

    def c2r(a: Any, axes: Any, n: int, forward: bool, norm: int, out: Any, threads: int) -> Any:
        name = "hfftn" if forward else "irfftn"
        s = [*(a.shape[axis] for axis in axes[:-1]), n]
        return told(name, a, out, s=s, axes=axes, norm=_norm(norm, forward), workers=threads)

    def r2r(name: str) -> Call:
        def call(
            a: Any, type: int, axes: Any, norm: int, out: Any, threads: int, ortho: Any = None
        ) -> Any:
            how = {"norm": NORMS[norm], "workers": threads, "orthogonalize": ortho}
            return told(name, a, out, type=type, axes=axes, **how)

        return call

    good, previous = scipy.fft.next_fast_len, getattr(scipy.fft, "prev_fast_len", None)
    return Native("scipy.fft", c2c, r2c, c2r, r2r("dctn"), r2r("dstn"), good, previous)


def _norm(norm: int, forward: bool) -> str:
    """The name that the public functions have for dividing so."""
    return NORMS[norm if forward else 2 - norm]
