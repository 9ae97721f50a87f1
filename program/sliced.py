"""A program with static indices, run for all their values: a contraction in slices.

The program is split in two. What depends on no static index runs once, and its results are kept; the
rest runs for every slice, in a fixed order, so that the bits are the same in every run. What a run
gives is assigned to its part of the result, or added to it where an index is no axis of the result.

A program may give pairs (x, k) for x * 2**-k (see `scaling`), with another k in every slice: then what is
added up is brought to one exponent, the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ldexp, prod
from typing import Any

import numpy as np

from .._base.errors import ProgramError
from .._base.progress import Progress
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec, Shape, compute_dtype
from .bindings import odometer
from .compiling import Compiling
from .executable import Executable
from .ir import Instruction, Program
from .parts import split
from .ranges import Partial, Total
from .scaling import to_decimal
from .schedule import schedule

Operands = Sequence[Any] | Callable[[int], Sequence[Any]]
"""What slices take, or a function that gives what the slice of a number takes."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The whole result: its axis k is the static index at[k], or whole in every slice if that is None."""

    spec: ArraySpec
    at: tuple[int | None, ...]

    @property
    def diagonal(self) -> bool:
        """Whether an index is two axes, so that no slice reaches what is off their diagonal."""
        used = [number for number in self.at if number is not None]
        return len(set(used)) < len(used)

    def summed(self, program: Program) -> tuple[int, ...]:
        """The static indices that are no axis of the result."""
        return tuple(k for k in range(len(program.indices)) if k not in self.at)

    def accumulates_apart(self, program: Program) -> bool:
        """Whether slices are added up in another dtype than the result's: half precisions are."""
        return (
            bool(self.summed(program))
            and program.slots[program.outputs[0]].dtype != self.spec.dtype
        )


@dataclass(frozen=True, slots=True)
class SlicedBytes:
    """What a run in slices needs: all of it, and without inputs and without scratch."""

    peak_bytes: int
    certain_bytes: int


def sliced_bytes(program: Program, assembly: Assembly, backend: Backend) -> SlicedBytes:
    """Inputs, and the larger of two: the part run once; its results, the result, and one slice."""
    once, each = split(program)
    held = assembly.spec.nbytes + _kept_bytes(once)
    if assembly.accumulates_apart(program):
        held += program.slots[program.outputs[0]].nbytes
    before, during = (schedule(one, backend, fork=False) for one in (once, each))
    held += before.memory.nbytes if before.has_arena else 0  # an arena is kept
    inputs = _input_bytes(program)
    return SlicedBytes(
        inputs
        + max(
            before.peak_bytes - _input_bytes(once),
            held + during.peak_bytes - _input_bytes(each),
        ),
        max(before.certain_bytes, held + during.certain_bytes),
    )


def scaled_bytes(program: Program, assembly: Assembly, backend: Backend) -> SlicedBytes:
    """The same where exponents are kept apart: the result is added up in the dtype of computation, beside
    one part of it that is scaled, and becomes mantissa and exponent at the end."""
    once, each = split(program)
    last = to_decimal(assembly.spec)
    total = last.slots[last.inputs[0]].nbytes
    kept = _kept_bytes(once)
    before, during, after = (schedule(one, backend, fork=False) for one in (once, each, last))
    kept += before.memory.nbytes if before.has_arena else 0  # arenas are kept
    held = kept + total + program.slots[program.outputs[0]].nbytes
    arena = during.memory.nbytes if during.has_arena else 0
    return SlicedBytes(
        _input_bytes(program)
        + max(
            before.peak_bytes - _input_bytes(once),
            held + during.peak_bytes - _input_bytes(each),
            kept + arena + after.peak_bytes,
        ),
        max(before.certain_bytes, held + during.certain_bytes, kept + total + after.certain_bytes),
    )


def _input_bytes(program: Program) -> int:
    return sum(program.slots[slot].nbytes for slot in program.inputs)


def _kept_bytes(once: Program) -> int:
    """Memory that the outputs hold: their own, and what they show or may show."""
    made = {slot: ins for ins in once.instructions for slot in ins.outputs}
    seen: set[int] = set()
    total, stack = 0, [*once.outputs]
    while stack:
        slot = stack.pop()
        if slot in seen or slot not in made:
            continue
        seen.add(slot)
        if not made[slot].is_view:
            total += once.slots[slot].nbytes
        if made[slot].may_view:
            stack.append(made[slot].inputs[0])
    return total


