"""Arrays of random numbers: words, uniform and normal numbers, integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, OptionError
from ..backend.cpu.random_arrays import (
    COMPLEX,
    FLOATS,
    fill_bits,
    fill_integers,
    fill_normal,
    fill_uniform,
    uniform_bounds,
)
from ..backend.dtypes import real_of
from ..backend.spec import dtype_name
from ..program.trace import Traced
from .arguments import THERE, Target, key_of, memory_for, refuse_out, words_of
from .family import drawn_there, record

WORDS = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = ("int8", "int16", "int32", "int64", *WORDS)


def bits(key: Any, shape: Any = None, dtype: Any = None, *, out: Any = None) -> Any:
    """Random words: every bit is 0 or 1 with the same chance.

    Args:
        key: uint32[2], see `key`.
        shape: an integer or a tuple; () by default.
        dtype: uint8, uint16, uint32 or uint64; uint32 by default.
        out: where the words are written, of any strides.

    Returns:
        array of that shape and dtype; a number for the shape (); `out` if given.

    Raises:
        CallError, DTypeError, ShapeError, OptionError: an argument without meaning.
        MemoryLimitError: no memory is left for as many.

    Place i of uint32 is word i % 2 of Threefry(key, i // 2), of uint64 both words of Threefry(key, i), the
    first below; shorter words are the lowest bits of uint32.

    >>> import einloom
    >>> [hex(word) for word in bits(einloom.random.key(0), 2)]  # Random123's first known answer
    ['0x6b200159', '0x99ba4efe']
    """
    return _drawn(
        "bits", key, Target("random.bits", shape, dtype, out, np.uint32, WORDS), fill_bits
    )


def uniform(
    key: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    low: float = 0.0,
    high: float = 1.0,
    out: Any = None,
) -> Any:
    """Numbers from low to high, high not included, each as likely as any other.

    float32 has the upper 24 bits of a word, float64 the upper 53 of two; float16 and bfloat16 the upper 11
    and 8 bits of one. These are multiples of 2**-24, 2**-53, 2**-11, 2**-8 and never 1. For other bounds u
    becomes low + (high - low) u, where low is the first number of the dtype that is not below it; what is
    rounded to high or beyond is the last number before it. Both parts of a complex number are uniform,
    independent of each other.

    Args:
        key: uint32[2], see `key`.
        shape: an integer or a tuple; () by default.
        dtype: float16, bfloat16, float32, float64, complex64, complex128; float64 by default.
        low, high: finite real numbers, low < high.
        out: where the numbers are written, of any strides.

    Returns:
        array of that shape and dtype; a number for the shape (); `out` if given.

    Raises:
        CallError, DTypeError, ShapeError, OptionError: an argument without meaning.
        MemoryLimitError: no memory is left for as many.

    A number depends on the key, the dtype and its place in the row-major order of the array, on nothing else.

    >>> import einloom
    >>> key = einloom.random.key(7)
    >>> uniform(key, 3)
    array([0.4551743 , 0.9053315 , 0.05812143])
    >>> uniform(key, (2, 2), "float32", low=-1, high=1)
    array([[ 0.6882138 , -0.08965147],
           [-0.14767921,  0.810663  ]], dtype=float32)
    """
    target = Target("random.uniform", shape, dtype, out, np.float64, FLOATS + COMPLEX)
    bounds = _real("uniform", "low", low), _real("uniform", "high", high)
    real = real_of(target.dtype)
    if not _are_apart(real, *bounds):
        raise OptionError(
            f"random.uniform(low={low!r}, high={high!r}): give low < high that {dtype_name(real)} tells "
            f"apart, with a number from low on below high, and whose difference it can hold"
        )
    return _drawn("uniform", key, target, fill_uniform, low=bounds[0], high=bounds[1])


def normal(
    key: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    loc: float = 0.0,
    scale: float = 1.0,
    out: Any = None,
) -> Any:
    """Normal numbers of mean loc and variance scale**2; complex ones have half of it in either part.

    Pairs r cos 2 pi v, r sin 2 pi v with r = sqrt(-2 ln u), for u uniform in (0, 1] and v in [0, 1): by
    G. Box and M. Muller, Ann. Math. Stat. 29, 610 (1958). For float64 both have 64 bits, for the others 32,
    and all is computed in float64. So numbers reach 9.42, or 6.66; beyond lie 5e-21, or 3e-11, of a normal
    distribution. The probability of more than x is right to a part of 2**-64, or 2**-32, over it.

    Args:
        key: uint32[2], see `key`.
        shape: an integer or a tuple; () by default.
        dtype: float16, bfloat16, float32, float64, complex64, complex128; float64 by default.
        loc, scale: finite real numbers that dtype can hold, scale >= 0. A number beyond the dtype is inf.
        out: where the numbers are written, of any strides.

    Returns:
        array of that shape and dtype; a number for the shape (); `out` if given.

    Raises:
        CallError, DTypeError, ShapeError, OptionError: an argument without meaning.
        MemoryLimitError: no memory is left for as many.

    >>> import einloom
    >>> normal(einloom.random.key(7), 3)
    array([ 1.23357065, -0.22902657, -0.37874791])
    """
    target = Target("random.normal", shape, dtype, out, np.float64, FLOATS + COMPLEX)
    loc, scale = _real("normal", "loc", loc), _real("normal", "scale", scale)
    if scale < 0:
        raise OptionError(f"random.normal(scale={scale!r}): a deviation is >= 0")
    real = real_of(target.dtype)
    if not _are_held(real, loc, scale):
        raise OptionError(
            f"random.normal(loc={loc!r}, scale={scale!r}): {dtype_name(real)} does not reach as far; give "
            f"others, or a wider dtype"
        )
    return _drawn("normal", key, target, fill_normal, loc=loc, scale=scale)


def integers(
    key: Any,
    low: int,
    high: int | None = None,
    shape: Any = None,
    dtype: Any = None,
    *,
    endpoint: bool = False,
    out: Any = None,
) -> Any:
    """Integers from low to high, high not included, each exactly as likely as any other.

    Of 64 random bits w, the upper half of w (high - low), which has 128 bits, is the number; the few w that
    would make some numbers likelier are refused, and the place takes its next 64 bits. By D. Lemire, ACM
    Trans. Model. Comput. Simul. 29, 3 (2019).

    Args:
        key: uint32[2], see `key`.
        low, high: integers that dtype has, low < high; with one of them, 0 and that one.
        shape: an integer or a tuple; () by default.
        dtype: int8 to int64, uint8 to uint64; int64 by default.
        endpoint: include high.
        out: where the numbers are written, of any strides.

    Returns:
        array of that shape and dtype; a number for the shape (); `out` if given.

    Raises:
        CallError, DTypeError, ShapeError, OptionError: an argument without meaning.
        MemoryLimitError: no memory is left for as many.

    As `numpy.random.Generator.integers`, with integers for bounds. The dtype changes no number.

    >>> import einloom
    >>> integers(einloom.random.key(7), 1, 6, 8, endpoint=True)
    array([3, 6, 1, 3, 5, 2, 4, 6])
    """
    target = Target("random.integers", shape, dtype, out, np.int64, INTEGERS)
    first, last = (0, low) if high is None else (low, high)
    try:
        first, last = index(first), index(last) + bool(endpoint)
    except TypeError:
        raise CallError(
            f"random.integers(low={low!r:.60}, high={high!r:.60}): bounds are integers"
        ) from None
    info: Any = np.iinfo(target.dtype)
    if not info.min <= first < last <= info.max + 1:
        raise OptionError(
            f"random.integers(low={low}, high={high}, endpoint={endpoint}): there is no number from "
            f"{first} to {last - 1}, or {target.dtype} has not all of them"
        )
    return _drawn("integers", key, target, fill_integers, low=first, high=last)


def _drawn(name: str, key: Any, target: Target, fill: Callable[..., None], **arguments: Any) -> Any:
    """The target filled now, or an instruction that will do so."""
    key = key_of(f"random.{name}", key)
    if type(key) is not np.ndarray:
        attrs = {"shape": target.shape, "dtype": dtype_name(target.dtype), **arguments}
        if isinstance(key, Traced):
            refuse_out(f"random.{name}", target.given)
            return record(name, key, **attrs)
        refuse_out(f"random.{name}", target.given, THERE)
        return drawn_there(name, attrs, key)
    with memory_for(f"random.{name}", *target.shape):
        array = target.array
        fill(words_of(key), array, **arguments)
        return target.result(array)


@lru_cache(maxsize=64)
def _are_apart(real: np.dtype[Any], low: float, high: float) -> bool:
    """Whether the dtype has both bounds, their difference, and a number from low on below high."""
    with np.errstate(over="ignore"):
        first, last, width = (float(real.type(x)) for x in (low, high, high - low))
        ends = [float(x) for x in uniform_bounds(real, low, high)]
    return first < last and math.isfinite(width) and ends[0] <= ends[1]


@lru_cache(maxsize=64)
def _are_held(real: np.dtype[Any], *numbers: float) -> bool:
    with np.errstate(over="ignore"):
        return all(math.isfinite(real.type(x)) for x in numbers)


def _real(call: str, name: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise OptionError(f"random.{call}({name}={value!r:.60}): give a finite real number")
    return found
