"""Frequencies, shifts and fast lengths."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, OptionError, Unsupported
from ..backend.cpu.fft_native import native
from ..backend.door import as_ndarray, is_torch, to_torch
from .arguments import length, positions


def fftfreq(
    n: int, d: float = 1.0, *, xp: Any = None, dtype: Any = None, device: Any = None
) -> Any:
    """The frequencies of the bins of `fft`: 0, 1, ..., -2, -1 divided by n d, n // 2 of them negative.

    Args:
        n: length of the transform, >= 1.
        d: distance of the samples.
        xp: namespace of the result; NumPy's by default, and the only one that is made here.
        dtype: float32 or float64, the default.
        device: None or "cpu".

    As `scipy.fft.fftfreq`, and as the array API says.

    >>> fftfreq(5, 0.1)
    array([ 0.,  2.,  4., -4., -2.])
    """
    n = _points(n, "fftfreq")
    k = np.arange(n)
    k[(n + 1) // 2 :] -= n
    return _over(k, n, d, dtype, device, xp, "fftfreq")


def rfftfreq(
    n: int, d: float = 1.0, *, xp: Any = None, dtype: Any = None, device: Any = None
) -> Any:
    """The frequencies of the bins of `rfft`: 0, 1, ..., n // 2 divided by n d.

    Arguments are those of `fftfreq`. As `scipy.fft.rfftfreq`.

    >>> rfftfreq(5, 0.1)
    array([0., 2., 4.])
    """
    n = _points(n, "rfftfreq")
    return _over(np.arange(n // 2 + 1), n, d, dtype, device, xp, "rfftfreq")


def _points(n: Any, call: str) -> int:
    if not isinstance(n, (int, np.integer)):
        raise CallError(f"{call}(n={n!r:.40}): n should be an integer")
    return length(n, call)


def _over(k: Any, n: int, d: float, dtype: Any, device: Any, xp: Any, call: str) -> Any:
    kind = np.dtype(np.float64 if dtype is None else dtype)
    if kind.kind != "f":
        raise DTypeError(f"{call}(dtype={dtype!r}): frequencies are real; give float32 or float64")
    if device not in (None, "cpu"):
        raise Unsupported(f"{call}(device={device!r}): results are made on the CPU")
    frequencies = (k / (n * d)).astype(kind, copy=False)
    return frequencies if xp in (None, np) else xp.asarray(frequencies)


def fftshift(x: Any, axes: Any = None) -> Any:
    """Bin 0 in the middle: rolls every axis of `axes`, default all, by n // 2.

    As `scipy.fft.fftshift`.

    >>> fftshift(fftfreq(5, 0.2))
    array([-2., -1.,  0.,  1.,  2.])
    """
    return _rolled(x, axes, "fftshift", lambda n: n // 2)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Bin 0 in front: the inverse of `fftshift`. As `scipy.fft.ifftshift`.

    >>> ifftshift([-2, -1, 0, 1, 2])
    array([ 0,  1,  2, -2, -1])
    """
    return _rolled(x, axes, "ifftshift", lambda n: -(n // 2))


def _rolled(x: Any, axes: Any, call: str, by: Any) -> Any:
    a = as_ndarray(x, call, 0)
    which, lengths = positions(None, axes, a.shape, call)
    out = np.roll(a, tuple(map(by, lengths)), which)
    return to_torch(out) if is_torch(x) else out


def next_fast_len(target: int, real: bool = False) -> int:
    """The least length >= target that is transformed fast: with no large prime factor.

    Args:
        target: a length >= 0.
        real: for real transforms, which know fewer factors.

    As `scipy.fft.next_fast_len`.

    >>> next_fast_len(1021), next_fast_len(11, real=True)
    (1024, 12)
    """
    return int(native().good_size(_length(target, "next_fast_len"), bool(real)))


def prev_fast_len(target: int, real: bool = False) -> int:
    """The greatest length <= target that is transformed fast. As `scipy.fft.prev_fast_len`.

    >>> prev_fast_len(1021), prev_fast_len(11, real=True)
    (1008, 10)
    """
    target = _length(target, "prev_fast_len")
    previous = native().prev_good_size
    if previous is not None:
        return int(previous(target, bool(real)))
    good = native().good_size
    return next(n for n in range(target, -1, -1) if n == 0 or good(n, bool(real)) == n)


def _length(target: Any, call: str) -> int:
    try:
        n = index(target)
    except TypeError:
        raise CallError(f"{call}({target!r:.40}): give an integer >= 0") from None
    if n < 0 or (n == 0 and call == "prev_fast_len"):
        raise OptionError(f"{call}({n}): Target length must be positive")
    return n
