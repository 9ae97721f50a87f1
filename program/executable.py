"""A program bound to a backend: straight-line Python over bound kernels, or a loop over a table.

Every instruction becomes one call of a kernel that `Backend.bind` made for its shapes, and so does a group
of instructions that the backend fuses; parts that run side by side are programs of their own. Short programs
become one generated function, which `source` shows; long ones (Python compiles slowly what is long)
run as a loop over the same kernels. Arrays are dropped after their last use.

Small intermediates lie in an arena: the arrays at the places of the memory plan, and the views of them,
are made once and used by every call. A call takes an arena from those that are idle, or makes one, and
gives it back, when a kernel fails too; so both forms are safe from several threads. Results never lie
in an arena.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._base.errors import Unsupported
from .._base.options import num_threads, options
from ..backend.protocol import Backend, Kernel
from ..backend.spec import ArraySpec, Axes
from .bindings import check_values
from .branches import Branches
from .compiling import Compiling
from .donation import Donation, check_donated, memory_of, plan_donation
from .extension import bind_extension
from .fused import Fused
from .ir import Instruction, Program
from .schedule import Schedule, schedule
from .verify import verify

if TYPE_CHECKING:
    from concurrent.futures import Future

TABLE_FROM = 2000  # instructions; below, the generated function is faster to build and to run
IDLE = 4  # arenas that are kept; more are made when more threads call, and dropped


class Step(NamedTuple):
    """One bound instruction of the scheduled program: a group may be one."""

    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dies: tuple[int, ...]
    indices: tuple[int, ...]  # static indices that the kernel takes behind its operands


class Executable:
    """Runs `program` on arrays of its input specs: `executable(*arrays, out=None, indices=(), donate=())`.

    With one output, `out` is filled and returned; it must not overlap an input. Inputs are trusted
    to have the dtypes and shapes of the input slots; the fronts check them. `indices` are the values of
    the static indices, each in its range. Without `fuse` instructions run one by one, and give the
    same bits as `interpret`. `limit` and `fork` are those of `schedule`, unless the program is `scheduled`.
    """

    def __init__(
        self,
        program: Program,
        backend: Backend,
        *,
        fuse: bool = True,
        limit: int | None = None,
        fork: bool = True,
        scheduled: Schedule | None = None,
    ) -> None:
        # a part of a program that was verified and scheduled whole is so too
        self.program, self.backend = program if scheduled else verify(program), backend
        self.compiling = Compiling.now()
        self.schedule: Schedule = scheduled or schedule(
            program, backend, fused=fuse, limit=limit, fork=fork
        )
        self.parts = self._bound_parts()  # what runs side by side
        self.steps = tuple(self._bind())
        self._tail = _tail(self.schedule.program)
        self._arenas: list[tuple[Any, ...]] = []  # idle ones
        self._donations: dict[tuple[tuple[int, ...], bool], Donation] = {}
        if len(self.steps) < TABLE_FROM:
            self._kept = self._in_arena()
            text = self._generate()
            self.run = self._compiled(text)
        else:
            text = f"# a loop over a table of {len(self.steps)} bound instructions\n"
            self.run = self._loop
        inside = [f"# part {k} of the first\n{one.source}" for k, one in enumerate(self.parts)]
        self.source: str = "".join([text, *inside])

    @property
    def is_view(self) -> bool:
        """Whether the results are views of the inputs."""
        return all(ins.is_view for ins in self.program.instructions)

    @property
    def peak_bytes(self) -> int:
        return self.schedule.peak_bytes

    def __call__(
        self,
        *arrays: Any,
        out: Any = None,
        indices: tuple[int, ...] = (),
        donate: Sequence[int] = (),
    ) -> Any:
        if indices or self.program.indices:
            check_values(self.program.indices, indices)
        run = self.run if not donate else self._onto(donate, arrays, out)
        if out is None:
            return run(*arrays, *indices)
        if not self._fills(out):
            return self.backend.assign(out, run(*arrays, *indices))
        # the kernel takes `out` with its axes as its own result has them
        run(*arrays, *indices, out=out.transpose(self._tail[1]))  # type: ignore[index]
        return out

    def _fills(self, out: Any) -> bool:
        """Whether the last kernel writes to `out` itself."""
        last = self.program.slots[self.program.outputs[0]]
        return self._tail is not None and bool(out.dtype == last.dtype)

    def donation(self, positions: tuple[int, ...], fills: bool = False) -> Donation:
        """What lies where when the inputs at these positions are given away; `fills` if the last kernel
        writes to `out`."""
        key = (positions, fills)
        if key not in self._donations:
            if len(self._donations) >= IDLE:
                self._donations.clear()
            keep = self._tail[0] if fills and self._tail is not None else -1
            slots = [self.program.inputs[k] for k in positions]
            self._donations[key] = plan_donation(self.schedule.program, slots, keep)
        return self._donations[key]

    def _onto(self, donate: Sequence[int], arrays: Sequence[Any], out: Any) -> Callable[..., Any]:
        """`run` for these arrays, some of which are given away."""
        if self.backend.name != "cpu":
            raise Unsupported(f"donate: not on {self.backend.device} yet; leave it out")
        positions = check_donated("program", donate, len(self.program.inputs))
        found = self.donation(positions, out is not None and self._fills(out))
        memory = {self.program.inputs[k]: memory_of("program", k, arrays, out) for k in positions}
        return partial(self._loop, onto=(found, memory))

    def interpret(
        self, *arrays: Any, indices: tuple[int, ...] = (), seconds: list[float] | None = None
    ) -> Any:
        """Run one instruction at a time, none fused, as an oracle for the generated code or to measure
        each."""
        check_values(self.program.indices, indices)
        return self._unfused._loop(*arrays, *indices, seconds=seconds)

    def submit(
        self, *arrays: Any, out: Any = None, indices: tuple[int, ...] = (), device: Any = "cpu"
    ) -> Future[Any]:
        """The same call by the thread of a device, after what was submitted to it before. The future has the
        result or the exception, and can be cancelled until the call begins; the arrays must stay as they are
        until it is done. While too many calls wait, this one waits."""
        from .dispatch import submit  # it makes executables

        return submit(self, arrays, device, out=out, indices=indices)

    def may_write_over(self, position: int) -> bool:
        """Whether `out` may be the array that is given for this input: the last kernel alone writes, reads
        the input element by element where it writes, and through nothing else."""
        slot = self.program.inputs[position]
        program = self.schedule.program
        if self._tail is None or program.slots[slot].spec != program.slots[program.outputs[0]].spec:
            return False
        last, axes = self._tail
        ins = program.instructions[last]
        shown = self._showing(slot)
        return axes == tuple(range(len(axes))) and all(
            x == slot and ins.writes_over(k) for k, x in enumerate(ins.inputs) if x in shown
        )

    def shows(self, position: int, output: int) -> bool:
        """Whether this output slot may be a view of the input."""
        return output in self._showing(self.program.inputs[position])

    def _showing(self, slot: int) -> set[int]:
        """Slots that may look at a slot's memory; for all we know, what an extension makes does."""
        found = {slot}
        for ins in self.schedule.program.instructions:
            opaque = ins.family is not None or isinstance(ins, Branches)
            if (ins.may_view or opaque) and not found.isdisjoint(ins.inputs):
                found.update(ins.outputs)
        return found

    @property
    def running(self) -> tuple[Program, ...]:
        """The program as it is run, groups fused; but what runs side by side one after another."""
        return (self._in_line.schedule.program,)

    def profile(
        self, *arrays: Any, indices: tuple[int, ...] = (), seconds: list[float] | None = None
    ) -> Any:
        """Run what `running` shows, one instruction at a time, to measure each."""
        check_values(self.program.indices, indices)
        return self._in_line._loop(*arrays, *indices, seconds=seconds)

    @cached_property
    def _in_line(self) -> Executable:
        return Executable(self.program, self.backend, fork=False) if self.parts else self

    @cached_property
    def _unfused(self) -> Executable:
        is_unfused = self.schedule.program is self.program
        return self if is_unfused else Executable(self.program, self.backend, fuse=False)

    def _bind(self) -> list[Step]:
        steps = []
        first = (0,) * len(self.program.indices)
        running = self.schedule.program.instructions
        own_threads = any(map(self._uses_threads, running))
        for ins, dies in zip(running, self.schedule.dies_after, strict=True):
            inputs, outputs = self.program.placed(ins.inputs), self.program.placed(ins.outputs)
            if isinstance(ins, Fused):
                kernel = ins.kernel
            elif isinstance(ins, Branches):
                kernel = _side_by_side(ins, self.parts, self.backend)
            elif ins.family is not None:
                kernel = bind_extension(ins.family, self.backend.name, ins.attrs, outputs, inputs)
            else:
                kernel = self.backend.bind(ins.op, ins.at(first), inputs, outputs, own_threads)
            steps.append(Step(kernel, ins.inputs, ins.outputs, dies, ins.indices))
        return steps

    def _bound_parts(self) -> tuple[Executable, ...]:
        for ins in self.schedule.program.instructions:  # there is one at most
            if isinstance(ins, Branches):
                with options(threads=1):
                    return tuple(
                        Executable(part, self.backend.alone(), scheduled=scheduled)
                        for part, scheduled in zip(ins.parts, self.schedule.inside, strict=True)
                    )
        return ()

    def _uses_threads(self, ins: Instruction) -> bool:
        """Whether threads of the backend's own work for an instruction."""
        if isinstance(ins, (Fused, Branches)):
            return num_threads() > 1
        if ins.family is not None or ins.is_view:
            return False
        attrs = ins.at((0,) * len(self.program.indices))
        inputs, outputs = self.program.placed(ins.inputs), self.program.placed(ins.outputs)
        return self.backend.uses_threads(ins.op, attrs, inputs, outputs)

    def _loop(
        self,
        *arrays: Any,
        out: Any = None,
        seconds: list[float] | None = None,
        onto: tuple[Donation, dict[int, Any]] | None = None,
    ) -> Any:
        count = len(self.program.inputs)
        values: dict[int, Any] = dict(zip(self.program.inputs, arrays[:count], strict=True))
        numbers = arrays[count:]
        last = -1 if self._tail is None else self._tail[0]
        for index, (kernel, inputs, outputs, dies, indices) in enumerate(self.steps):
            start = time.perf_counter() if seconds is not None else 0.0
            operands = [values[slot] for slot in inputs]
            operands += [numbers[k] for k in indices]
            target = out if index == last else None
            if onto is not None and target is None:
                target = self._given_place(index, values, *onto)
            result = kernel(*operands) if target is None else kernel(*operands, out=target)
            del operands, target
            if seconds is not None:
                seconds.append(time.perf_counter() - start)
            if len(outputs) == 1:
                values[outputs[0]] = result
            else:
                values.update(zip(outputs, result, strict=True))
            del result
            for slot in dies:
                del values[slot]
        results = tuple(values[slot] for slot in self.program.outputs)
        return results[0] if len(results) == 1 else results

    def _given_place(
        self, index: int, values: dict[int, Any], donation: Donation, memory: dict[int, Any]
    ) -> Any:
        """Where an instruction writes its result in memory that was given away, or None."""
        if index in donation.over:
            return values[donation.over[index]]
        if index not in donation.onto:
            return None
        program = self.schedule.program
        (slot,) = program.instructions[index].outputs
        return self.backend.array_at(memory[donation.onto[index]], 0, program.slots[slot].placed)

    def release(self) -> None:
        """Let go of the memory that is kept for the next call; calls in progress keep theirs."""
        self._arenas.clear()

    def _in_arena(self) -> tuple[int, ...]:
        """Slots whose arrays an arena has: those with a place, and what are always views of them."""
        if not self.schedule.has_arena:
            return ()
        inside = set(self.schedule.memory.locations)
        for ins in self.schedule.program.instructions:
            # one operand: where there are more, the others' numbers say what the view shows
            is_fixed = len(ins.inputs) == 1 and not ins.indices
            if ins.is_view and is_fixed and inside.issuperset(ins.inputs):
                inside.update(ins.outputs)
        return tuple(sorted(inside))

    def _arena(self) -> tuple[Any, ...]:
        """A new arena: the arrays of the slots that lie in it, in order."""
        memory, backend, program = self.schedule.memory, self.backend, self.schedule.program
        size = ArraySpec(np.dtype(np.uint8), (memory.nbytes,))
        buffer = backend.empty(size)
        values = {
            slot: backend.array_at(buffer, place.offset, program.slots[slot].placed)
            for slot, place in memory.locations.items()
        }
        inside = set(self._kept)
        for ins, step in zip(program.instructions, self.steps, strict=True):
            if inside.issuperset(ins.outputs) and ins.outputs[0] not in values:
                made = step.kernel(*(values[slot] for slot in ins.inputs))
                values.update(
                    zip(ins.outputs, made if len(ins.outputs) > 1 else (made,), strict=True)
                )
        return tuple(values[slot] for slot in self._kept)

    def _compiled(self, source: str) -> Callable[..., Any]:
        names: dict[str, Any] = {f"k{index}": step.kernel for index, step in enumerate(self.steps)}
        names |= {"idle": self._arenas, "new_arena": self._arena}
        exec(compile(source, "<einloom program>", "exec"), names)
        run: Callable[..., Any] = names["run"]
        return run

    def _generate(self) -> str:
        """The text of the function. An arena is given back whatever happens; `idle` is a list, whose
        pop and append are atomic."""
        program, places = self.schedule.program, self.schedule.memory.locations
        inside = set(self._kept)
        body = []
        names = [f"x{slot}" for slot in program.inputs]
        names += [f"i{number}" for number in range(len(program.indices))]
        parameters = ", ".join([*names, "out=None"])
        for index, (ins, step) in enumerate(zip(program.instructions, self.steps, strict=True)):
            is_placed = inside.issuperset(ins.outputs)
            if is_placed and ins.outputs[0] not in places:
                continue  # a view that the arena has
            targets = ", ".join(f"x{slot}" for slot in ins.outputs)
            operands = ", ".join(
                [*(f"x{slot}" for slot in ins.inputs), *(f"i{k}" for k in ins.indices)]
            )
            if is_placed:
                operands = f"{operands}, out={targets}" if operands else f"out={targets}"
            elif self._tail is not None and index == self._tail[0]:
                operands = f"{operands}, out=out" if operands else "out=out"
            shapes = ", ".join(str(program.slots[slot]) for slot in ins.outputs)
            call = f"k{index}({operands})"
            call = call if is_placed else f"{targets} = {call}"
            body.append(f"    {call}  # {ins.op} -> {shapes}")
            dies = [f"x{slot}" for slot in step.dies if slot not in inside]
            if dies:
                body.append(f"    del {', '.join(dies)}")
        body.append(f"    return {', '.join(f'x{slot}' for slot in program.outputs)}")
        lines = [f"def run({parameters}):"]
        if inside:
            arrays = ", ".join(f"x{slot}" for slot in self._kept)
            arrays = arrays if len(self._kept) > 1 else f"({arrays},)"
            lines += [
                "    try:",
                "        arena = idle.pop()",
                "    except IndexError:",
                "        arena = new_arena()",
                f"    {arrays} = arena",
                "    try:",
                *(f"    {line}" for line in body),
                "    finally:",
                f"        if len(idle) < {IDLE}:",
                "            idle.append(arena)",
            ]
        else:
            lines += body
        return "\n".join(lines) + "\n"


