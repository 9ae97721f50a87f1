"""Matrices that are hard for factorisations, by name; all real and square."""

from __future__ import annotations

from typing import Any

import numpy as np


def rotation(n: int, seed: int) -> Any:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def hilbert(n: int) -> Any:
    k = np.arange(n)
    return 1 / (1.0 + k[:, None] + k)


def wilkinson(n: int) -> Any:
    """Eigenvalues in pairs that are nearly equal."""
    return np.diag(abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)


def glued_wilkinson(n: int) -> Any:
    a = np.kron(np.eye(2), wilkinson(n // 2))
    a[n // 2 - 1, n // 2] = a[n // 2, n // 2 - 1] = 1e-8
    return a


def companion(n: int) -> Any:
    """Eigenvalues 1/2, 1, 3/2, ..."""
    a = np.eye(n, k=-1)
    a[0] = -np.poly(np.arange(1, n + 1) / 2)[1:]
    return a


def graded(n: int) -> Any:
    scale = 10.0 ** -np.arange(n)
    return np.random.default_rng(11).standard_normal((n, n)) * scale[:, None] * scale


def nearly_singular(n: int) -> Any:
    return rotation(n, 1) * np.geomspace(1, 1e-15, n) @ rotation(n, 2)


MATRICES: dict[str, Any] = {
    "zero": np.zeros((6, 6)),
    "identity": np.eye(5),
    "one by one": np.array([[-2.0]]),
    "random": np.random.default_rng(1).standard_normal((8, 8)),
    "repeated": rotation(6, 3) * [1, 1, 1, 2, 2, 3] @ rotation(6, 3).T,
    "jordan": 2 * np.eye(6) + np.eye(6, k=1),
    "tiny pivot": np.array([[1e-20, 1.0], [1.0, 1.0]]),
    "huge": 1e150 * np.random.default_rng(2).standard_normal((5, 5)),
    "hilbert": hilbert(8),
    "wilkinson": wilkinson(9),
    "glued wilkinson": glued_wilkinson(10),
    "companion": companion(6),
    "graded": graded(8),
    "nearly singular": nearly_singular(7),
    "nilpotent": np.eye(5, k=1) * 100,
    "far from normal": np.array([[1.0, 1e6], [0.0, -1.0]]),
    "skew": 20 * (rotation(6, 4) - rotation(6, 4).T),
}
