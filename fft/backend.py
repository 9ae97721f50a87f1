"""This package as a backend of scipy.fft: `scipy.fft.set_backend(einloom.fft)`.

SciPy asks `__ua_function__` for each of its functions. Nothing here calls `scipy.fft` in return: SciPy's
compiled transforms are called directly, or by SciPy's own backend, so that no call comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from .hankel import fht, ifht
from .real import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from .transforms import fft, hfft, ifft, ihfft, irfft, rfft
from .transforms_n import (
    fft2,
    fftn,
    hfft2,
    hfftn,
    ifft2,
    ifftn,
    ihfft2,
    ihfftn,
    irfft2,
    irfftn,
    rfft2,
    rfftn,
)

__ua_domain__ = "numpy.scipy.fft"

FUNCTIONS = {
    function.__name__: function
    for function in (
        fft, ifft, rfft, irfft, hfft, ihfft,
        fft2, ifft2, rfft2, irfft2, hfft2, ihfft2,
        fftn, ifftn, rfftn, irfftn, hfftn, ihfftn,
        dct, idct, dst, idst, dctn, idctn, dstn, idstn,
        fht, ifht,
    )
}  # fmt: skip


def __ua_function__(  # noqa: N807
    method: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The function of this package with the name of SciPy's, with what it was called with."""
    name = method.__name__
    function = FUNCTIONS.get(name)
    if function is None:
        return NotImplemented
    if name not in ("fht", "ifht") and kwargs.get("workers") is None and _workers() > 1:
        position = 6 if "type" in function.__code__.co_varnames[:2] else 5
        if len(args) <= position:
            kwargs = {**kwargs, "workers": _workers()}
    return function(*args, **kwargs)


def _workers() -> int:
    """What `scipy.fft.set_workers` says; its default of 1 is no wish."""
    return int(_scipy_fft().get_workers())


@cache
def _scipy_fft() -> Any:
    import scipy.fft

    return scipy.fft
