"""Operands of the host for slices on a card: each slice's piece is copied there while the slice before is
computed, on a stream of its own.

What is sliced lies on the card in two pieces, one that is read and one that is written, and never as a whole.
The piece is shown as the whole: with a stride of 0 along the sliced axes, so that wherever a slice looks it
finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..cpu.move import move
from .modules import Array, Module, companion

AT_ONCE = 2  # pieces of an operand on the card
Axes = tuple[tuple[int, int], ...]
"""Axes that are sliced, and the static index of each."""


class Uploads:
    """`uploads(number)`: what slice `number` takes, on the current stream, which waits for it.

    Slices are asked for in the order in which they are queued, each before it is; to be closed when all are.

    Args:
        operands: those of every slice that are there; None where a piece stands.
        pieces: by place among the operands, the array of the host and its sliced axes.
        indices: the static indices of a slice, by its number.
    """

    def __init__(
        self,
        xp: Module,
        ordinal: int,
        operands: Sequence[Any],
        pieces: Mapping[int, tuple[Any, Axes]],
        indices: Callable[[int], Sequence[int]],
    ) -> None:
        self._xp, self._ordinal = xp, ordinal
        self._operands, self._indices = list(operands), indices
        with xp.cuda.Device(ordinal):
            self._stream = xp.cuda.Stream(non_blocking=True)
            self._lines = {place: _Line(xp, *piece) for place, piece in pieces.items()}

    def __call__(self, number: int) -> list[Array]:
        values, found = self._indices(number), self._operands.copy()
        with self._xp.cuda.Device(self._ordinal):
            for place, line in self._lines.items():
                found[place] = line.shown(values, self._stream)
        return found

    def close(self) -> None:
        """Wait for the copies: page-locked memory is taken again as soon as nobody holds it, and memory of
        the card in the order of another stream."""
        self._stream.synchronize()


class _Line:
    """One operand of the host, and the pieces of it that are on the card, the latest last."""

    def __init__(self, xp: Module, array: Any, axes: Axes) -> None:
        self._xp, self._array, self._axes = xp, array, axes
        self.rooms: list[_Room] = []

    def shown(self, values: Sequence[int], copying: Any) -> Array:
        computing = self._xp.cuda.get_current_stream()
        if self.rooms:
            self.rooms[-1].is_read.record(computing)  # by all slices so far
        key = tuple(values[index] for _, index in self._axes)
        room = next((one for one in self.rooms if one.key == key), None)
        if room is None:
            fixed = dict(zip((axis for axis, _ in self._axes), key, strict=True))
            piece = self._array[tuple(fixed.get(k, slice(None)) for k in range(self._array.ndim))]
            if len(self.rooms) < AT_ONCE:
                room = _Room(self._xp, piece, self._array.shape, list(fixed))
            else:
                room = self.rooms.pop(0)
            room.load(piece, key, copying)
        else:
            self.rooms.remove(room)
        self.rooms.append(room)
        computing.wait_event(room.is_loaded)
        return room.view


class _Room:
    """Memory of a piece on the card, and page-locked memory of the host from which it is filled."""

    def __init__(self, xp: Module, piece: Any, shape: Sequence[int], sliced: Sequence[int]) -> None:
        self.key: Any = None
        self._staged = companion(xp, "").empty_pinned(piece.shape, piece.dtype)
        self._piece = xp.empty(piece.shape, piece.dtype)
        steps = iter(self._piece.strides)
        strides = [0 if axis in sliced else next(steps) for axis in range(len(shape))]
        self.view = xp.lib.stride_tricks.as_strided(self._piece, tuple(shape), tuple(strides))
        make = xp.cuda.Event
        self.is_loaded, self.is_read = make(disable_timing=True), make(disable_timing=True)
        self.is_read.record(
            xp.cuda.get_current_stream()
        )  # what had this memory before is done then

    def load(self, piece: Any, key: Any, copying: Any) -> None:
        """Queue the copy on a stream, behind what still reads the piece that was here."""
        if self.key is not None:
            self.is_loaded.synchronize()
        move(self._staged, piece)
        copying.wait_event(self.is_read)
        self._piece.set(self._staged, stream=copying)
        self.is_loaded.record(copying)
        self.key = key
