"""Steps of a program on several streams: what does not depend on each other runs side by side.

A graph recorded from one stream is one chain, however wide the tree of a contraction is. Recorded from
several it has the program's own order and no other, and the card works on several branches at once, where one
small kernel leaves most of it idle. Which step goes where is decided before: each to the stream on which it
can begin first, if every step took as long as any other (list scheduling: R. L. Graham, "Bounds on
multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .modules import Array, Module

LANES = 8


class Piece(NamedTuple):
    """A step: `kernel(*inputs)` gives its outputs, numbered as the program numbers its slots."""

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_view: bool


class Turn(NamedTuple):
    """Where a step runs, and which steps of other lanes it waits for there."""

    lane: int
    waits: tuple[int, ...]


def turns(pieces: Sequence[Piece], lanes: int = LANES) -> list[Turn | None]:
    """The lane of each step, None for views, which queue nothing.

    A lane is in order, so a step waits for the last step of another lane that it needs, and for none that
    an earlier step of its own lane has waited for.

    >>> pair = lambda a, b, out: Piece(None, (a, b), (out,), False)
    >>> for turn in turns([pair(0, 1, 4), pair(2, 3, 5), pair(4, 5, 6)]):
    ...     turn
    Turn(lane=0, waits=())
    Turn(lane=1, waits=())
    Turn(lane=0, waits=(1,))
    """
    found: list[Turn | None] = []
    makers: dict[int, frozenset[int]] = {}  # of a slot: the steps to be waited for
    ends: dict[int, int] = {}
    lane_of: dict[int, int] = {}
    free = [0] * lanes
    seen = [
        [-1] * lanes for _ in range(lanes)
    ]  # by lane: the last step of each that it comes after
    for number, piece in enumerate(pieces):
        needed = frozenset().union(*(makers.get(slot, frozenset()) for slot in piece.inputs))
        if piece.is_view:
            makers.update((slot, needed) for slot in piece.outputs)
            found.append(None)
            continue
        ready = max((ends[step] for step in needed), default=0)
        last = {lane_of[step] for step in needed if ends[step] == ready}
        # of those where it can begin first one that it need not wait for, else the busiest: few are used
        lane = min(range(lanes), key=lambda k: (max(free[k], ready), k not in last, -free[k]))
        waits = []
        for step in sorted(needed, reverse=True):
            if lane_of[step] != lane and seen[lane][lane_of[step]] < step:
                seen[lane][lane_of[step]] = step
                waits.append(step)
        free[lane] = ends[number] = max(free[lane], ready) + 1
        lane_of[number] = lane
        makers.update((slot, frozenset((number,))) for slot in piece.outputs)
        found.append(Turn(lane, tuple(waits)))
    return found


class InLanes:
    """`run(*arrays)`: the steps on as many streams, the first of them the current one, which in the end comes
    after all others.

    Whatever is computed is kept until all is queued: memory that a lane gives back is taken again in the
    order of that lane alone, while another may still read it.
    """

    def __init__(
        self,
        xp: Module,
        pieces: Sequence[Piece],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        self._xp, self._pieces = xp, pieces
        self._inputs, self._outputs = inputs, outputs
        self._turns = turns(pieces)
        self.lanes = 1 + max((turn.lane for turn in self._turns if turn), default=0)
        cuda = xp.cuda
        self._streams = [cuda.Stream(non_blocking=True) for _ in range(self.lanes - 1)]

    def __call__(self, *arrays: Array) -> Any:
        cuda = self._xp.cuda
        first = cuda.get_current_stream()
        start = self._mark(first)
        streams, joined = [first, *self._streams], {0}
        marks: dict[int, Any] = {}
        values = dict(zip(self._inputs, arrays, strict=True))
        for number, (piece, turn) in enumerate(zip(self._pieces, self._turns, strict=True)):
            operands = [values[slot] for slot in piece.inputs]
            if turn is None:
                result = piece.kernel(*operands)
            else:
                stream = streams[turn.lane]
                if turn.lane not in joined:
                    joined.add(turn.lane)
                    stream.wait_event(start)
                for step in turn.waits:
                    stream.wait_event(marks[step])
                with stream:
                    result = piece.kernel(*operands)
                marks[number] = self._mark(stream)
            several = len(piece.outputs) > 1
            values.update(zip(piece.outputs, result if several else (result,), strict=True))
        for lane in sorted(joined - {0}):
            first.wait_event(self._mark(streams[lane]))
        results = tuple(values[slot] for slot in self._outputs)
        return results[0] if len(results) == 1 else results

    def _mark(self, stream: Any) -> Any:
        event = self._xp.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
