"""Tensors from bytes: caps and budget, adoption and copies, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from einloom import FileFormatError, MemoryLimitError, OptionError
from einloom.interop.wire import ARRAY, Decoders, Ingress, decode, encode, type_hash


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.arange(6)[: int(np.prod(shape))].reshape(shape).astype(dtype)
    got = decode(encode(x))
    assert (got.dtype, got.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(got, x)


def test_hash_is_fnv() -> None:
    known = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    assert {name: type_hash(name) for name in known} == known


def test_aligned_bytes_are_adopted() -> None:
    buffer = np.frombuffer(bytearray(encode(np.ones(4))), np.uint8)
    assert np.shares_memory(decode(memoryview(buffer)), buffer)


def test_others_are_copied() -> None:
    data = encode(np.ones(4))
    buffer = np.empty(len(data) + 1, np.uint8)
    buffer[1:] = np.frombuffer(data, np.uint8)
    got = decode(memoryview(buffer)[1:])
    assert not np.shares_memory(got, buffer)
    np.testing.assert_array_equal(got, np.ones(4))


def test_every_truncation_is_refused() -> None:
    data = encode(np.ones(3))
    for n in range(len(data)):
        with pytest.raises(FileFormatError, match="wire"):
            decode(data[:n])


def test_unknown_hash_and_failing_decoders() -> None:
    decoders = Decoders()
    with pytest.raises(FileFormatError, match="0x7"):
        decoders.decode(7, b"")
    number = decoders.register("one", lambda data: 1)
    with pytest.raises(FileFormatError, match="int, no array"):
        decoders.decode(number, b"")
    failing = decoders.register("failing", lambda data: data[99])
    with pytest.raises(FileFormatError, match=f"{failing:#x}"):
        decoders.decode(failing, b"")
    with pytest.raises(OptionError, match="another decoder"):
        decoders.register("one", decode)


def test_cap_and_budget() -> None:
    data, decoders = encode(np.ones(2)), Decoders()
    ingress, called = Ingress(budget=100, per_fill=90), []
    with pytest.raises(MemoryLimitError, match="cap is 90"):
        ingress.fill(ARRAY, bytes(91), lambda *x: called.append(x))
    assert not called
    ingress.fill(ARRAY, data, decoders.decode)
    with pytest.raises(MemoryLimitError, match="20 are left"):
        ingress.fill(ARRAY, data, decoders.decode)
    ingress.release(80)
    with pytest.raises(FileFormatError):
        ingress.fill(ARRAY, data[:70], decoders.decode)
    assert ingress.charged == 0
    with pytest.raises(OptionError, match="given back"):
        ingress.release(1)