def _side_by_side(branches: Branches, parts: Sequence[Executable], backend: Backend) -> Kernel:
    """The parts, each on one thread, whose results follow each other."""
    count = len(branches.inputs)
    place = {slot: k for k, slot in enumerate(branches.inputs)}
    taken = [tuple(place[slot] for slot in part.inputs) for part in branches.parts]
    runs = [part.run for part in parts]

    def kernel(*operands: Any) -> tuple[Any, ...]:
        numbers = operands[count:]
        results: list[Any] = [None] * len(runs)

        def call(k: int) -> None:
            results[k] = runs[k](*(operands[at] for at in taken[k]), *numbers)

        backend.together(call, len(runs))
        made: list[Any] = []
        for part, result in zip(branches.parts, results, strict=True):
            made += (result,) if len(part.outputs) == 1 else result
        return tuple(made)

    return kernel


def unshared(results: Sequence[Any]) -> tuple[Any, ...]:
    """Results of a call on the CPU, no two of which share memory, for who may write into them: what is
    computed once may be returned twice, or beside a view of it."""
    found: list[Any] = []
    within: dict[int, list[Any]] = {}  # by the array that owns the memory
    for x in results:
        owner = x
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        beside = within.setdefault(id(owner), [])
        found.append(x.copy() if any(np.may_share_memory(x, other) for other in beside) else x)
        beside.append(found[-1])
    return tuple(found)


def _tail(program: Program) -> tuple[int, Axes] | None:
    """The kernel that makes the only output, which it can be given as `out`, and that output's axes in the
    order of its result: what comes after it are transposes of it."""
    if len(program.outputs) != 1:
        return None
    (slot,) = program.outputs
    axes: Axes = tuple(range(len(program.slots[slot].shape)))
    for index in reversed(range(len(program.instructions))):
        ins = program.instructions[index]
        if ins.outputs != (slot,):
            return None
        if ins.op == "transpose":
            # axis k of the transposed is axis perm[k] of what it shows
            at = {axis: k for k, axis in enumerate(ins.attrs["perm"])}
            axes = tuple(axes[at[axis]] for axis in range(len(axes)))
            (slot,) = ins.inputs
            continue
        is_kernel = not ins.may_view and ins.family is None and ins.op != "constant"
        return (index, axes) if is_kernel else None
    return None
