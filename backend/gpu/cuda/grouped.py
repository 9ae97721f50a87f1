"""Products of small matrices of any sizes in one launch: one thread for each element of all results.

    out_t = alpha * (sum of a_p b_p over the products p of target t) + beta * out_t

Matrices are known by tables of addresses, sizes and strides, which lie on the device. Each element is added
up by one thread, in the order of the products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...spec import compute_dtype, dtype_from_name
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .text import unit
from .types import type_of, wide_type_of

ENTRY = """
extern "C" __global__ void $name(
    const long long* targets, const long long* pairs, const $wide* factors, Grouped g) {
    for (long long i = first_element<long long>(); i < g.elements; i += next_element<long long>()) {
        const long long* t = target_of(targets, g.targets, i);
        const long long at = i - t[FIRST], row = at / t[COLUMNS], column = at - row * t[COLUMNS];
        $wide found = to<$wide>(0);
        for (long long p = t[PRODUCT]; p < t[TARGET + PRODUCT]; ++p) {
            const long long* q = pairs + p * PAIR;
            const $type* x = (const $type*)q[LHS] + row * q[LHS_ROW];
            const $type* y = (const $type*)q[RHS] + column * q[RHS_COLUMN];
            for (long long k = 0; k < q[TERMS]; ++k)
                found = op::add(found, op::multiply(wide(x[k * q[LHS_TERM]]), wide(y[k * q[RHS_TERM]])));
        }
        $type* out = ($type*)t[OUT] + row * t[OUT_ROW] + column * t[OUT_COLUMN];
        found = op::multiply(factors[0], found);
        if (g.reads) found = op::add(found, op::multiply(factors[1], wide(*out)));
        *out = $result;
    }
}
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """What a launch is about: rows of int64 as source/grouped.cuh names them."""

    targets: Any
    pairs: Any

    @property
    def elements(self) -> int:
        return int(self.targets[-1, 0])


def tables(targets: list[tuple[int, ...]], pairs: list[tuple[int, ...]]) -> Tables:
    """Tables of targets (address, rows, columns, strides of both, products) and of products (addresses,
    terms, strides of the left one's rows and terms, of the right one's terms and columns), target by target.

    >>> tables([(64, 2, 3, 3, 1, 2), (256, 4, 5, 5, 1, 1)], [(0,) * 7] * 3).targets.tolist()
    [[0, 64, 3, 3, 1, 0], [6, 256, 5, 5, 1, 2], [26, 0, 1, 0, 0, 3]]
    """
    rows, first, product = [], 0, 0
    for address, height, width, row, column, products in targets:
        rows.append((first, address, width, row, column, product))
        first, product = first + height * width, product + products
    rows.append((first, 0, 1, 0, 0, product))
    return Tables(np.array(rows, np.int64), np.array(pairs, np.int64))


def grouped(dtype: str, of: Tables, reads: bool) -> CudaKernel | None:
    """The kernel, which takes both tables and (alpha, beta) in the dtype of sums; None for a dtype without.

    >>> grouped("float32", tables([(64, 2, 3, 3, 1, 1)], [(0,) * 7]), False).geometry
    (6, 1, 0)
    """
    made = kept(("grouped", dtype), lambda: _text(dtype))
    if made is None:
        return None
    source, name = made
    geometry = (of.elements, len(of.targets) - 1, int(reads))
    arrays = ("targets", "pairs", "factors")
    return CudaKernel(source, name, blocks_of(of.elements), (THREADS, 1, 1), arrays, geometry, True)


def _text(dtype: str) -> tuple[str, str] | None:
    number = dtype_from_name(dtype)
    kind = type_of(number)
    if kind is None:
        return None
    is_wide = compute_dtype(number) == number
    return unit(
        ("layout", "numbers", "arithmetic", "grouped"),
        "grouped",
        ENTRY,
        type=kind,
        wide=wide_type_of(number),
        result="found" if is_wide else f"to<{kind}>(found)",
    )
