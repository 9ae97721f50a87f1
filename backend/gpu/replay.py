"""Calls of a program that come again: recorded once as a CUDA graph, and launched on other arrays every time.

A launch takes the host some 10 microseconds, a graph of a hundred not much more. What is recorded works on
places of its own; a kernel at its beginning copies the operands there, one at its end copies the result into
an array that is made for the call, and where these lie is replaced from launch to launch (`nodes`). So
a call is what it is without a graph: operands may lie anywhere, results are the caller's, several threads and
streams may call. Launches of one graph come one after another, whatever streams they are on.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..._base.caches import CacheInfo, register
from ..._base.errors import MemoryLimitError
from .blas import WORKSPACE
from .cuda import relay
from .cuda.kernel import CudaKernel
from .graphs import Captured
from .launch import by_value, can_launch, function_of
from .memory import USUAL, address, memory
from .modules import Array, Module
from .routines import routines

MOST, ALL = 32, 8
"""Of a card's memory the parts that one graph, and all graphs, may hold."""
WORTH, FIRST = 4 << 20, 3 << 19
"""Bytes that are copied in and out for each step: they take as long as a step takes the host. The launches at
both ends and that of the graph take the place of one step, but for a little."""
VARIANTS, COUNTED = 2, 8  # strides of graphs, and those whose calls are counted, for each program
CALLS, RARER = 8, 4
"""Calls before a graph is recorded, which takes as long as some ten calls save; and how many times as many
before it is recorded again."""

_LOG = logging.getLogger("einloom")


