"""What an op knows of an array: dtype and shape, and how dtypes are written in files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .._base.errors import DTypeError

Axes = tuple[int, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Dtype and shape of one array, and the order in which its axes lie in memory where that is decided.

    `layout` lists the axes, the slowest first; None is row-major for what a kernel makes, and unknown for
    what a user gives.

    >>> str(ArraySpec(np.dtype("float32"), (2, 3)))
    'float32[2,3]'
    """

    dtype: np.dtype[np.generic]
    shape: Shape
    layout: Axes | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


LARGE = 256 << 10
"""Bytes from which the order of an array's axes in memory is planned for: less is copied in no time."""


def layout_of(x: Any) -> Axes | None:
    """The axes of an array as they lie in memory, the slowest first; None if it is row-major, or small.

    >>> layout_of(np.zeros((400, 500), order="F"))
    (1, 0)
    """
    if x.nbytes < LARGE or x.flags.c_contiguous:
        return None
    strides = x.strides
    if min(strides) <= 0:
        return None
    axes = tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))
    return None if axes == tuple(range(len(axes))) else axes


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[np.generic]) -> str:
    """The name under which a dtype is printed and stored ("float32", "bfloat16", "longdouble")."""
    if dtype.kind in "SUMmV" and not is_lowprec(dtype):
        return dtype.str
    return {"g": "longdouble", "G": "clongdouble"}.get(own_char(dtype), dtype.name)


def dtype_from_name(name: str) -> np.dtype[np.generic]:
    """Inverse of `dtype_name`; the bfloat16 and float8 kinds come from ml_dtypes."""
    if not isinstance(name, str):
        raise DTypeError(f"{name!r} is no name of a dtype")
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError, TypeError):
        raise DTypeError(
            f"dtype {name!r} is unknown here; bfloat16 and the float8 kinds need the package "
            f'ml_dtypes: pip install "einloom[lowprec]"'
        ) from None


def is_lowprec(dtype: np.dtype[np.generic]) -> bool:
    """Whether this is a dtype of ml_dtypes (bfloat16, float8_*, int4, ...)."""
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


_OWN = int(np.dtype("e").num) + 1  # the last of NumPy's numbers of dtypes


def own_char(dtype: np.dtype[np.generic]) -> str:
    """The character of a dtype of NumPy's own; nothing for others, which may have the same characters.

    >>> own_char(np.dtype("complex64")), own_char(dtype_from_name("float8_e4m3fnuz"))
    ('F', '')
    """
    return dtype.char if dtype.num < _OWN else ""


def compute_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in which results of `dtype` are computed: half precisions accumulate in float32."""
    if dtype.num < _OWN:  # a dtype's name takes NumPy a microsecond
        return dtype if dtype.char != "e" else np.dtype(np.float32)
    return np.dtype(np.float32) if dtype.name == "bfloat16" else dtype
