"""Which backend a call is for: that of the device on which its operands lie.

Nothing moves by itself: arrays of a device with arrays of the host, or of another device, are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._base.errors import Unsupported
from .lent import seen
from .protocol import Backend

Finder = Callable[[Any], Backend]
FINDERS: dict[type, Finder] = {}
"""What tells the backend of an array, by the array's type."""


def register_arrays(kind: type, find: Finder) -> None:
    """Arrays of this type belong to the backend that `find` tells of one. Those of CuPy are known."""
    FINDERS[kind] = find


def unregister_arrays(kind: type) -> None:
    """Forget what `register_arrays` was told; forgetting it again changes nothing."""
    FINDERS.pop(kind, None)


def placed(call: str, operands: Iterable[Any]) -> tuple[Backend | None, tuple[Any, ...]]:
    """As `elsewhere`, and the operands: those of other libraries on a GPU as arrays of the backend.

    Raises:
        Unsupported: they lie on several devices; the message tells which to upload.
        ConversionError: an operand beside arrays of a device is no array, or is not lent.

    >>> import numpy as np
    >>> placed("einsum", [np.ones(2), [1.0, 2.0]])
    (None, (array([1., 1.]), [1.0, 2.0]))
    """
    given = tuple(operands)
    for x in given:
        if type(x) is not np.ndarray:
            break
    else:  # what is plain is all on the host, and told at once
        return None, given
    found: list[Any] = []
    backend = None
    for k, x in enumerate(given):
        if type(x) is not np.ndarray:
            place = _backend_of(x)
            if place is None and (view := seen(x, call, k)) is not x:
                x, place = view, _backend_of(view)
            backend = backend or place
        found.append(x)
    if backend is not None:
        check_together(call, backend, found)
    return backend, tuple(found)


def shown(call: str, operands: Iterable[Any]) -> tuple[Any, ...]:
    """Arrays of other libraries on a GPU as arrays of its backend, in the same memory; all else as it is."""
    return tuple(
        x if type(x) is np.ndarray or x is None or _backend_of(x) is not None else seen(x, call, k)
        for k, x in enumerate(operands)
    )


def elsewhere(call: str, operands: Iterable[Any]) -> Backend | None:
    """The backend of operands that lie on a device; None if all are of the host.

    Raises:
        Unsupported: they lie on several; the message tells which to upload.
        ConversionError: an operand beside arrays of a device is no array.

    >>> import numpy as np
    >>> print(elsewhere("einsum", [np.ones(3), [1.0, 2.0]]))
    None
    """
    given = tuple(operands)
    for x in given:
        if type(x) is not np.ndarray and (backend := _backend_of(x)) is not None:
            check_together(call, backend, given)
            return backend
    return None


def check_together(call: str, backend: Backend, operands: Iterable[Any]) -> None:
    """Refuse operands that do not lie where `backend` computes."""
    for k, x in enumerate(operands):
        place = backend.placement(x)
        if place != backend.device:
            where = "is on the host" if place == "cpu" else f"lies on {place}"
            raise Unsupported(
                f"{call}: operand {k} {where}, and the call runs on {backend.device}; upload it, "
                f"to_device(x) of einloom.backend.get({backend.device!r}), or download the others by to_host"
            )


def _backend_of(x: Any) -> Backend | None:
    kind = type(x)
    find = FINDERS.get(kind)
    if find is not None:
        return find(x)
    if kind.__name__ == "ndarray" and kind.__module__.partition(".")[0] == "cupy":
        from .gpu import gpu

        register_arrays(kind, lambda x: gpu(int(x.device.id)))
        return gpu(int(x.device.id))
    return None
