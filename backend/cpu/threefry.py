"""Random numbers that are a function of a key and a counter: Threefry-2x32 with 20 rounds.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11). A number
depends on its key and its place alone, never on what was drawn before or on how many threads draw.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty
from .elementwise import BLOCK, over_blocks
from .kernels import cipher
from .kernels.encipher import encipher
from .kernels.vectors import LINE
from .move import STREAM
from .strided import element_strides
from .threads import parallel_for

Array = np.ndarray[Any, Any]


def bind_threefry(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """Words are the operands' integers modulo 2**32; a dtype of fewer bits keeps the lowest of a result."""

    def run(key: Any, counter: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        is_large = out.size >= max(1, get_options().small)
        pairs, *operands = (_pairs(words) for words in (out, key, counter))
        if not is_large or pairs is None or any(x is None for x in operands):
            _by_numpy(out, key, counter)
        elif not _at_once(pairs, *operands):
            over_blocks(_encipher, pairs, tuple(operands), cut=True)
        return out

    return run


def threefry_scratch_bytes(words: ArraySpec, threads: int) -> int:
    """Words of 32 bits and what becomes of them, or copies of blocks that are not contiguous."""
    return 10 * 4 * words.size + 3 * threads * BLOCK


def _pairs(words: Any) -> Any:
    """Pairs of words as one integer each, the first word its lower half; None where they do not lie so."""
    if words.itemsize != 4 or sys.byteorder != "little":
        return None
    strides = element_strides(words)
    if strides is None or strides[-1] != 1 or any(n % 2 for n in strides[:-1]):
        return None
    if words.__array_interface__["data"][0] % 8:
        return None
    return words.view(np.uint64)[..., 0]


def _at_once(out: Any, key: Any, counter: Any) -> bool:
    """Whether all lie one after another, under one key or as many, and are read and written as they are."""
    one_key = not any(key.strides)
    if not all(x.flags.c_contiguous for x in ((out, counter) if one_key else (out, key, counter))):
        return False
    keys = _one(key) if one_key else key.reshape(-1)
    out, counter = out.reshape(-1), counter.reshape(-1)

    streams = out.nbytes >= STREAM

    def piece(start: int, stop: int) -> None:
        part = slice(start, stop)
        to = out[part]
        ahead = -to.__array_interface__["data"][0] % LINE // 8 if streams else 0
        encipher(to, keys if one_key else keys[part], counter[part], ahead, streams)

    parallel_for(piece, out.size)
    return True


def _one(key: Any) -> Any:
    """The key that is repeated along all axes."""
    return np.ascontiguousarray(key[(slice(0, 1),) * key.ndim]).reshape(-1)


def _encipher(out: Any, key: Any, counter: Any) -> None:
    """A block of pairs."""
    keys = np.ascontiguousarray(key).reshape(-1) if any(key.strides) else _one(key)
    target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    encipher(target.reshape(-1), keys, np.ascontiguousarray(counter).reshape(-1), 0, False)
    if target is not out:
        np.copyto(out, target)


def _by_numpy(out: Any, key: Any, counter: Any) -> None:
    k0, k1, x0, x1 = (
        words[..., half].astype(np.uint32, order="C") for words in (key, counter) for half in (0, 1)
    )
    for half, word in enumerate(enciphered(k0, k1, x0, x1)):
        out[..., half] = word.astype(out.dtype)


def enciphered(k0: Array, k1: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Both words of blocks (x0, x1) under keys (k0, k1), all of uint32."""
    with np.errstate(over="ignore"):  # scalars would warn
        return cipher.enciphered(cipher.schedule(k0, k1), x0, x1)
