"""Lengths, dtypes and functions that the tests of einloom.fft go through."""

from __future__ import annotations

from typing import Any

import numpy as np

PRIMES = tuple(n for n in range(65, 258) if all(n % k for k in range(2, 17)))
LENGTHS = (*range(1, 65), *PRIMES)

REALS = ("float32", "float64", "longdouble")
COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "longdouble": "clongdouble"}

COMPLEX_FUNCTIONS = ("fft", "ifft")
HALF = ("rfft", "ihfft")  # of real numbers
WHOLE = ("irfft", "hfft")  # to real numbers
NORMS = ("backward", "ortho", "forward")
DIRECTION = {"fft": 1, "rfft": 1, "hfft": 1, "ifft": -1, "irfft": -1, "ihfft": -1}


def numbers(rng: np.random.Generator, shape: Any, dtype: str) -> Any:
    """Random numbers of a real or complex dtype."""
    kind = np.dtype(dtype)
    x = rng.standard_normal(shape)
    if kind.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(kind)


def norm_factor(name: str, n: int, norm: str | None) -> float:
    """What a transform in this direction is multiplied by."""
    forward = DIRECTION[name] > 0
    if norm == "ortho":
        return n**-0.5
    return 1 / n if (norm == "forward") == forward else 1.0
