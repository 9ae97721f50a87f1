"""Op catalogue, Backend protocol and the backends: everything that touches array memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .protocol import Backend


def get(name: str = "cpu") -> Backend:
    """The backend of a name: "cpu", "gpu", or a GPU by its number, "gpu:1".

    Raises:
        DeviceError: there is no such backend, or what it needs is missing: the package, a card, a driver.

    >>> get("cpu").name
    'cpu'
    """
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind == "cpu" and number in ("", "0"):
        from .cpu import cpu

        return cpu()
    if kind == "gpu" and (number.isdecimal() or (not number and name == "gpu")):
        from .gpu import gpu

        return gpu(int(number or 0))
    from .._base.errors import DeviceError

    raise DeviceError(
        f"backend.get({name!r:.60}): there are the backends cpu and gpu, and single GPUs as gpu:1"
    )
