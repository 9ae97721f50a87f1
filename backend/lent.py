"""Arrays of other libraries that lie on a GPU: seen by the array module in the same memory, and results given
back to torch.

Nothing is copied. The order of streams is left to the protocols:

- On the way in `cupy.from_dlpack(x)` makes the card of x current and hands CuPy's current stream there to
  `x.__dlpack__(stream=...)`. torch then lets that stream wait for its own current one by an event, unless
  both are the same, as they are by default: the legacy stream, which CuPy calls 0 and the protocol 1.
- On the way back `torch.from_dlpack(x)` hands torch's current stream on the card of x to CuPy, and
  `cupy.ndarray.__dlpack__` lets it wait for CuPy's current stream. That is the stream of the card that is
  current, so the card of x is made current before.
- An `out` of torch's goes the same way back although its tensor is there already: it is the waiting that
  counts. What torch queues afterwards, also into memory of operands that it has freed meanwhile, comes after
  what is read and written here.
- `__cuda_array_interface__` names a stream from version 3 on, and `cupy.asarray` waits for it on the host.
  So it is asked only where there is no DLPack.

No call waits for the device but the last kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from .._base.errors import DeviceError
from .door import CUDA, is_torch, refused, resolved
from .spec import Axes, Shape

_PLAIN = frozenset((list, tuple, bool, int, float, complex))  # told at once: they lend nothing
_UNREADABLE = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)
"""What protocols raise for what they cannot lend; NotImplementedError is one of RuntimeError."""


def seen(x: Any, call: str, position: int, xp: Any = None) -> Any:
    """An array of another library on a GPU as one of the array module; anything else as it is.

    Raises:
        ConversionError: it requires a gradient, is sparse, or its library does not lend its memory.
    """
    if type(x) in _PLAIN or isinstance(x, (np.ndarray, np.generic)) or not (way := _way(x)):
        return x
    xp = xp or _module()
    if xp is None:
        return x  # the door of the host refuses it, and says what is missing
    if is_torch(x):
        x = resolved(x, call, position)
    try:
        if way == "dlpack":
            with _current(x):
                return xp.from_dlpack(x)
        return xp.asarray(x)
    except _UNREADABLE as error:
        said = "DLPack" if way == "dlpack" else "CuPy"
        raise refused(x, call, position, f"{said} says: {error}") from None


def returned(backend: Any, result: Any, given: Iterable[Any], out: Any = None) -> Any:
    """What a call returns whose operands were `given`: arrays of the device as torch tensors if an operand is
    one; `out` itself where it is a tensor, and what was written otherwise."""
    if not is_torch(out) and not any(map(is_torch, given)):
        return result
    made = _tensors(backend, result)
    if out is None:
        return made
    if not is_torch(out):
        return result
    return (out, *made[1:]) if type(made) is tuple else out


def overlap(x: Any, y: Any) -> bool:
    """Whether two arrays of a device may share memory, by their addresses.

    `cupy.may_share_memory` holds arrays of two allocations for apart, and what is lent is one each time:
    x[:4] and x[1:] of a tensor are two.
    """
    if not x.size or not y.size or x.device.id != y.device.id:
        return False
    (start, end), (first, last) = _bounds(x), _bounds(y)
    return start < last and first < end


def _bounds(x: Any) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    low, high = _reach(x.shape, x.strides)
    start = int(x.data.ptr)
    return start + low, start + high + int(x.itemsize)


@lru_cache(maxsize=1024)
def _reach(shape: Shape, strides: Axes) -> tuple[int, int]:
    """Bytes to the lowest and to the highest element."""
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low, high = (sum(n for n in steps if (n < 0) == below) for below in (True, False))
    return low, high


def _tensors(backend: Any, x: Any) -> Any:
    """The same nest of tuples, plain and named, with torch tensors in the place of arrays of the device."""
    if isinstance(x, backend.xp.ndarray):
        return _tensor(backend, x)
    if isinstance(x, list):
        return [_tensors(backend, one) for one in x]
    if not isinstance(x, tuple):
        return x
    parts = (_tensors(backend, one) for one in x)
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)


def _tensor(backend: Any, x: Any) -> Any:
    """One that shares the memory of `x`, on its card; copied only if torch cannot read its strides."""
    import torch

    with backend.xp.cuda.Device(backend.ordinal):
        return torch.from_dlpack(x.copy() if any(stride < 0 for stride in x.strides) else x)


def _way(x: Any) -> str:
    """The protocol by which `x` lends memory of a GPU; "" if it lies somewhere else, or is no array."""
    if is_torch(x):  # tensors without memory refuse to tell a device of DLPack
        return "dlpack" if x.device.type == "cuda" else ""
    try:
        place = getattr(x, "__dlpack_device__", None)
        if place is not None:
            return "dlpack" if place()[0] == CUDA else ""
        return "interface" if getattr(x, "__cuda_array_interface__", None) is not None else ""
    except _UNREADABLE:
        return ""


def _current(x: Any) -> Any:
    """A block in which the card of a torch tensor is torch's current one: it lends nothing on others."""
    if not is_torch(x):
        return nullcontext()
    import torch

    return torch.cuda.device(x.device)


def _module() -> Any:
    """CuPy; None if it cannot be used."""
    from .gpu import gpu

    try:
        return gpu().xp
    except DeviceError:
        return None
