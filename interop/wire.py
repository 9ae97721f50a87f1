"""Tensors from bytes and a hash of their type: caps and a budget first, then a decoder; nothing is
unpickled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from .._base.errors import DTypeError, EinloomError, FileFormatError, MemoryLimitError, OptionError
from ..backend.cpu import cpu
from ..backend.spec import ArraySpec, dtype_from_name, is_lowprec

Bytes = bytes | bytearray | memoryview
Decoder = Callable[[memoryview], Any]

MAGIC = b"elt1"
"""Then one byte each for the length of the dtype's name and the number of axes, the name, the sizes as
little-endian int64, zeros up to a multiple of 64, and the elements, little-endian in row-major order."""


def type_hash(name: str) -> int:
    """FNV-1a of the name, 64 bits.

    Source: http://www.isthe.com/chongo/tech/comp/fnv/

    >>> hex(type_hash("foobar"))
    '0x85944171f73967e8'
    """
    found = 0xCBF29CE484222325
    for byte in name.encode():
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


ARRAY = type_hash("einloom.array.v1")


def encode(x: np.ndarray[Any, Any]) -> bytes:
    """An array as bytes of the type `ARRAY`.

    Raises:
        DTypeError: elements are no numbers, or such as differ from machine to machine.

    >>> decode(encode(np.arange(3.0)))
    array([0., 1., 2.])
    """
    if not _is_stored(x.dtype):
        raise DTypeError(f"wire: {x.dtype} has no bytes of its own; convert the array by .astype")
    name = x.dtype.name.encode()
    head = MAGIC + bytes((len(name), x.ndim)) + name + np.array(x.shape, "<i8").tobytes()
    stored = x.dtype if x.dtype.kind == "V" else x.dtype.newbyteorder("<")
    return head + bytes(-len(head) % 64) + np.ascontiguousarray(x).astype(stored).tobytes()


def decode(data: Bytes) -> np.ndarray[Any, Any]:
    """The array in these bytes: a view of them where they are aligned, else a copy in a buffer of the
    backend. A view of `bytes` is read-only.

    Raises:
        FileFormatError: the bytes are no array, or too few or too many.
    """
    view = memoryview(data).cast("B")
    if len(view) < 6 or bytes(view[:4]) != MAGIC:
        raise FileFormatError(f"wire: {len(view)} bytes do not begin as an array does")
    named, ndim = 6 + view[4], view[5]
    sizes = named + 8 * ndim
    if len(view) < sizes:
        raise FileFormatError(f"wire: the head of an array ends after {len(view)} bytes")
    try:
        name = bytes(view[6:named]).decode()
        dtype = dtype_from_name(name)
    except (EinloomError, UnicodeDecodeError, ValueError) as error:
        raise FileFormatError(f"wire: the dtype cannot be read: {error}") from None
    if dtype.name != name or not _is_stored(dtype):
        raise FileFormatError(f"wire: there are no arrays of {name!r:.60}")
    shape = np.frombuffer(view[named:sizes], "<i8").tolist()
    start, count = sizes + -sizes % 64, 1
    for n in shape:
        count *= n
    if any(n < 0 for n in shape) or len(view) - start != count * dtype.itemsize:
        raise FileFormatError(f"wire: {len(view)} bytes do not hold {dtype}{shape}")
    try:
        return _array(view[start:], dtype, tuple(shape))
    except ValueError as error:  # more axes, or larger ones, than NumPy has
        raise FileFormatError(f"wire: {dtype}{shape}: {error}") from None


def _is_stored(dtype: np.dtype[Any]) -> bool:
    """Numbers whose bytes are the same everywhere."""
    return dtype.char not in "gG" and (dtype.kind in "biufc" or is_lowprec(dtype))


def _array(body: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return (np.frombuffer(body, np.uint8) != 0).reshape(shape)  # no byte but 0 and 1
    stored = dtype if dtype.kind == "V" else dtype.newbyteorder("<")
    found = np.frombuffer(body, stored).reshape(shape)
    if found.flags.aligned and found.dtype.isnative:
        return found
    own = cpu().empty(ArraySpec(dtype, shape))
    own[...] = found
    return own


class Decoders:
    """Decoders by hash of a type; an unknown hash, or a result that is no array, is an error."""

    def __init__(self) -> None:
        self._decoders: dict[int, Decoder] = {ARRAY: decode}
        self._lock = Lock()

    def register(self, name: str, decoder: Decoder) -> int:
        """Enter a decoder for the type of this name; returns its hash.

        Raises:
            OptionError: another decoder has the hash.
        """
        key = type_hash(name)
        with self._lock:
            if self._decoders.setdefault(key, decoder) is not decoder:
                raise OptionError(f"wire: {name!r:.60} has another decoder already")
        return key

    def decode(self, type_hash: int, data: Bytes) -> np.ndarray[Any, Any]:
        """The array in these bytes, which belong to the array from now on.

        Raises:
            FileFormatError: no decoder has the hash, or it failed; hash and reason are told.
        """
        decoder = self._decoders.get(type_hash)
        if decoder is None:
            raise FileFormatError(f"wire: nothing decodes the type {type_hash:#x}; register it")
        try:
            found = decoder(memoryview(data))
        except Exception as error:
            raise FileFormatError(f"wire: type {type_hash:#x}: {error}") from error
        if not isinstance(found, np.ndarray):
            kind = type(found).__name__
            raise FileFormatError(f"wire: type {type_hash:#x} was decoded to a {kind}, no array")
        return found


@cache
def default_decoders() -> Decoders:
    """Those of the process."""
    return Decoders()


class Ingress:
    """Takes bytes in up to a cap for each fill and a budget for those being decoded.

    >>> ingress = Ingress(budget=1000, per_fill=100)
    >>> ingress.fill(ARRAY, encode(np.ones(2)), default_decoders().decode), ingress.charged
    (array([1., 1.]), 80)
    >>> ingress.release(80)
    """

    def __init__(self, budget: int = 256 << 20, per_fill: int = 4 << 20) -> None:
        self.budget, self.per_fill, self.charged = budget, per_fill, 0
        self._lock = Lock()

    def fill(self, type_hash: int, data: Bytes, materialize: Callable[[int, Bytes], Any]) -> Any:
        """What `materialize` makes of the bytes; their charge stays until `release`, or is given back at
        once when it fails.

        Raises:
            MemoryLimitError: more bytes than a fill may have, or than are left of the budget.
        """
        n = memoryview(data).nbytes
        if n > self.per_fill:
            raise MemoryLimitError(f"wire: a fill of {n} bytes; the cap is {self.per_fill}")
        with self._lock:
            if n > self.budget - self.charged:
                raise MemoryLimitError(
                    f"wire: a fill of {n} bytes, {self.budget - self.charged} are left of "
                    f"{self.budget}; release what was taken in"
                )
            self.charged += n
        try:
            return materialize(type_hash, data)
        except BaseException:
            self.release(n)
            raise

    def release(self, n: int) -> None:
        """Give the charge of n bytes back."""
        with self._lock:
            if not 0 <= n <= self.charged:
                raise OptionError(f"wire: {n} bytes given back, {self.charged} are charged")
            self.charged -= n
