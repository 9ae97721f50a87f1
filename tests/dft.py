"""Fourier, cosine and sine transforms by their definitions, in long double."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PI = np.longdouble("3.14159265358979323846264338327950288")


def turn(numerator: Array, denominator: int) -> Array:
    """exp(2 pi i numerator / denominator), whole turns left out first; quarters are exact."""
    numerator = np.asarray(numerator) % denominator
    angle = 2 * PI * numerator.astype(np.longdouble) / denominator
    found = np.cos(angle) + np.clongdouble(1j) * np.sin(angle)
    quarters, rest = np.divmod(4 * numerator, denominator)
    exact = np.array([1, 1j, -1, -1j], np.clongdouble)[quarters]
    return np.where(rest == 0, exact, found)


@cache
def roots(n: int) -> Array:
    return turn(np.arange(n), max(1, n))


def dft(x: Array, axis: int, sign: int) -> Array:
    """sum_j x[j] exp(sign 2 pi i j k / n) along an axis."""
    n = x.shape[axis]
    k = np.arange(n)
    matrix = roots(n)[sign * np.outer(k, k) % max(1, n)]
    return np.moveaxis(np.moveaxis(x.astype(np.clongdouble), axis, -1) @ matrix, -1, axis)


def dftn(x: Array, axes: tuple[int, ...], sign: int) -> Array:
    x = x.astype(np.clongdouble)
    for axis in axes:
        x = dft(x, axis, sign)
    return x


def whole_spectrum(x: Array, axis: int, n: int) -> Array:
    """The n bins of which x has the first n // 2 + 1, those that are their own conjugates made real."""
    x = np.moveaxis(x.astype(np.clongdouble), axis, -1)
    full = np.zeros((*x.shape[:-1], n), np.clongdouble)
    full[..., : n // 2 + 1] = x
    for k in {0, n // 2 if n % 2 == 0 else 0}:
        full[..., k] = x[..., k].real
    for k in range(n // 2 + 1, n):
        full[..., k] = x[..., n - k].conj()
    return np.moveaxis(full, -1, axis)


def transformed(op: str, x: Array, axes: tuple[int, ...], n: int = 0) -> Array:
    """What the unnormalised op of the catalogue yields."""
    if op in ("fft", "ifft"):
        return dftn(x, axes, -1 if op == "fft" else 1)
    if op == "rfft":
        full = dftn(x, axes, -1)
        return full[(slice(None),) * axes[-1] + (slice(0, x.shape[axes[-1]] // 2 + 1),)]
    return dft(whole_spectrum(dftn(x, axes[:-1], 1), axes[-1], n), axes[-1], 1).real


def real_matrix(kind: str, type_: int, n: int) -> Array:
    """M with dct(x) = M @ x, or dst, unnormalised."""
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if kind == "dct":
        angles = {
            1: (k * j, 2 * (n - 1)),
            2: (k * (2 * j + 1), 4 * n),
            3: ((2 * k + 1) * j, 4 * n),
            4: ((2 * k + 1) * (2 * j + 1), 8 * n),
        }
        matrix = 2 * turn(*angles[type_]).real
        if type_ in (1, 3):
            matrix[:, 0] /= 2
        if type_ == 1:
            matrix[:, -1] /= 2
        return matrix
    angles = {
        1: ((k + 1) * (j + 1), 2 * (n + 1)),
        2: ((k + 1) * (2 * j + 1), 4 * n),
        3: ((2 * k + 1) * (j + 1), 4 * n),
        4: ((2 * k + 1) * (2 * j + 1), 8 * n),
    }
    matrix = 2 * turn(*angles[type_]).imag
    if type_ == 3:
        matrix[:, -1] /= 2
    return matrix


def relative_error(got: Array, want: Array) -> float:
    """|got - want| / |want| in the l2 norm."""
    size = float(np.linalg.norm(np.asarray(want, np.clongdouble).ravel().astype(np.complex128)))
    difference = np.asarray(got, np.clongdouble) - np.asarray(want, np.clongdouble)
    error = float(np.sqrt(np.sum(np.abs(difference) ** 2)))
    return error / size if size else error


BOUNDS = {"f": 6e-7, "F": 6e-7, "d": 2e-15, "D": 2e-15, "g": 2e-18, "G": 2e-18}


def bound(dtype: Any, n: int) -> float:
    """How far a transform of n points may be off, in the l2 norm."""
    return BOUNDS[np.dtype(dtype).char] * math.sqrt(max(1.0, math.log(max(2, n))))
