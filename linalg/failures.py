"""Batches that fail in part: an error that names the members, NaN in their place, or their codes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._base.errors import LinAlgError, OptionError

Array = np.ndarray[Any, Any]
OnError = Literal["raise", "nan", "info"]

NOT_FINITE = -1
"""The code of a member with NaN or infinity, where `check_finite` asked for it."""

SHOWN = 5


def check_on_error(call: str, on_error: object) -> None:
    if on_error not in ("raise", "nan", "info"):
        raise OptionError(f'{call}(on_error={on_error!r}): give "raise", "nan" or "info"')


def any_failed(info: Array) -> bool:
    return bool(info.any() if info.ndim else info.item())


def settle(
    call: str, failure: str, outputs: tuple[Any, ...], info: Array, on_error: OnError
) -> None:
    """Raise, or fill what is of failed members: NaN in floating results, -1 in integers."""
    if not any_failed(info):
        return
    if on_error == "raise":
        raise failed(call, failure, info)
    bad = info != 0
    for x in outputs:
        x[bad] = -1 if x.dtype.kind in "iu" else np.nan


def failed(call: str, failure: str, info: Array) -> LinAlgError:
    """The error that names the first few members that failed."""
    members = tuple(tuple(map(int, at)) for at in np.argwhere(info))
    infinite = "" if (info > 0).any() else "Array must not contain infs or NaNs"
    what = infinite or failure
    if not info.ndim:
        return LinAlgError(f"{call}: {what} (code {info.item()})", info, ((),))
    shown = ", ".join(str(at[0] if len(at) == 1 else at) for at in members[:SHOWN])
    more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
    return LinAlgError(
        f"{call}: {what}: {len(members)} of {info.size} matrices of the batch, at {shown}{more}; "
        f"on_error='nan' or on_error='info' keeps the others",
        info,
        members,
    )
