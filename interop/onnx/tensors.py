"""Arrays from TensorProto, and dtypes from ONNX's numbers for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.errors import DTypeError, FileFormatError, Unsupported
from ...backend.spec import dtype_from_name

NAMES = (
    "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "", "bool", "float16",
    "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn",
    "float8_e8m0fnu", "uint2", "int2",
)  # fmt: skip
"""Dtypes by TensorProto.DataType; nothing where it is no number."""

BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Dtypes of which several share a byte, the first in its low bits."""

EXTERNAL = 1  # TensorProto.DataLocation


def dtype_of(number: int) -> np.dtype[Any]:
    """The dtype that ONNX gives this number.

    >>> dtype_of(1), dtype_of(7)
    (dtype('float32'), dtype('int64'))
    """
    name = NAMES[number] if 0 < number < len(NAMES) else ""
    if not name:
        raise DTypeError(
            f"onnx: elements of data type {number} are no numbers; convert them outside the graph"
        )
    return dtype_from_name(name)


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The array that a TensorProto holds: rank, dtype and bytes are all its own; read-only.

    Raises:
        FileFormatError: a size is negative, or there are too few or too many bytes or elements.
        DTypeError: elements are no numbers.
        Unsupported: the data lie in another file.
    """
    call = f"onnx: tensor {tensor.name!r:.60}"
    if tensor.data_location == EXTERNAL or tensor.external_data:
        raise Unsupported(
            f"{call} lies in another file; load it by onnx.load(path), which reads such files, and "
            f"pass the model"
        )
    if tensor.HasField("segment"):
        raise Unsupported(f"{call} is a segment of a tensor; store it whole")
    shape, dtype = tuple(tensor.dims), dtype_of(tensor.data_type)
    if any(n < 0 for n in shape):
        raise FileFormatError(f"{call} has the shape {shape}; sizes are >= 0")
    try:
        raw = tensor.raw_data if tensor.HasField("raw_data") else _typed(tensor, dtype)
        found = _read(raw, dtype, shape, call)
    except (ValueError, OverflowError) as error:  # more axes or bytes than NumPy has
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{call} of shape {shape}: {error}") from None
    found.flags.writeable = False  # all calls of a graph share it
    return found


def _typed(tensor: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of what lies in a field of numbers; small dtypes lie as bits in one of 32."""
    code = dtype.name
    if code in ("float32", "complex64"):
        return np.array(tensor.float_data, "<f4").tobytes()
    if code in ("float64", "complex128"):
        return np.array(tensor.double_data, "<f8").tobytes()
    if code == "int64":
        return np.array(tensor.int64_data, "<i8").tobytes()
    if code in ("uint32", "uint64"):
        return np.array(tensor.uint64_data, "<u8").astype(f"<u{dtype.itemsize}").tobytes()
    wide = np.array(tensor.int32_data, "<i4")
    if dtype.kind in "iu" and BITS.get(code) is None and np.any(wide.astype(dtype) != wide):
        raise FileFormatError(f"onnx: tensor {tensor.name!r:.60}: a number that is no {code}")
    return wide.astype(f"<u{dtype.itemsize}").tobytes()


def _read(
    raw: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], call: str
) -> np.ndarray[Any, Any]:
    count, bits = math.prod(shape), BITS.get(dtype.name, 8 * dtype.itemsize)
    needed = -(-count * bits // 8)
    if len(raw) != needed:
        raise FileFormatError(f"{call}: {len(raw)} bytes, {dtype.name}{list(shape)} has {needed}")
    if bits < 8:
        return _unpacked(raw, bits, count).view(dtype).reshape(shape)
    if dtype.kind == "b":  # any other byte would be a boolean that is neither
        return (np.frombuffer(raw, np.uint8) != 0).reshape(shape)
    stored = dtype if dtype.kind == "V" else dtype.newbyteorder("<")
    return np.frombuffer(raw, stored).astype(dtype, copy=False).reshape(shape)


def _unpacked(raw: bytes, bits: int, count: int) -> np.ndarray[Any, Any]:
    packed = np.frombuffer(raw, np.uint8)[:, None]
    parts = packed >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8((1 << bits) - 1)
    return parts.reshape(-1)[:count].astype(np.uint8)
