"""Fourier transforms: the functions of scipy.fft, plans, engines, convolutions and spectral solves.

einloom.fft.fft(x)                    SciPy's names and arguments; `out=` as well
einloom.fft.plan(shape, axes, dtype)  what will run, kept; `describe()` prints it
scipy.fft.set_backend(einloom.fft)    scipy.fft by way of this package
einloom.trace(lambda x: ...)          transforms become instructions of one program
"""

from .backend import __ua_domain__ as __ua_domain__
from .backend import __ua_function__ as __ua_function__
from .convolution import convolve, correlate
from .engine import get_engine, set_engine, use_engine
from .family import register as _register
from .grids import fftfreq, fftshift, ifftshift, next_fast_len, prev_fast_len, rfftfreq
from .hankel import fht, fhtoffset, ifht
from .plans import FFTPlan, plan
from .real import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from .structured import (
    circulant_matmul,
    circulant_solve,
    toeplitz_matmul,
    toeplitz_solve,
)
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
from .workers import get_workers, set_workers

__all__ = [
    "FFTPlan",
    "circulant_matmul",
    "circulant_solve",
    "convolve",
    "correlate",
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "fhtoffset",
    "get_engine",
    "get_workers",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "next_fast_len",
    "plan",
    "prev_fast_len",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "set_engine",
    "set_workers",
    "toeplitz_matmul",
    "toeplitz_solve",
    "use_engine",
]

_register()
