"""Batches of products of matrices of different sizes: small ones together in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..spec import compute_dtype, dtype_name
from .arrays import element_strides
from .cuda.grouped import grouped, tables
from .launch import can_launch, launch
from .memory import address
from .modules import Array, Module

SMALL = (
    64  # rows, columns and terms up to which a call of cuBLAS for each matrix has more to set up
)
Pair = tuple[Array, Array]


def together(
    xp: Module,
    pairs: Sequence[Pair],
    out: Sequence[Array],
    chains: Sequence[Sequence[int]],
    alpha: Any,
    beta: Any,
) -> list[Sequence[int]]:
    """Do what chains can be done in one launch; the others are returned. Pairs of a chain have one target,
    which takes their sum."""
    if not can_launch(xp):
        return list(chains)
    rest: list[Sequence[int]] = []
    found: dict[str, list[Sequence[int]]] = {}
    for chain in chains:
        dtype = out[chain[0]].dtype
        if all(_is_small(pairs[k], out[k], out[chain[0]]) for k in chain):
            found.setdefault(dtype_name(dtype), []).append(chain)
        else:
            rest.append(chain)
    for dtype, several in found.items():
        if not _launched(xp, dtype, pairs, out, several, alpha, beta):
            rest += several
    return rest


def _is_small(pair: Pair, out: Array, target: Array) -> bool:
    """Whether a product is one for our kernel: few elements of one dtype, none beside the target."""
    a, b = pair
    sizes = (*a.shape, b.shape[1])
    is_same = out is target or (
        address(out) == address(target)
        and out.shape == target.shape
        and out.strides == target.strides
    )
    is_plain = a.dtype == b.dtype == out.dtype == target.dtype
    return is_same and is_plain and min(sizes) > 0 and max(sizes) <= SMALL


def _launched(
    xp: Module,
    dtype: str,
    pairs: Sequence[Pair],
    out: Sequence[Array],
    chains: list[Sequence[int]],
    alpha: Any,
    beta: Any,
) -> bool:
    targets, products = [], []
    for chain in chains:
        target = out[chain[0]]
        strides = element_strides(target)
        if strides is None:
            return False
        targets.append((address(target), *target.shape, *strides, len(chain)))
        for k in chain:
            a, b = pairs[k]
            of_a, of_b = element_strides(a), element_strides(b)
            if of_a is None or of_b is None:
                return False
            products.append((address(a), address(b), a.shape[1], *of_a, *of_b))
    made = tables(targets, products)
    kernel = grouped(dtype, made, beta != 0)
    if kernel is None:
        return False
    wide = compute_dtype(out[chains[0][0]].dtype)
    factors = np.array([alpha, beta]).astype(wide)
    launch(xp, kernel, *(xp.array(x) for x in (made.targets, made.pairs, factors)))
    return True
