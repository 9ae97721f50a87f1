"""Matrices of every kind that a factorisation must survive, and what an operation leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 0), (2, 1, 3))


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Standard normal elements, complex ones with both parts."""
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


# ---- layouts: the same elements, otherwise in memory ----------------------------------------------


def _strided(a: Array) -> Array:
    x = np.zeros((*a.shape[:-2], 2 * a.shape[-2], 3 * a.shape[-1]), a.dtype)
    x[..., ::2, ::3] = a
    return x[..., ::2, ::3]


def _unaligned(a: Array) -> Array:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    x: Array = raw[1:].view(a.dtype).reshape(a.shape) if a.nbytes else a.copy()
    x[...] = a
    return x


def _readonly(a: Array) -> Array:
    x = a.copy()
    x.flags.writeable = False
    return x


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "row-major": np.ascontiguousarray,
    "column-major": lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "batch last": lambda a: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0) if a.ndim > 2 else a,
    "strided": _strided,
    "reversed": lambda a: a[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "unaligned": _unaligned,
    "read-only": _readonly,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder("S")),
}


# ---- kinds: [n, n] each, from well to badly conditioned --------------------------------------------


def _hilbert(n: int) -> Array:
    i = np.arange(n)
    return 1.0 / (i[:, None] + i + 1)


def _wilkinson(n: int) -> Array:
    """W_n^+: |i - (n-1)/2| on the diagonal and ones beside it; its eigenvalues come in close pairs."""
    return (
        np.diag(abs(np.arange(n) - (n - 1) / 2))
        + np.diag(np.ones(n - 1), 1) * 1.0
        + np.diag(np.ones(n - 1), -1)
    )


def _glued_wilkinson(n: int) -> Array:
    """Blocks W_m^+ glued by 1e-8: clusters of nearly equal eigenvalues."""
    m = max(2, n // 3)
    a = np.zeros((n, n))
    for start in range(0, n, m):
        k = min(m, n - start)
        a[start : start + k, start : start + k] = _wilkinson(k) if k > 1 else 1.0
        if start:
            a[start, start - 1] = a[start - 1, start] = 1e-8
    return a


def _companion(n: int) -> Array:
    """Of (x - 1)(x - 2)…(x - n)."""
    a = np.diag(np.ones(n - 1), -1)
    a[:, -1] = -np.poly(np.arange(1, n + 1))[:0:-1]
    return a


def _growth(n: int) -> Array:
    """Wilkinson's matrix for which partial pivoting lets elements grow by 2^(n-1)."""
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return a


def _nearly_singular(n: int, rng: np.random.Generator) -> Array:
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    p, _ = np.linalg.qr(rng.standard_normal((n, n)))
    s = np.ones(n)
    s[-1] = 1e-6
    return (q * s) @ p


KINDS: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "random": lambda n, rng: rng.standard_normal((n, n)),
    "graded": lambda n, rng: rng.standard_normal((n, n)) * 10.0 ** -np.linspace(0, 6, n)[:, None],
    "nearly singular": _nearly_singular,
    "hilbert": lambda n, rng: _hilbert(n),
    "wilkinson": lambda n, rng: _wilkinson(n),
    "glued wilkinson": lambda n, rng: _glued_wilkinson(n),
    "companion": lambda n, rng: _companion(n),
    "jordan": lambda n, rng: 2 * np.eye(n) + np.diag(np.ones(n - 1), 1),
    "zero": lambda n, rng: np.zeros((n, n)),
    "identity": lambda n, rng: np.eye(n),
    "repeated": lambda n, rng: np.diag(np.arange(n) // 2 + 1.0),
    "tiny pivot": lambda n, rng: np.ones((n, n)) - np.eye(n) + 1e-20 * np.eye(n),
    "huge norm": lambda n, rng: rng.standard_normal((n, n)) * 1e15,
    "tiny norm": lambda n, rng: rng.standard_normal((n, n)) * 1e-15,
    "growth": lambda n, rng: _growth(n),
}
SINGULAR = ("zero",)
SIZES = (1, 2, 3, 5, 8, 20, 40)


def kinds(rng: np.random.Generator, dtype: str) -> Iterator[tuple[str, Array]]:
    """Every kind at every size from 2 on, with a phase on each row where it is complex."""
    for name, make in KINDS.items():
        for n in SIZES[1:]:
            if name == "companion" and n > 8:  # coefficients beyond single precision
                continue
            a = make(n, rng).astype(dtype)
            if dtype[0] == "c" and name not in ("wilkinson", "glued wilkinson", "repeated"):
                phase = np.exp(1j * rng.uniform(0, 6, n)).astype(dtype)
                a = (
                    phase[:, None] * a * phase.conj()
                    if name != "random"
                    else draw(rng, (n, n), dtype)
                )
            yield f"{name} {n}", a