class SlicedExecutable:
    """Runs `program` for all values of its static indices: `executable(*arrays, out=None, ...)`.

    Holds no state of a call: safe from several threads.
    """

    is_view = False

    def __init__(self, program: Program, assembly: Assembly, backend: Backend) -> None:
        self.program, self.assembly, self.backend = program, assembly, backend
        self.bytes = sliced_bytes(program, assembly, backend)
        once, each = split(program)
        self.once = Executable(once, backend, fork=False) if once.instructions else None
        self.each = Executable(each, backend, fork=False)
        position = {slot: k for k, slot in enumerate(program.inputs)}
        self._once_takes = tuple(position[slot] for slot in once.inputs)
        self._each_takes = tuple(position[slot] for slot in each.inputs if slot in position)
        self._summed = assembly.summed(program)
        self._open = tuple(k for k in range(len(program.indices)) if k in assembly.at)
        self._apart = assembly.accumulates_apart(program)
        part = self._contribution
        self._add = backend.bind("add", {}, (part, part), (part,))
        self._sizes = [index.size for index in program.indices]
        self.n_parts = prod(self._sizes[k] for k in self._open)
        self.each_part = prod(self._sizes[k] for k in self._summed)
        self.n_slices = self.n_parts * self.each_part

    @property
    def peak_bytes(self) -> int:
        return self.bytes.peak_bytes

    @property
    def source(self) -> str:
        """Both generated functions."""
        each = f"# for each of {self.n_slices} slices\n{self.each.source}"
        return each if self.once is None else f"# once\n{self.once.source}\n{each}"

    def release(self) -> None:
        """Let go of the memory that is kept for the next call."""
        for part in (self.once, self.each):
            if part is not None:
                part.release()

    def __call__(
        self, *arrays: Any, out: Any = None, alpha: Any = 1, beta: Any = 0, order: Any = "C"
    ) -> Any:
        """alpha * result + beta * out, in `out` or in a new array of this memory order.

        `out` must not overlap an input. Beyond `peak_bytes`, one part of the result is held where
        beta is not 0 or `out` has another dtype.
        """
        given = out is not None
        spec = self.assembly.spec
        result = out if given else _new(self.backend, spec.shape, spec.dtype, order)
        if self.assembly.diagonal:
            # what no slice reaches is beta * out as well
            _clear(self.backend, result, spec.dtype, beta)
            beta = 1 if beta != 0 else 0
        operands = self.prepared(arrays)
        # slices are added up in the result itself, where nothing of what it held is wanted
        in_place = beta == 0 and not self._apart and result.dtype == spec.dtype
        held: Any = None
        with Progress("slices", self.n_slices) as progress:
            for index, ids in self._parts():
                part = result[index]
                if not in_place and held is None:
                    held = _new(self.backend, part.shape, self._contribution.dtype)
                target = part if in_place else held
                for number, indices in enumerate(ids):
                    if number == 0:
                        self.each(*operands, out=target, indices=indices)
                    else:
                        self._add(target, self.each.run(*operands, *indices), out=target)
                    progress.advance()
                if not in_place or alpha != 1:
                    self.backend.assign(part, target, alpha, beta)
        return result

    def prepared(self, arrays: Sequence[Any]) -> list[Any]:
        """What a slice takes: inputs, and the results of the part that runs once."""
        operands = [arrays[k] for k in self._each_takes]
        if self.once is not None:
            kept = self.once.run(*(arrays[k] for k in self._once_takes))
            operands += [kept] if len(self.once.program.outputs) == 1 else kept
        return operands

    def places(self) -> dict[int, tuple[int, tuple[tuple[int, int], ...]]]:
        """By position of an input that slices alone read, each one piece of it: its place among what
        `prepared` returns, and the axes that are sliced, each with its static index."""
        at = {slot: k for k, slot in enumerate(self.program.inputs)}
        return {
            at[slot]: (self._each_takes.index(at[slot]), axes)
            for slot, axes in _pieces_read(self.program).items()
        }

    def partial(self, operands: Operands, start: int, stop: int) -> Partial:
        """The sum of slices `start` to `stop` - 1, numbered in the order in which a call runs them."""
        values = _new(self.backend, self._stack(start, stop), self._contribution.dtype)
        fed = operands
        for number in range(start, stop):
            target, indices = values[self._row(start, number), ...], self.indices(number)
            operands = fed(number) if callable(fed) else fed
            if number == start or number % self.each_part == 0:
                self.each(*operands, out=target, indices=indices)
            else:
                self._add(target, self.each.run(*operands, *indices), out=target)
        return Partial(start, stop, values)

    def total(self, order: str) -> Total:
        return _Total(self, order)

    @property
    def compiling(self) -> Compiling:
        """The options in force when it was compiled."""
        return self.each.compiling

    @property
    def running(self) -> tuple[Program, ...]:
        """What is run once, and what for each slice: groups are fused."""
        return (*(() if self.once is None else self.once.running), *self.each.running)

    def profile(self, *arrays: Any, seconds: list[float] | None = None) -> Any:
        """What `running` shows, for the first slice, one instruction at a time."""
        operands = [arrays[k] for k in self._each_takes]
        if self.once is not None:
            kept = self.once.profile(*(arrays[k] for k in self._once_takes), seconds=seconds)
            operands += [kept] if len(self.once.program.outputs) == 1 else kept
        first = (0,) * len(self.program.indices)
        return self.each.profile(*operands, indices=first, seconds=seconds)

    @property
    def _contribution(self) -> ArraySpec:
        return self.program.slots[self.program.outputs[0]].spec

    def _parts(self) -> Iterator[tuple[tuple[Any, ...], Iterator[tuple[int, ...]]]]:
        """For each part of the result where it stands, and the static indices of all its slices."""
        for outer in odometer([range(self._sizes[k]) for k in self._open]):
            fixed = dict(zip(self._open, outer, strict=True))
            yield self._place(fixed), self._slices(fixed)

    def _slices(self, fixed: dict[int, int]) -> Iterator[tuple[int, ...]]:
        for inner in odometer([range(self._sizes[k]) for k in self._summed]):
            values = fixed | dict(zip(self._summed, inner, strict=True))
            yield tuple(values[k] for k in range(len(self._sizes)))

    def _place(self, values: Mapping[int, int] | Sequence[int]) -> tuple[Any, ...]:
        """Where in the result the part with these static indices stands."""
        return (*(slice(None) if k is None else values[k] for k in self.assembly.at), ...)

    def indices(self, number: int) -> tuple[int, ...]:
        """The static indices of a slice: those that are summed run through all values first."""
        values = [0] * len(self._sizes)
        for k in reversed((*self._open, *self._summed)):
            number, values[k] = divmod(number, self._sizes[k])
        return tuple(values)

    def _stack(self, start: int, stop: int) -> tuple[int, ...]:
        """The shape of the values of a partial."""
        return (self._row(start, stop - 1) + 1, *self._contribution.shape)

    def _row(self, start: int, number: int) -> int:
        """The row of a slice in the values of a partial from `start` on."""
        return number // self.each_part - start // self.each_part

    def _rows(self, partial: Partial) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Where each part of a partial stands, and its values."""
        for row in range(len(partial.values)):
            number = (partial.start // self.each_part + row) * self.each_part
            yield self._place(self.indices(number)), partial.values[row, ...]


def _pieces_read(program: Program) -> dict[int, tuple[tuple[int, int], ...]]:
    """Inputs of which one piece is read in a slice: the axes that are cut, each with its static index."""
    readers: dict[int, list[Instruction]] = {}
    for ins in program.instructions:
        for slot in ins.inputs:
            readers.setdefault(slot, []).append(ins)
    found = {}
    for given in program.inputs:
        axes, slot = list(range(len(program.slots[given].shape))), given
        cuts: list[tuple[int, int]] = []
        while len(readers.get(slot, ())) == 1 and slot not in program.outputs:
            (ins,) = readers[slot]
            if ins.op != "slice_at" or not ins.indices:
                break
            cuts.append((axes.pop(ins.attrs["axis"]), ins.indices[0]))
            (slot,) = ins.outputs
        if cuts:
            found[given] = tuple(cuts)
    return found


def _new(backend: Backend, shape: Shape, dtype: Any, order: str = "C") -> Any:
    """An array of the backend with undefined contents, in row-major order or, for "F", in the reverse."""
    layout = tuple(range(len(shape)))[::-1] if order == "F" else None
    return backend.empty(ArraySpec(np.dtype(dtype), tuple(shape), layout))


def _clear(backend: Backend, x: Any, dtype: Any, factor: Any = 0) -> None:
    """x becomes `factor` times what it is; 0 for the factor 0, whatever it is."""
    nothing = np.broadcast_to(backend.full((), 0, dtype), x.shape)
    backend.assign(x, nothing, 1, factor)


class _Total:
    """The result of slices, to which partials are added in order.

    Slices are added up in the result itself, but where it has a narrower dtype than they have.
    """

    def __init__(self, sliced: SlicedExecutable, order: str) -> None:
        spec = sliced.assembly.spec
        self._sliced = sliced
        self._result = _new(sliced.backend, spec.shape, spec.dtype, order)
        if sliced.assembly.diagonal:
            _clear(sliced.backend, self._result, spec.dtype)
        self._sum: Any = None  # of the last part, so far

    def add(self, partial: Partial) -> None:
        sliced = self._sliced
        begins = partial.start % sliced.each_part == 0
        ends = partial.stop % sliced.each_part == 0
        for place, values in sliced._rows(partial):
            target = self._result[place]
            if not begins:
                sliced._add(self._sum, values, out=self._sum)
            elif not sliced._apart:
                sliced.backend.assign(target, values)
                self._sum = target
            else:
                self._sum = (
                    values if ends else values.copy()
                )  # a partial's own arrays stay as they are
            if ends and sliced._apart:
                sliced.backend.assign(target, self._sum)

    def latest(self, stop: int) -> Partial:
        first = (stop - 1) // self._sliced.each_part * self._sliced.each_part
        return Partial(first, stop, self._sum[None])

    def result(self) -> Any:
        return self._result


HEADROOM = 32
"""Powers of two by which a slice may be larger than those before it without a new exponent for all: so the
result is seldom gone through, and sums stay far from overflow in float32."""


class ScaledSlices(SlicedExecutable):
    """Runs a program whose slices are pairs (x, k), for x * 2**-k; of their sum `executable(*arrays)` is
    (mantissa, exponent of ten)."""

    def __init__(self, program: Program, assembly: Assembly, backend: Backend) -> None:
        super().__init__(program, assembly, backend)
        self.bytes = scaled_bytes(program, assembly, backend)
        self._last = Executable(to_decimal(assembly.spec), backend)

    def release(self) -> None:
        """Let go of the memory that is kept for the next call."""
        for part in (self.once, self.each):
            if part is not None:
                part.release()

    def __call__(
        self, *arrays: Any, out: Any = None, alpha: Any = 1, beta: Any = 0, order: Any = "C"
    ) -> Any:
        """(mantissa, exponent): the sum of all slices; `out`, `alpha` and `beta` are not for it."""
        if out is not None or alpha != 1 or beta != 0:
            raise ProgramError("a mantissa is neither scaled nor added to what `out` holds")
        shape, wide = self.assembly.spec.shape, compute_dtype(self.assembly.spec.dtype)
        result = _new(self.backend, shape, wide, order)
        _clear(self.backend, result, wide)
        total: int | None = None  # the k of what `result` holds; None: zeros
        operands = self.prepared(arrays)
        with Progress("slices", self.n_slices) as progress:
            for index, ids in self._parts():
                part = result[index]
                for indices in ids:
                    x, k = self.each.run(*operands, *indices)
                    total = self._accumulate(result, part, x, int(k), total)
                    progress.advance()
        del operands
        mantissa, exponent = self._last.run(result, self.backend.full((), total or 0, np.int64))
        return mantissa, exponent

    def partial(self, operands: Operands, start: int, stop: int) -> Partial:
        wide, fed = compute_dtype(self.assembly.spec.dtype), operands
        values = _new(self.backend, self._stack(start, stop), wide)
        _clear(self.backend, values, wide)
        total: int | None = None
        for number in range(start, stop):
            operands = fed(number) if callable(fed) else fed
            x, k = self.each.run(*operands, *self.indices(number))
            part = values[self._row(start, number), ...]
            total = self._accumulate(values, part, x, int(k), total)
        return Partial(start, stop, values, total)

    def total(self, order: str) -> Total:
        return _ScaledTotal(self, order)

    def _accumulate(self, result: Any, part: Any, x: Any, k: int, total: int | None) -> int | None:
        """part * 2**-total += x * 2**-k; returns the new total, the smaller of the two or little above."""
        if not x.any():
            return total
        if total is None:
            total = k
        elif k + HEADROOM < total:
            _clear(self.backend, result, result.dtype, _power_of_two(k - total))
            total = k
        if k == total:
            self._add(part, x, out=part)
        else:
            self.backend.assign(part, x, _power_of_two(total - k), 1)
        return total


def _power_of_two(exponent: int) -> float:
    """2**exponent, but never 0: what is not a number must stay so."""
    return ldexp(1.0, max(exponent, -1074))


class _ScaledTotal:
    """The same where exponents are kept apart: all parts have one."""

    def __init__(self, scaled: ScaledSlices, order: str) -> None:
        spec = scaled.assembly.spec
        self._scaled = scaled
        wide = compute_dtype(spec.dtype)
        self._result = _new(scaled.backend, spec.shape, wide, order)
        _clear(scaled.backend, self._result, wide)
        self._k: int | None = None

    def add(self, partial: Partial) -> None:
        for place, values in self._scaled._rows(partial):
            part = self._result[place]
            if partial.exponent is not None:
                k = int(partial.exponent)
                self._k = self._scaled._accumulate(self._result, part, values, k, self._k)

    def latest(self, stop: int) -> Partial:
        scaled = self._scaled
        first = (stop - 1) // scaled.each_part * scaled.each_part
        part = self._result[scaled._place(scaled.indices(first))]
        return Partial(first, stop, part[None], self._k)

    def result(self) -> Any:
        exponent = self._scaled.backend.full((), self._k or 0, np.int64)
        return self._scaled._last.run(self._result, exponent)