class Replay:
    """`run(*arrays)`: what `plain` gives; a call for arrays that lie as those of some calls before did
    records `inside`, which computes the same and keeps no memory of its own, and later ones launch that.

    Args:
        varying: how many arrays differ from call to call; the others are the same ones in every call.
        nbytes: what a graph of it holds.
    """

    def __init__(
        self,
        xp: Module,
        ordinal: int,
        plain: Callable[..., Array],
        inside: Callable[[], Callable[..., Array]],
        varying: int,
        nbytes: int,
    ) -> None:
        self._xp, self._ordinal, self._plain, self._inside = xp, ordinal, plain, inside
        self._varying, self.nbytes = varying, nbytes + WORKSPACE
        self._is_sole = xp.cuda.runtime.getDeviceCount() == 1
        self._graphs: dict[Any, _Graph] = {}
        # by strides: calls so far, and those to come before
        self._counts: dict[Any, list[int]] = {}
        self._lock = threading.Lock()

    def __call__(self, *arrays: Array) -> Array:
        if self._is_sole:
            return self._called(arrays)
        with self._xp.cuda.Device(self._ordinal):
            return self._called(arrays)

    def _called(self, arrays: Sequence[Array]) -> Array:
        given = arrays[: self._varying]
        key = tuple([x.strides for x in given])
        graph = self._graphs.get(key)
        if graph is None:
            return self._without(key, arrays)
        if is_capturing(self._xp):
            return self._plain(*arrays)
        return graph(given)

    def _without(self, key: Any, arrays: Sequence[Array]) -> Array:
        """The call as it is, but where it is worth a graph by now."""
        if self._counted(key) and self._lock.acquire(blocking=False):
            try:
                graph = self._recorded(arrays)
                if graph is not None:
                    self._graphs[key] = graph
                    KEPT.admit(self, key, self.nbytes, memory(self._xp) // ALL)
                    return graph(arrays[: self._varying])
            finally:
                self._lock.release()
        return self._plain(*arrays)

    def _counted(self, key: Any) -> bool:
        """Count a call; whether it is worth a graph."""
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= COUNTED:  # the first of those that are no graph
                without = [one for one in list(self._counts) if one not in self._graphs]
                self._counts.pop(without[0], None)
            count = self._counts.setdefault(key, [0, CALLS])
        count[0] += 1
        if count[0] <= count[1] or len(self._graphs) >= VARIANTS or is_capturing(self._xp):
            return False
        count[:] = 0, count[1] * RARER
        return True

    def _recorded(self, arrays: Sequence[Array]) -> _Graph | None:
        try:
            for x in arrays[: self._varying]:
                order_of(x)
            return _Graph(self._xp, self._ordinal, self._inside(), arrays, self._varying)
        except Exception as error:  # the call itself is not touched, and goes on without a graph
            _LOG.info("a program is run without a graph: %s", error)
            return None

    def drop(self, key: Any) -> None:
        self._graphs.pop(key, None)

    def was_used(self, key: Any) -> bool:
        """Whether a graph was launched since this was asked for the last time."""
        graph = self._graphs.get(key)
        if graph is None:
            return False
        used, graph.used = graph.used, False
        return used


class _Graph:
    """The program on fixed places, between the copies."""

    def __init__(
        self,
        xp: Module,
        ordinal: int,
        inside: Callable[..., Array],
        arrays: Sequence[Array],
        varying: int,
    ) -> None:
        self._xp, self._inside = xp, inside
        self._held = arrays[varying:]
        self._fixed: list[Array] = []
        self._into: _Relay | None = None
        self._out: _Relay | None = None
        lanes = getattr(inside, "lanes", 1)
        self._captured = Captured(xp, ordinal, self._run, arrays[:varying], lanes)
        graph, result = self._captured.graph, self._captured.results
        ends: Any = (self._into, self._out)
        for end in ends:
            end.find(graph)
        self._shape, self._dtype, self._order = result.shape, result.dtype, order_of(result)
        self._from = address(result)
        self._captured.arrays = ()  # those of the call are the caller's
        self._lock, self.used = threading.Lock(), False

    def _run(self, *arrays: Array) -> Array:
        """Once to warm up, when places are made, and once recorded."""
        xp = self._xp
        if self._into is None:
            self._fixed = [alike(xp, x) for x in arrays]
            self._into = _Relay(xp, relay.gathering, self._fixed)
        self._into.queue([address(x) for x in arrays])
        result = self._inside(*self._fixed, *self._held)
        if self._out is None:
            self._out = _Relay(xp, relay.delivering, [result])
        target = alike(xp, result)
        self._out.queue([address(target), address(result)])
        return result

    def __call__(self, arrays: Sequence[Array]) -> Array:
        places = [x.data.ptr for x in arrays]
        result = laid(self._xp, self._shape, self._dtype, self._order)
        self.used = True
        with self._lock:
            self._into.put(places)  # type: ignore[union-attr]
            self._out.put([result.data.ptr, self._from])  # type: ignore[union-attr]
            self._captured.graph.launch()
        return result


class _Relay:
    """The launch that copies between fixed places and those of a call."""

    def __init__(
        self, xp: Module, make: Callable[[int, int], CudaKernel], fixed: Sequence[Array]
    ) -> None:
        self._xp, self._make = xp, make
        rows = relay.chunks_of([(address(x), x.nbytes) for x in fixed])
        self._chunks = xp.array(rows)
        self._kernel = make(len(fixed), len(rows))
        self._function = function_of(xp, self._kernel)
        self.put: Callable[[list[int]], None]

    def queue(self, places: Sequence[int]) -> None:
        words = np.zeros(len(self._kernel.geometry), np.int64)
        words[: len(places)] = places
        self._function(self._kernel.grid, self._kernel.block, (self._chunks, by_value(words)))

    def find(self, graph: Any) -> None:
        """This launch in a graph, whose places `put` replaces from then on."""
        words = len(self._kernel.geometry)
        self.put = routines(self._xp).node(graph, self._function, self._chunks, words).put


class _Kept:
    """Graphs of all programs: their memory is bounded, and those that are in use go last."""

    def __init__(self) -> None:
        self.renew_lock()
        self._all: OrderedDict[tuple[int, Any], tuple[Any, int]] = OrderedDict()
        self.nbytes, self._most = 0, USUAL // ALL
        register("cuda graphs", self)

    def renew_lock(self) -> None:
        self._lock = threading.RLock()  # a callback may come while it is held

    def admit(self, replay: Replay, key: Any, nbytes: int, most: int) -> None:
        """Count a graph, and let others go until all hold no more than `most` bytes."""
        number = (id(replay), key)

        def gone(_: Any) -> None:
            with self._lock:
                self._forget(number)

        with self._lock:
            self._forget(number)
            self._all[number] = ref(replay, gone), nbytes
            self.nbytes += nbytes
            self._most = most
            for first in list(self._all)[:-1]:
                if self.nbytes > most and not self._is_spared(first):
                    self._drop(first)
            for first in list(self._all)[:-1]:  # all of them are in use
                if self.nbytes > most:
                    self._drop(first)

    def _is_spared(self, number: tuple[int, Any]) -> bool:
        found = self._all.get(number)
        replay = None if found is None else found[0]()
        return replay is not None and replay.was_used(number[1])

    def _drop(self, number: tuple[int, Any]) -> None:
        found = self._all.get(number)
        replay = None if found is None else found[0]()
        if replay is not None:
            replay.drop(number[1])
        self._forget(number)

    def _forget(self, number: tuple[int, Any]) -> None:
        found = self._all.pop(number, None)
        if found is not None:
            self.nbytes -= found[1]

    def info(self) -> CacheInfo:
        """Sizes are MiB."""
        with self._lock:
            return CacheInfo(0, 0, self._most >> 20, self.nbytes >> 20)

    def clear(self) -> None:
        with self._lock:
            for number in list(self._all):
                self._drop(number)


KEPT = _Kept()


def with_room(backend: Any, run: Callable[..., Array]) -> Callable[..., Array]:
    """`run`, which where there is no memory lets all graphs go, and what the pool keeps, and tries again."""

    def tried(*arrays: Array) -> Array:
        try:
            return run(*arrays)
        except MemoryError:
            backend.reclaim()
        try:
            return run(*arrays)
        except MemoryError as error:
            raise MemoryLimitError(
                f"there is no memory on {backend.device} for the result or for what computes it ({error}); "
                f"make it smaller, give a memory_limit, or free arrays"
            ) from error

    return tried


def is_worth(xp: Module, steps: int, given: int, relayed: int, nbytes: int) -> bool:
    """Whether a graph is sooner than calls: there are launches to save, for few bytes copied in and out.

    Args:
        steps: that queue work.
        given: arrays that differ from call to call.
        relayed: bytes of these and of the result.
        nbytes: all that the graph holds.
    """
    return (
        can_launch(xp)
        and 0 < given <= relay.MOST
        and relayed <= FIRST + (steps - 1) * WORTH
        and nbytes <= memory(xp) // MOST
    )


def is_capturing(xp: Module) -> bool:
    """Whether somebody records the current stream, or nothing may be asked of it because of another's
    capture."""
    try:
        return bool(xp.cuda.get_current_stream().is_capturing())
    except RuntimeError:
        return True


def order_of(x: Array) -> tuple[int, ...]:
    """Its axes as they lie in memory, without gaps between the elements.

    Raises:
        ValueError: there are gaps, or elements in reverse.
    """
    order = tuple(sorted(range(x.ndim), key=lambda axis: (-x.strides[axis], -x.shape[axis])))
    step = x.itemsize
    for axis in reversed(order):
        if x.shape[axis] != 1:
            if x.strides[axis] != step:
                raise ValueError("an array with gaps between its elements")
            step *= x.shape[axis]
    return order


def alike(xp: Module, x: Array) -> Array:
    """A new array that lies as `x` does."""
    return laid(xp, x.shape, x.dtype, order_of(x))


def laid(xp: Module, shape: Sequence[int], dtype: Any, order: Sequence[int]) -> Array:
    if list(order) == sorted(order):
        return xp.empty(shape, dtype)
    made = xp.empty(tuple([shape[axis] for axis in order]), dtype)
    return made.transpose([order.index(axis) for axis in range(len(order))])
