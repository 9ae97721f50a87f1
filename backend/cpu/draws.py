"""Arrays filled with random numbers that are a function of a key and of a place in the array alone.

A place has the two words that Threefry-2x32 makes of its number; `stream` counts further pairs of words for
the same place. Small arrays are filled by NumPy, large ones by compiled loops on all threads; both compute
every number in the same way, and the numbers are the same in all bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, sqrt
from typing import Any

import numpy as np

from ..._base.options import get_options
from .buffers import empty
from .few_words import FEW, few_words_at
from .jit import Kernel, twin
from .kernels import cipher, draws, numbers
from .kernels.cipher import enciphered
from .threads import parallel_for

Array = np.ndarray[Any, Any]
Key = tuple[int, int]
Schedule = list[int]

WORK = 16  # what a number counts beside `small`, which is in multiplications
BLOCK = draws.BLOCK
CHUNK = 16 * BLOCK  # places that are made before what follows is done with them
FEW_PAIRS = 16  # of normal numbers; beyond, NumPy takes less time
ROOT = sqrt(0.5)
STREAMS = 1 << 8  # for a place; the last one makes keys
WORD, MASK = (1 << 32) - 1, (1 << 64) - 1


def schedule(key: Key) -> Schedule:
    """The twelve words that the cipher adds."""
    return [word & WORD for word in cipher.schedule(*key)]


def words_at(keys: Schedule, places: Array, stream: int) -> tuple[Array, Array]:
    """Both words of the places (uint64) in a stream."""
    if 0 < places.size <= FEW:
        return few_words_at(keys, places, stream)
    high = (places >> np.uint64(32)).astype(np.uint32) | np.uint32(stream << 24)
    return enciphered(np.array(keys, np.uint32), places.astype(np.uint32), high)


def child(key: Key, kind: int, data: Array) -> Array:
    """Keys [..., 2] of the key and of data (uint64): of a key of the key, apart for each kind.

    The key between comes from the last stream, of which no number is drawn.
    """
    (a,), (b,) = words_at(schedule(key), np.array([kind], np.uint64), STREAMS - 1)
    words = words_at(schedule((int(a), int(b))), data.reshape(-1), 0)
    return _side_by_side(*words).reshape(*data.shape, 2)


# ---- words, uniform and normal numbers -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """How numbers are drawn: so many for each place, by NumPy or by a compiled loop."""

    per_place: int
    plain: Callable[[Schedule, Array], Array]  # (key schedule, places): the numbers of each place
    kernel: Kernel
    arguments: tuple[Any, ...] = ()


def _side_by_side(x: Array, y: Array) -> Array:
    """[n, 2], as np.stack, which takes longer for few."""
    both = np.empty((x.size, 2), x.dtype)
    both[:, 0], both[:, 1] = x, y
    return both


def _words(keys: Schedule, places: Array) -> Array:
    return _side_by_side(*words_at(keys, places, 0))


def _uniform64(keys: Schedule, places: Array) -> Array:
    return numbers.below_one64(*words_at(keys, places, 0))


def _uniform32(keys: Schedule, places: Array) -> Array:
    return numbers.below_one32(_words(keys, places))


def _normal64(keys: Schedule, places: Array) -> Array:
    words = (*words_at(keys, places, 0), *words_at(keys, places, 1))
    if places.size <= FEW_PAIRS:
        each = zip(*(word.tolist() for word in words), strict=True)
        return np.array(
            [_pair(numbers.chance64(a, b), d, c * 2.0**-64) for a, b, c, d in each], float
        )
    a, b, c, d = words
    d = numbers.turned(d)
    return _pairs(numbers.chance64(a, b), d, numbers.rest_of(d) + c * 2.0**-64)


def _normal32(keys: Schedule, places: Array) -> Array:
    a, b = words_at(keys, places, 0)
    if places.size <= FEW_PAIRS:
        each = zip(a.tolist(), b.tolist(), strict=True)
        return np.array([_pair(numbers.chance32(a), b, 0.0) for a, b in each], float)
    b = numbers.turned(b)
    return _pairs(numbers.chance32(a), b, numbers.rest_of(b))


def _pairs(chance: Array, turned: Array, f: Array) -> Array:
    """Two normal numbers each, by G. Box and M. Muller, Ann. Math. Stat. 29, 610 (1958)."""
    bits = chance.view(np.int64)
    e = numbers.exponent(bits)
    bits -= e << 52
    r = numbers.radius(chance, e.astype(np.float64))
    left, up = numbers.on_circle(turned >> np.uint32(30), f)
    return _side_by_side(r * left, r * up)


def _pair(chance: float, word: int, rest: float) -> tuple[float, float]:
    """The same of single numbers: Python rounds them as arrays are, and no call of NumPy's is paid for."""
    m, e = frexp(chance)
    if m < ROOT:
        m, e = 2 * m, e - 1
    quarter, f = divmod((word + (1 << 29)) & WORD, 1 << 30)
    r = sqrt(numbers.squared_radius(m, float(e)))
    c, s = numbers.near_one((f - (1 << 29)) * 2.0**-32 + rest)
    left, up = ((c, s), (-s, c), (-c, -s), (s, -c))[quarter]
    return r * left, r * up


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
        added = np.array(keys, np.uint32)
        for at in range(start, stop):
            part = out[at * per_chunk : (at + 1) * per_chunk]
            first = at * (CHUNK // BLOCK)
            blocks = -(-part.size // (BLOCK * draw.per_place))
            draw.kernel(first, first + blocks, added, *draw.arguments, out)
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
    keys = schedule(key)
    added, bound = np.array(keys, np.uint32), np.array([span & WORD, span >> 32], np.uint64)
    least, offset = np.uint64((1 << 64) % span), np.uint64(low % (1 << 64))
    large = is_large(out.size)

    def piece(start: int, stop: int) -> None:
        found, rest = np.empty((2, min(CHUNK, out.size)), np.uint64)
        for at in range(start, stop):
            part = out[at * CHUNK : (at + 1) * CHUNK]
            high, low = found[: part.size], rest[: part.size]
            if large:
                first = at * (CHUNK // BLOCK)
                _SCALED(first, first - (-part.size // BLOCK), 0, added, bound, high, low)
            else:
                places = np.arange(at * CHUNK, at * CHUNK + part.size, dtype=np.uint64)
                high[:], low[:] = _scaled(keys, places, 0, span)
            if least:
                _settle(keys, at * CHUNK, span, least, high, low)
            high += offset
            np.copyto(part, high, casting="unsafe")

    parallel_for(piece, -(-out.size // CHUNK), None if large else 1)


def _scaled(keys: Schedule, places: Array, stream: int, span: int) -> Any:
    """Upper and lower 64 bits of the words of the places, as numbers of 64 bits, times the span."""
    a, b = words_at(keys, places, stream)
    if places.size > FEW:
        bound = np.array([span & WORD, span >> 32], np.uint64)
        return numbers.scaled(a.astype(np.uint64), b.astype(np.uint64), bound[0], bound[1])
    products = [(x | y << 32) * span for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    halves = ([p >> 64 for p in products], [p & MASK for p in products])
    return np.array(halves, np.uint64)


def _settle(keys: Schedule, first: int, span: int, least: Any, high: Array, low: Array) -> None:
    """Draw anew where the word was refused; that all streams are is less likely than 2**-253."""
    (refused,) = np.nonzero(low < least)
    for stream in range(1, STREAMS - 1):
        if not refused.size:
            return
        places = refused.astype(np.uint64) + np.uint64(first)
        high[refused], low[refused] = _scaled(keys, places, stream, span)
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
