"""One tree of errors; each is also a subclass of what users of NumPy catch today.

A message tells three things: the call as the user wrote it, what was got, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class EinloomError(Exception):
    """Base of every error that einloom raises on purpose."""


class SubscriptError(EinloomError, ValueError):
    """The subscripts of an equation cannot be read."""


class ShapeError(EinloomError, ValueError):
    """Shapes do not fit the equation, each other, or `out`."""


class DTypeError(EinloomError, TypeError):
    """Dtypes cannot be combined or cast as asked."""


class IndexRangeError(EinloomError, IndexError):
    """An element of an array of indices is out of range."""


class PathError(EinloomError, ValueError, RuntimeError):
    """A contraction path is not one of this equation."""


class OptionError(EinloomError, ValueError):
    """An argument or option has a value without meaning."""


class CallError(EinloomError, TypeError):
    """A function was called with arguments that do not belong together."""


class ConversionError(EinloomError, TypeError):
    """An operand is no array that einloom can read without copying it behind the user's back."""


class MemoryLimitError(EinloomError, MemoryError):
    """The predicted peak memory exceeds the limit, so that nothing has been run; or none was left."""


class LinAlgError(EinloomError, np.linalg.LinAlgError):
    """A factorisation or a solve failed, for some matrices of a batch or for all.

    Attributes:
        info: the code of every matrix, of the batch's shape: 0 good, > 0 LAPACK's (which pivot, or no
            convergence), -1 not finite. None where nothing was computed.
        failed: batch indices of those that failed, as tuples.
    """

    def __init__(
        self,
        message: str = "",
        info: np.ndarray[Any, Any] | None = None,
        failed: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        super().__init__(message)
        self.info, self.failed = info, failed


class MatrixShapeError(ShapeError, LinAlgError):
    """Matrices have shapes that the function does not take: not square, say."""


class FileFormatError(EinloomError, ValueError):
    """A file cannot be read, or was written by a newer version."""


class ProgramError(EinloomError, ValueError):
    """A program breaks a rule of the IR; the message names instruction, slot and rule."""


class ExtensionError(EinloomError, LookupError):
    """An extension family or its runtime is missing, ambiguous or misbehaves."""


class Unsupported(EinloomError, NotImplementedError):
    """A backend cannot do this; the message names op, dtype, device and the remedy."""


class WorkerLostError(EinloomError, RuntimeError):
    """Workers of an executor ended before their task did, more often than it was to be tried."""


class DeviceError(EinloomError, LookupError):
    """There is no such device, or it was asked for what it does not have; devices are named."""


class NodeError(EinloomError, LookupError):
    """A node is not where it is looked for, or is where it must not be."""


class OrderError(EinloomError, RuntimeError):
    """What must have run before has not, or has failed; it is named."""


class MergeError(EinloomError, ValueError):
    """A merge buffer holds, or will hold, something else than the code expects."""


class ClosedError(EinloomError, RuntimeError):
    """A context, a device or a pool is used after it was closed."""


@contextmanager
def spoken_for(call: str, inner: str = "einsum") -> Iterator[None]:
    """Name the call that the user made, where another function of ours does its work."""
    try:
        yield
    except EinloomError as error:
        text = str(error)
        if not text.startswith(inner):
            raise
        raise type(error)(call + text.removeprefix(inner)) from None


def caret(text: str, position: int, width: int = 1) -> str:
    """Two lines that show `text` with carets under `width` characters from `position`.

    A long text is cut to a window around the spot, so that the caret stays in sight.

    >>> print(caret("ij,j$->i", 4))
        ij,j$->i
            ^
    """
    start = max(0, position - 36) if len(text) > 76 else 0
    shown = text[start : start + 72] if len(text) > 76 else text
    left, right = "..." * (start > 0), "..." * (start + len(shown) < len(text))
    pad = " " * (4 + len(left) + position - start)
    width = max(1, min(width, len(shown) - (position - start)))
    return f"    {left}{shown}{right}\n{pad}{'^' * width}"
