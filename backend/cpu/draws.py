"""Arrays filled with random numbers that are a function of a key and of a place in the array alone.

A place has the two words that Threefry-2x32 makes of its number; `stream` counts further pairs of words for
the same place. Small arrays are filled by NumPy, large ones by compiled loops on all threads; both compute
every number in the same way, and the numbers are the same in all bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.options import get_options
from .buffers import empty
from .jit import Kernel, twin
from .kernels import cipher, draws, numbers
from .kernels.cipher import enciphered
from .threads import parallel_for

Array = np.ndarray[Any, Any]
Key = tuple[int, int]

WORK = 16  # what a number counts beside `small`, which is in multiplications
BLOCK = draws.BLOCK
CHUNK = 16 * BLOCK  # places that are made before what follows is done with them
STREAMS = 1 << 8  # for a place; the last one makes keys
WORD = 0xFFFFFFFF


def schedule(key: Key) -> Array:
    """The twelve words that `enciphered` adds."""
    return np.array([word & WORD for word in cipher.schedule(*key)], np.uint32)


def words_at(keys: Array, places: Array, stream: int) -> tuple[Array, Array]:
    """Both words of the places (uint64) in a stream."""
    high = (places >> np.uint64(32)).astype(np.uint32) | np.uint32(stream << 24)
    return enciphered(keys, places.astype(np.uint32), high)


def child(key: Key, kind: int, data: Array) -> Array:
    """Keys [..., 2] of the key and of data (uint64): of a key of the key, apart for each kind.

    The key between comes from the last stream, of which no number is drawn.
    """
    last = np.array([kind], np.uint64)
    (a,), (b,) = words_at(schedule(key), last, STREAMS - 1)
    flat = data.reshape(-1)  # words alone would warn where they wrap
    low, high = flat.astype(np.uint32), (flat >> np.uint64(32)).astype(np.uint32)
    words = enciphered(schedule((int(a), int(b))), low, high)
    return np.stack(words, -1).reshape(*data.shape, 2)


# ---- words, uniform and normal numbers -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """How numbers are drawn: so many for each place, by NumPy or by a compiled loop."""

    per_place: int
    plain: Callable[[Array, Array], Array]  # (key schedule, places): the numbers of each place
    kernel: Kernel
    arguments: tuple[Any, ...] = ()


def _words(keys: Array, places: Array) -> Array:
    return np.stack(words_at(keys, places, 0), -1)


def _uniform64(keys: Array, places: Array) -> Array:
    return numbers.below_one64(*words_at(keys, places, 0))


def _uniform32(keys: Array, places: Array) -> Array:
    return numbers.below_one32(_words(keys, places))


def _normal64(keys: Array, places: Array) -> Array:
    a, b = words_at(keys, places, 0)
    c, d = words_at(keys, places, 1)
    d = numbers.turned(d)
    return _pairs(numbers.chance64(a, b), d, numbers.rest_of(d) + c * 2.0**-64)


def _normal32(keys: Array, places: Array) -> Array:
    a, b = words_at(keys, places, 0)
    b = numbers.turned(b)
    return _pairs(numbers.chance32(a), b, numbers.rest_of(b))


def _pairs(chance: Array, turned: Array, f: Array) -> Array:
    """Two normal numbers each, by G. Box and M. Muller, Ann. Math. Stat. 29, 610 (1958)."""
    bits = chance.view(np.int64)
    e = numbers.exponent(bits)
    bits -= e << 52
    r = numbers.radius(chance, e.astype(np.float64))
    left, up = numbers.on_circle(turned >> np.uint32(30), f)
    return np.stack((r * left, r * up), -1)


WORDS = Draw(2, _words, twin(draws.draw_words))
UNIFORM = {
    "float64": Draw(1, _uniform64, twin(draws.draw_uniform64)),
    "float32": Draw(2, _uniform32, twin(draws.draw_uniform32)),
}
_NORMAL = twin(draws.draw_normal)
NORMAL = {
    "float64": Draw(2, _normal64, _NORMAL, (True,)),
    "float32": Draw(2, _normal32, _NORMAL, (False,)),
}


def fill(draw: Draw, key: Key, out: Array, then: Callable[[Array], None] | None = None) -> None:
    """Fill the flat array with the numbers of its places; `then` is called with each part that is done."""
    keys, per_chunk = schedule(key), CHUNK * draw.per_place

    def compiled(start: int, stop: int) -> None:
        for at in range(start, stop):
            part = out[at * per_chunk : (at + 1) * per_chunk]
            first = at * (CHUNK // BLOCK)
            blocks = -(-part.size // (BLOCK * draw.per_place))
            draw.kernel(first, first + blocks, keys, *draw.arguments, out)
            if then is not None:
                then(part)

    def plain(start: int, stop: int) -> None:
        for at in range(start, stop):
            part = out[at * per_chunk : (at + 1) * per_chunk]
            count = -(-part.size // draw.per_place)
            places = np.arange(at * CHUNK, at * CHUNK + count, dtype=np.uint64)
            part[:] = draw.plain(keys, places).reshape(-1)[: part.size]
            if then is not None:
                then(part)

    chunks = -(-out.size // per_chunk)
    if is_large(out.size):
        parallel_for(compiled, chunks)
    else:
        plain(0, chunks)


def is_large(size: int) -> bool:
    """Whether so many numbers are drawn by compiled loops."""
    return size * WORK >= max(1, get_options().small)


# ---- integers ------------------------------------------------------------------------------------

_SCALED = twin(draws.draw_scaled)


def fill_integers(key: Key, low: int, span: int, out: Array) -> None:
    """Fill the flat array of integers with numbers from low to low + span - 1, each as likely as any other.

    For 64 random bits w the number is the upper half of w span, of 128 bits, and w is refused where the lower
    half is below 2**64 mod span: of the others as many lead to each number. A place whose w is
    refused goes to its next stream. D. Lemire, ACM Trans. Model. Comput. Simul. 29, 3 (2019).
    """
    if span == 1 << 64:
        _fill_whole(key, low, out)
        return
    keys, bound = schedule(key), np.array([span & WORD, span >> 32], np.uint64)
    least, offset = np.uint64((1 << 64) % span), np.uint64(low % (1 << 64))
    large = is_large(out.size)

    def piece(start: int, stop: int) -> None:
        found, rest = np.empty((2, min(CHUNK, out.size)), np.uint64)
        for at in range(start, stop):
            part = out[at * CHUNK : (at + 1) * CHUNK]
            high, low = found[: part.size], rest[: part.size]
            if large:
                first = at * (CHUNK // BLOCK)
                _SCALED(first, first - (-part.size // BLOCK), 0, keys, bound, high, low)
            else:
                places = np.arange(at * CHUNK, at * CHUNK + part.size, dtype=np.uint64)
                high[:], low[:] = _scaled(keys, places, 0, bound)
            if least:
                _settle(keys, at * CHUNK, bound, least, high, low)
            high += offset
            np.copyto(part, high, casting="unsafe")

    parallel_for(piece, -(-out.size // CHUNK), None if large else 1)


def _scaled(keys: Array, places: Array, stream: int, bound: Array) -> Any:
    a, b = (word.astype(np.uint64) for word in words_at(keys, places, stream))
    return numbers.scaled(a, b, bound[0], bound[1])


def _settle(keys: Array, first: int, bound: Array, least: Any, high: Array, low: Array) -> None:
    """Draw anew where the word was refused; that all streams are is less likely than 2**-253."""
    (refused,) = np.nonzero(low < least)
    for stream in range(1, STREAMS - 1):
        if not refused.size:
            return
        places = refused.astype(np.uint64) + np.uint64(first)
        high[refused], low[refused] = _scaled(keys, places, stream, bound)
        refused = refused[low[refused] < least]


def _fill_whole(key: Key, low: int, out: Array) -> None:
    """All integers of 64 bits: the product is by 2**64."""
    words = empty((2 * out.size,), np.dtype(np.uint32))
    fill(WORDS, key, words)
    whole = as_uint64(words)
    whole += np.uint64(low % (1 << 64))
    np.copyto(out, whole, casting="unsafe")


def as_uint64(words: Array) -> Array:
    """Pairs of words as numbers of 64 bits, the first word below."""
    if sys.byteorder == "little":
        return words.view(np.uint64)
    return words[::2] | words[1::2].astype(np.uint64) << np.uint64(32)
