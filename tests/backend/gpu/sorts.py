"""Numbers of float32 of several sorts, as products in pieces are to hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

FEW = 8
"""Numbers of each row that are not 0, about, of those that hold few: an error of each product stands out,
where sums of many would hide it."""


def held(holds: str, rng: np.random.Generator, count: int, terms: int) -> Any:
    """Numbers of an operand; `terms` is how many products each sum of the result has."""
    if holds == "integers":
        return rng.integers(-600, 601, count).astype("f4")
    x = rng.standard_normal(count).astype("f4")
    if holds == "nothing finite":
        x[rng.integers(0, count, 3)] = np.inf, -np.inf, np.nan
    if holds == "few":
        x[rng.random(count) >= (FEW / terms) ** 0.5] = 0
    if holds == "tiny":
        x *= np.float32(2) ** rng.integers(-120, 40, count).astype("f4")
        x[rng.integers(0, count, count // 4)] = 0
    if holds == "huge":
        x = np.abs(x) * np.float32(2) ** rng.integers(-60, 1, count).astype("f4")
        x[rng.integers(0, count, 5)] = np.finfo("f4").max, -3.4e38, 3.39e38, 1e38, 0
    return x
