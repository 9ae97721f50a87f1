"""What functions that numpy.linalg has not share."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import OptionError
from ..backend.door import to_torch
from .failures import OnError
from .operands import Wrap


def finished(result: Any, info: Any, on_error: OnError, wrap: Wrap | None = None) -> Any:
    """The result, or (result, info) where codes were asked for; matrices as the operand was."""
    if wrap is not None:
        if isinstance(result, tuple):
            result = type(result)._make(_wrapped(x, wrap) for x in result)  # type: ignore[attr-defined]
        else:
            result = _wrapped(result, wrap)
    return (result, info) if on_error == "info" else result


def _wrapped(x: Any, wrap: Wrap) -> Any:
    """Subclasses of ndarray may stand for matrices alone."""
    if x is None:
        return None
    return wrap(x) if wrap is to_torch or x.ndim >= 2 else x


def one_of(call: str, name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is none of these."""
    if not any(value is x or (isinstance(value, str) and value == x) for x in allowed):
        raise OptionError(f"{call}({name}={value!r}): give one of {', '.join(map(repr, allowed))}")


def whole(call: str, name: str, value: Any, least: int) -> None:
    """Refuse what is no integer, or is too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(f"{call}({name}={value!r}): give an integer >= {least}")


def not_negative(call: str, name: str, value: Any) -> None:
    """Refuse what is no real number, or is negative or NaN."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or not value >= 0:
        raise OptionError(f"{call}({name}={value!r}): give a real number that is not negative")
