"""Hankel transforms of logarithmically spaced samples (FFTLog).

Source: A. J. S. Hamilton, MNRAS 312, 257 (2000), arXiv:astro-ph/9905191, appendix B.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .._base.errors import ShapeError
from ..backend.door import is_torch, to_torch
from .arguments import numbers, real
from .transforms import irfft, rfft

LOG_2 = math.log(2)


def fht(a: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """A(k) = int_0^inf a(r) J_mu(k r) k dr of samples r_j = r_c exp((j - (n - 1) / 2) dln).

    Args:
        a: real samples; the last axis is transformed.
        dln: logarithmic distance of the samples.
        mu: order of the transform.
        offset: log(k_c r_c), the logarithm of the product of both centres.
        bias: q of the power law (r / r_c)^-q by which a is multiplied before.

    Returns:
        A at k_j = k_c exp((j - (n - 1) / 2) dln), of a's shape; in O(n log n).

    A singular transform warns, and its coefficient 0 is left out. As `scipy.fft.fht`.

    >>> r = np.logspace(-7, 1, 128)
    >>> dln = float(np.log(r[1] / r[0]))
    >>> offset = fhtoffset(dln, initial=-6 * np.log(10), mu=2.0)
    >>> k = np.exp(offset) / r[::-1]
    >>> A = fht(r**3 * np.exp(-(r**2) / 2), dln, 2.0, offset)
    >>> bool(np.allclose(A, k**3 * np.exp(-(k**2) / 2), atol=1e-5))
    True
    """
    x, n, steps = _samples(a, "fht")
    u = _coefficients(n, dln, mu, offset, bias)
    if np.isinf(u[0]):
        warnings.warn("singular transform; consider changing the bias", stacklevel=2)
        u[0] = 0
    if bias:
        x = x * np.exp(-bias * steps * dln)
    result = _filtered(x, u, n)
    if bias:
        result *= np.exp(-bias * (steps * dln + offset))
    return to_torch(result) if is_torch(a) else result


def ifht(A: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:  # noqa: N803
    """The inverse of `fht`, a(r) = int_0^inf A(k) J_mu(k r) r dk; its arguments are those of `fht`.

    As `scipy.fft.ifht`.

    >>> a = np.array([1.0, 3.0, 2.0, 1.0])
    >>> ifht(fht(a, 0.1, 1.0, 0.2, 0.1), 0.1, 1.0, 0.2, 0.1).round(12)
    array([1., 3., 2., 1.])
    """
    x, n, steps = _samples(A, "ifht")
    u = _coefficients(n, dln, mu, offset, bias)
    if u[0] == 0:
        warnings.warn("singular inverse transform; consider changing the bias", stacklevel=2)
        u[0] = np.inf
    if bias:
        x = x * np.exp(bias * (steps * dln + offset))
    a = _filtered(x, 1 / u.conj(), n)
    if bias:
        a *= np.exp(bias * steps * dln)
    return to_torch(a) if is_torch(A) else a


def fhtoffset(dln: float, mu: float, initial: float = 0.0, bias: float = 0.0) -> Any:
    """The offset nearest to `initial` at which the last coefficient of `fht` is real: it rings least.

    As `scipy.fft.fhtoffset`.

    >>> float(fhtoffset(0.1, 2.0, 0.5).round(10))
    0.5454581478
    """
    from scipy.special import loggamma

    y = np.pi / (2 * dln)
    angles = loggamma((mu + 1 + bias) / 2 + 1j * y) + loggamma((mu + 1 - bias) / 2 + 1j * y)
    turns = (LOG_2 - initial) / dln + angles.imag / np.pi
    return initial + (turns - np.round(turns)) * dln


def _samples(a: Any, call: str) -> tuple[Any, int, Any]:
    """The samples, how many there are, and how many steps each lies behind the centre."""
    x = real(numbers(a, call)[0], call)
    if x.ndim == 0 or x.shape[-1] < 1:
        raise ShapeError(f"{call}: an array of shape {x.shape} has no samples along its last axis")
    n = x.shape[-1]
    return x, n, np.arange(n) - (n - 1) / 2


def _filtered(x: Any, u: Any, n: int) -> Any:
    spectrum = rfft(x)
    spectrum *= u
    return irfft(spectrum, n)[..., ::-1].copy()


def _coefficients(n: int, dln: float, mu: float, offset: float, bias: float) -> Any:
    """u_m = (k_c r_c)^(-i y) 2^(q + i y) Gamma((mu + 1 + q + i y) / 2) / Gamma((mu + 1 - q - i y) / 2)

    for y = 2 pi m / (n dln), m = 0 ... n // 2; the last is real for even n.
    """
    from scipy.special import loggamma, poch

    half = np.pi * np.arange(n // 2 + 1) / (n * dln)
    above, below = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    # |Gamma| of below - i y/2 and below + i y/2 are equal, their angles opposite
    up, down = loggamma(above + 1j * half), loggamma(below + 1j * half)
    size = up.real - down.real + LOG_2 * bias
    angle = up.imag + down.imag + 2 * half * (LOG_2 - offset)
    with np.errstate(all="ignore"):
        u = np.exp(size + 1j * angle)
    if n % 2 == 0:
        u.imag[-1] = 0
    if not np.isfinite(u[0]):  # a pole: the quotient of both may be finite
        u[0] = 2**bias * poch(below, above - below)
    return u
