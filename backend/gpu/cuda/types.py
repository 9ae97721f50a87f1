"""Element types in CUDA C++, and which ops a kernel computes with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import class_of
from ...spec import compute_dtype

DType = np.dtype[Any]

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "float16": "Half",
    "bfloat16": "Bfloat",
    "float32": "float",
    "float64": "double",
    "complex64": "Complex<float>",
    "complex128": "Complex<double>",
}
"""By the dtype's name; a dtype that is not here is no kernel's."""

ARITHMETIC = (
    "add",
    "subtract",
    "multiply",
    "negate",
    "absolute",
    "equal",
    "not_equal",
    "reciprocal",
)
OF_COMPLEX = frozenset((*ARITHMETIC, "divide", "conj", "real", "imag", "select", "identity"))
"""Ops that source/arithmetic.cuh has for complex numbers: functions of them have cases at infinity, which
are left to the array library."""


def type_of(dtype: DType) -> str | None:
    """The type of an element, or None.

    >>> type_of(np.dtype("uint32")), type_of(np.dtype("longdouble"))
    ('unsigned', None)
    """
    return TYPES.get(dtype.name) if dtype.isnative and class_of(dtype) != "storage" else None


def wide_type_of(dtype: DType) -> str:
    """The type that an element is computed in."""
    return TYPES[compute_dtype(dtype).name]


def computes(op: str, dtypes: list[DType]) -> bool:
    """Whether a kernel has this op on operands of these dtypes."""
    if any(type_of(dtype) is None for dtype in dtypes):
        return False
    if op in ("convert", "cast"):
        return True
    return all(dtype.kind != "c" for dtype in dtypes) or op in OF_COMPLEX
