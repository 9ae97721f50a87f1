"""Square matrices on which factorisations go wrong, and ordinary ones."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def hard_matrices(n: int, dtype: str, seed: int = 0) -> dict[str, Array]:
    """Names and matrices [n, n], n > 2; a few singular ones among them."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    i = np.arange(n)

    def draw() -> Array:
        x = rng.standard_normal((n, n))
        return x + 1j * rng.standard_normal((n, n)) if np.dtype(dtype).kind == "c" else x

    q, _ = np.linalg.qr(draw())
    growth = np.eye(n) - np.tril(np.ones((n, n)), -1)
    growth[:, -1] = 1
    wilkinson = np.diag(np.abs(i - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)
    glued = wilkinson.copy()
    glued[n // 2, n // 2 - 1] = glued[n // 2 - 1, n // 2] = np.sqrt(info.eps)
    tiny_pivot = draw()
    tiny_pivot[0, 0] = info.tiny
    low_rank = draw()[:, :2] @ draw()[:2]
    companion = np.eye(n, k=-1)
    companion[0] = rng.standard_normal(n)
    found = {
        "random": draw(),
        "graded": draw() * 10.0 ** -(3.0 * i[:, None] / n + 3.0 * i / n),
        "steep": draw() * np.sqrt(np.sqrt(info.tiny)) ** (2.0 * i / n),
        "nearly singular": (q * np.linspace(info.eps, 1, n)) @ q.conj().T,
        "hilbert": 1 / (1.0 + i[:, None] + i),
        "wilkinson": wilkinson,
        "glued wilkinson": glued,
        "growth": growth,
        "companion": companion,
        "jordan": np.eye(n) * 0.5 + np.eye(n, k=1),
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "repeated": (q * np.where(i % 2, 1.0, 2.0)) @ q.conj().T,
        "low rank": low_rank,
        "zero column": draw() * (i != 1),
        "tiny pivot": tiny_pivot,
        "huge": draw() * (float(info.max) / 1e3),
        "small": draw() * (float(info.tiny) * 1e3),
        "ones": np.ones((n, n)),
    }
    return {name: np.asarray(a, dtype) for name, a in found.items()}
