"""A Routine: code that is bound to the buffers of a context, ready to run as often as wanted.

It runs an `Executable` on the buffers themselves: one result goes straight to its place, also where it is
added to what lies there; several results are copied to theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.errors import MergeError
from ..backend.devices import MERGE, Device
from .bindings import Bindings, odometer
from .executable import Executable
from .ledger import Mark
from .nodes import Merged, Node
from .ordering import Buffer, Work

if TYPE_CHECKING:
    from .code import Code
    from .context import Context

Choices = Mapping[str, int | Sequence[int]]


class Filling(NamedTuple):
    """What a transfer puts into a merge buffer: a static fact that contexts hand on."""

    node: Node
    by: Mark


class Routine:
    """Linked code. `context` is the one that results: it has all that the code writes.

    Attributes:
        name: of the code.
        context: a child of the context that it was linked to.
        inputs: nodes that it reads, or reads before it writes them; constants left out.
        outputs: nodes that it writes; one that is both is in both.
        merge_input: the node that it expects in the merge buffer, or None.
        bindings: values of its static indices, to be set before a run.
    """

    def __init__(
        self,
        context: Context,
        work: Work,
        *,
        inputs: tuple[Node, ...] = (),
        outputs: tuple[Node, ...] = (),
        merge_input: Node | None = None,
        bindings: Bindings | None = None,
        executable: Executable | None = None,
    ) -> None:
        self.context, self._work, self.name = context, work, work.name
        self.inputs, self.outputs, self.merge_input = inputs, outputs, merge_input
        self.bindings = Bindings(()) if bindings is None else bindings
        self.executable = executable

    def run(self, indices: Choices | None = None) -> None:
        """Run, and return when it is done.

        Args:
            indices: values of static indices for this run, in place of `bindings`. For a sequence of values
                it runs once with each, for several with all combinations, the last index the fastest.

        Raises:
            OrderError: what must run before has not, or an input has no contents; it is named.
            MergeError: the merge buffer holds something else.
            ClosedError: the context is closed.
            OptionError: there is no such index, or a value is out of its range.
        """
        self._device.runner.run(self._work.prepared(self.bindings.choices(indices)))

    def loop(self, ranges: Choices | None = None) -> None:
        """Run once for each combination of all values of the static indices, or of those given."""
        choices = self.bindings.choices(ranges, every=True)
        self._device.runner.run(self._work.prepared(choices))

    def submit(self, indices: Choices | None = None) -> Future[None]:
        """The same as `run`, by the device's thread: an event. It can be cancelled until it begins.

        Work of one device is done in the order in which it is submitted; while `most_pending` pieces wait,
        this call waits.
        """
        choices = self.bindings.choices(indices)
        return self._device.runner.submit(self._work.prepared(choices))

    @property
    def can_run(self) -> bool:
        """Whether all has run, or is submitted, that must run before."""
        return not self._work.missing

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Names of the routines that must run before, in the line of contexts up from this one. These are who
        writes what it reads, and who writes or reads what it writes."""
        return tuple(one.mark.name for one in self._work.depends_on)

    @property
    def has_run(self) -> bool:
        return self._work.mark.completed > 0

    @property
    def _device(self) -> Device:
        return self.context.device

    def __str__(self) -> str:
        """As text that can be compared line by line: nodes and their places, then intermediates."""
        lines = [f"routine {self.name} on {self._device.name}"]
        places = self.context.locations
        for what, nodes in (("reads", self.inputs), ("writes", self.outputs)):
            lines += [f"  {what} {x.name}: {x.spec}  {places[x]}" for x in nodes]
        if self.merge_input is not None:
            lines.append(f"  merges {self.merge_input.name}: {self.merge_input.spec}  {MERGE}")
        if self.executable is not None:
            program = self.executable.program
            lines += [f"  index {index}" for index in program.indices]
            plan = self.executable.schedule.memory.text(self.executable.schedule.program)
            lines += [
                f"  {line}" for line in f"intermediates, in pools of their own; {plan}".splitlines()
            ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<routine {self.name} on {self._device.name}>"


def runs(
    executable: Executable,
    code: Code,
    device: Device,
    buffers: Mapping[Node, Buffer],
) -> Callable[[Any], None]:
    """What a run does: for each combination of static indices, the program on the buffers."""
    reads = tuple(
        (None if isinstance(x, Merged) else buffers[x.root], x.node if isinstance(x, Merged) else x)
        for x in code.reads
    )
    writes = tuple((buffers[node.root], node) for node in code.writes)
    straight = _goes_straight(executable, code)
    shown = _shown(executable, code)

    def act(choices: Any) -> None:
        arrays = [
            device.pools.array_at(MERGE, node.spec) if buffer is None else buffer.array(node)
            for buffer, node in reads
        ]
        targets = [buffer.array(node) for buffer, node in writes]
        for indices in odometer(choices):
            if straight:
                executable(*arrays, out=targets[0], indices=indices)
                continue
            made = executable.run(*arrays, *indices)
            results = (made,) if len(targets) == 1 else made
            if shown:  # a result may show an input that is written before it is copied
                results = [x.copy() for x in results]
            for target, result in zip(targets, results, strict=True):
                executable.backend.assign(target, result)

    return act


def check_merge(device: Device, name: str, expected: Filling) -> None:
    """The merge buffer holds what was expected when the code was linked."""
    held = device.merge_tenant
    if held != expected:
        what = "nothing" if held is None else f"{held.node!r} by {held.by.name!r}"
        raise MergeError(
            f"{name}: the merge buffer of {device.name} holds {what}, the code expects {expected.node!r} by "
            f"{expected.by.name!r}; run that transfer again before it"
        )


def _written_inputs(executable: Executable, code: Code) -> list[int]:
    """Positions of the arguments whose memory is also written."""
    roots = {node.root for node in code.writes}
    return [k for k, x in enumerate(code.reads) if isinstance(x, Node) and x.root in roots]


def _goes_straight(executable: Executable, code: Code) -> bool:
    """Whether the only result may be computed where it is to lie."""
    if len(code.writes) != 1:
        return False
    return all(
        code.reads[k] is code.writes[0] and executable.may_write_over(k)
        for k in _written_inputs(executable, code)
    )


def _shown(executable: Executable, code: Code) -> bool:
    """Whether a result may be a view of an input that is written too."""
    return any(
        executable.shows(k, out)
        for k in _written_inputs(executable, code)
        for out in executable.program.outputs
    )
