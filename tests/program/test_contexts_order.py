"""Who must run before whom: hazards, events between devices, transfers and the merge buffer."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from tests.program.mock_device import MockMemory, cpu_devices, mock_device

import einloom
from einloom import Code, Context, MergeError, Node, NodeError, OrderError, device_to_device
from einloom.backend.devices import MERGE
from einloom.program.ledger import Mark
from einloom.program.ordering import Buffer, Write

A, B, C, D = (Node(name, (2,)) for name in "abcd")


def double(x: Any) -> Any:
    return x + x


def code(source: Any, reads: Any, writes: Any, name: str, **options: Any) -> Code:
    return Code(source, reads, writes, name=name, **options)


# ---- hazards: the scenarios of OCANNL's test_execution_deps --------------------------------------


def test_read_after_write() -> None:
    """The reader depends on the writer, and on nothing else; in that order they run."""
    with Context("cpu:1") as root:
        first = root.put({A: np.ones(2)}).link(code(double, [A], [B], "first"))
        second = first.context.link(code(double, [B], [C], "second"))
        assert (first.depends_on, second.depends_on) == ((), ("first",))
        first.run()
        second.run()
        assert second.context.get(C).tolist() == [4, 4]


def test_siblings_are_independent() -> None:
    """Code linked to one context knows nothing of each other, and runs in any order."""
    with Context("cpu:1") as root:
        held = root.put({A: np.ones(2), B: np.ones(2)})
        one = held.link(code(double, [A], [C], "one"))
        two = held.link(code(double, [B], [C], "two"))
        assert one.depends_on == two.depends_on == ()
        assert one.context.locations[C] != two.context.locations[C]
        assert one.can_run
        assert two.can_run
        two.run()
        one.run()
        assert one.context.get(C).tolist() == [2, 2] == two.context.get(C).tolist()


def test_can_run_tells_what_has_run() -> None:
    with Context("cpu:1") as root:
        first = root.put({A: np.ones(2)}).link(code(double, [A], [B], "first"))
        second = first.context.link(code(double, [B], [C], "second"))
        assert (first.can_run, second.can_run, first.has_run) == (True, False, False)
        first.run()
        assert (second.can_run, first.has_run, second.has_run) == (True, True, False)


def test_the_wrong_order_is_refused() -> None:
    """With the names of those that have not run; nothing is done."""
    with Context("cpu:1") as root:
        held = root.put({A: np.ones(2)}).zeros(C)
        first = held.link(code(double, [A], [B], "first"))
        second = first.context.link(code(double, [B], [C], "second"))
        for call in (second.run, second.submit):
            with pytest.raises(
                OrderError,
                match=r"second: not executed yet: 'first', which writes b; run that first",
            ):
                call()
        assert held.get(C).tolist() == [0, 0]


def test_running_again() -> None:
    """first, second, first: once all has run, any may run again."""
    with Context("cpu:1") as root:
        first = root.put({A: np.ones(2)}).link(code(double, [A], [B], "first"))
        second = first.context.link(code(double, [B], [A], "second"))
        for _ in range(2):
            first.run()
            second.run()
        first.run()
        assert first.context.get(B).tolist() == [32, 32]


def test_write_after_read_and_after_write() -> None:
    """Who writes comes after all who read, and after who wrote before; readers need not wait for
    each other."""
    with Context("cpu:1") as root:
        held = root.put({A: np.ones(2)})
        reader = held.link(code(double, [A], [B], "reader"))
        other = reader.context.link(code(double, [A], [C], "other"))
        writer = other.context.link(code(double, [B], [A], "writer"))
        again = writer.context.link(code(double, [C], [A], "again"))
        assert other.depends_on == ()
        assert set(writer.depends_on) == {"reader", "other"}
        assert set(again.depends_on) == {"other", "writer"}
        reader.run()
        with pytest.raises(OrderError, match="writer: not executed yet: 'other', which reads a"):
            writer.run()
        other.run()
        with pytest.raises(OrderError, match="again: not executed yet: 'writer', which writes a"):
            again.run()
        writer.run()
        again.run()
        assert again.context.get(A).tolist() == [4, 4]


def test_nothing_is_read_before_it_is_written() -> None:
    """A place without contents is no input: forgotten is told from zero."""
    with Context("cpu:1") as root:
        held = root.put({A: np.ones(2)})
        made = held.link(code(double, [A], [B], "made"))
        with pytest.raises(OrderError, match="get b: not executed yet: 'made', which writes b"):
            made.context.get(B)
        add = made.context.link(code(lambda x: x, [A], [B], "add", accumulate=True))
        with pytest.raises(OrderError, match="'made'"):
            add.run()
        fresh = held.link(code(double, [A], [C], "fresh"))
        with pytest.raises(OrderError, match="not executed yet: 'fresh', which writes c"):
            device_to_device(D, root, fresh.context, source=C).run()  # type: ignore[union-attr]
        part = fresh.context.link(code(double, [A.rows(0, 1)], [C.rows(0, 1)], "part"))
        with pytest.raises(OrderError, match="'fresh', which writes c"):
            part.run()  # the rest of c would have no contents


# ---- transfers -----------------------------------------------------------------------------------


def test_into_a_node() -> None:
    """Nothing is moved until it runs; the target gets a place, or what it has is written."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        source = here.put({A: np.array([1.0, 2.0])})
        move = device_to_device(A, there, source)
        assert move is not None
        assert (move.inputs, move.outputs, move.merge_input) == ((), (A,), None)
        assert (move.context.parent, move.context.merge_node, A in there) == (there, None, False)
        with pytest.raises(OrderError, match="get a: not executed yet: 'a from cpu:1 to cpu:2'"):
            move.context.get(A)
        move.run()
        assert move.context.get(A).tolist() == [1, 2]
        source.set(A, np.array([5.0, 6.0]))
        assert move.context.get(A).tolist() == [1, 2]
        move.submit().result()
        assert move.context.get(A).tolist() == [5, 6]
        again = device_to_device(B, move.context.zeros(B), source, source=A)
        assert again is not None
        again.run()
        assert again.context.get(B).tolist() == [5, 6]
        row = device_to_device(B.rows(1, 2), again.context, source, source=A.rows(0, 1))
        assert row is not None
        row.run()
        assert row.context.get(B).tolist() == [5, 5]


def test_nothing_to_move() -> None:
    """The same memory: None. Elsewhere on the device: a copy."""
    with Context("cpu:1") as root:
        held = root.put({A: np.ones(2)})
        assert device_to_device(A, held.zeros(B), held) is None
        copy = device_to_device(A, root, held)
        assert copy is not None
        copy.run()
        assert copy.context.locations[A] != held.locations[A]
        assert copy.context.get(A).tolist() == [1, 1]


def test_all_reduce() -> None:
    """OCANNL's shard_transfer: [1 2] + [3 4] = [4 6], through one staging buffer."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        mine, theirs = here.put({A: np.array([1.0, 2.0])}), there.put({A: np.array([3.0, 4.0])})
        bring = device_to_device(A, mine, theirs, into="merge")
        assert bring is not None
        assert (bring.outputs, bring.context.merge_node) == ((), A)
        assert 0 not in one.pools.sizes
        add = bring.context.link(code(lambda x: x, [A.merged], [A], "add", accumulate=True))
        assert (add.merge_input, add.inputs, add.outputs) == (A, (A,), (A,))
        assert add.context.merge_node is A
        assert len(add.depends_on) == 1
        bring.run()
        add.run()
        assert add.context.get(A).tolist() == [4, 6]
        assert theirs.get(A).tolist() == [3, 4]
        assert one.pools.sizes[0] == 16


def test_merge_mismatch_at_link_time() -> None:
    """OCANNL's merge_buffer_static_verification: before anything runs; matched, [9 9] becomes [3 4]."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        mine = here.put({B: np.full(2, 9.0)})
        theirs = there.put({A: np.array([3.0, 4.0]), B: np.zeros(2)})
        use = code(lambda x: x * 1, [A.merged], [B], "use")
        with pytest.raises(MergeError, match=r"provides nothing in the merge buffer.*expects <a"):
            mine.link(use)
        wrong = device_to_device(B, mine, theirs, into="merge")
        assert wrong is not None
        with pytest.raises(MergeError, match=r"provides <b.*expects <a"):
            wrong.context.link(use)
        right = device_to_device(A, mine, theirs, into="merge")
        assert right is not None
        routine = right.context.link(use)
        assert mine.get(B).tolist() == [9, 9]
        right.run()
        routine.run()
        assert routine.context.get(B).tolist() == [3, 4]


def test_listings_tell_where_operands_come_from() -> None:
    """A place in a pool, or the merge buffer."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        held = here.put({A: np.ones(2)})
        theirs = there.put({A: np.zeros(2), B: np.ones(2)})
        bring = device_to_device(A, held, theirs, into="merge")
        assert bring is not None
        use = bring.context.link(code(lambda x, y: x + y, [A, A.merged], [C], "use"))
        assert use.merge_input == A
        lines = str(use).splitlines()
        assert lines[:2] == ["routine use on cpu:1", "  reads a: float64[2]  pool 1 + 0"]
        assert "  merges a: float64[2]  pool 0" in "\n".join(lines)
        moved = device_to_device(B, held, theirs)
        assert moved is not None
        assert "merge" not in str(moved)


def test_all_work_is_an_event() -> None:
    """Done once all is done that was scheduled before, and not what comes after."""
    with cpu_devices("cpu:1") as (one,), Context(one) as root:
        begin = held_up(one)
        routine = root.put({A: np.ones(2)}).link(code(double, [A], [B], "double"))
        routine.submit()
        event = one.all_work()
        assert not event.done()
        begin.set()
        event.result(60)
        assert routine.has_run
        assert routine.context.get(B).tolist() == [2, 2]


def test_merge_mismatch_at_run_time() -> None:
    """Another transfer of another line of contexts came between: a backstop."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        mine = here.put({C: np.zeros(2)})
        theirs = there.put({A: np.ones(2), B: np.full(2, 2.0)})
        bring_a = device_to_device(A, mine, theirs, into="merge")
        bring_b = device_to_device(B, mine, theirs, into="merge")
        assert bring_a is not None
        assert bring_b is not None
        use = bring_a.context.link(code(lambda x: x, [A.merged], [C], "use", accumulate=True))
        with pytest.raises(OrderError, match="which writes the merge buffer"):
            use.run()
        bring_a.run()
        bring_b.run()
        with pytest.raises(
            MergeError, match=r"use: the merge buffer of cpu:1 holds <b.*expects <a"
        ):
            use.run()
        with pytest.raises(
            OrderError, match=r"c: float64.* was to be written by 'use', which failed"
        ):
            mine.get(C)
        bring_a.run()
        use.run()
        assert mine.get(C).tolist() == [1, 1]


def test_a_second_tenant_waits_for_the_first() -> None:
    """In one line of contexts: what is in the merge buffer is used before other things come there."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        mine = here.zeros(C)
        theirs = there.put({A: np.ones(2), B: np.full(2, 2.0)})
        first = device_to_device(A, mine, theirs, into="merge")
        assert first is not None
        use = first.context.link(code(lambda x: x, [A.merged], [C], "use", accumulate=True))
        second = device_to_device(B, use.context, theirs, into="merge")
        assert second is not None
        last = second.context.link(code(lambda x: x, [B.merged], [C], "last", accumulate=True))
        first.run()
        with pytest.raises(OrderError, match="'use', which reads the merge buffer"):
            second.run()
        for routine in (use, second, last):
            routine.run()
        assert mine.get(C).tolist() == [3, 3]


def test_merge_growth_and_finalisation() -> None:
    """On a device of integers: growing frees the old slab alone, copies go where they should."""
    small, large = Node("small", (2,)), Node("large", (5,))
    memory = MockMemory()
    with mock_device(memory=memory) as (here, _), mock_device(memory=memory) as (there, _):
        with Context(here) as mine, Context(there) as theirs:
            held = theirs.put({small: np.ones(2), large: np.full(5, 2.0)})
            context = mine.zeros(small, large)
            marks = []
            for node in (small, large, small):
                bring = device_to_device(node, context, held, into="merge")
                assert bring is not None
                marks.append(len(memory.log))
                bring.run()
                add = bring.context.link(
                    code(lambda x: x, [node.merged], [node], "add", accumulate=True)
                )
                add.run()
                context = add.context
            asked = [[line.split()[0] for line in memory.log[at:]] for at in marks]
            assert asked[2] == ["copy"]
            assert asked[0][:2] == ["alloc", "copy"]
            assert asked[1][:3] == ["free", "alloc", "copy"]
            assert here.pools.sizes[0] == 40
            assert context.get(small).tolist() == [2, 2]
            assert context.get(large).tolist() == [2] * 5
        assert set(here.pools.sizes) == {0}
        assert not there.pools.sizes
    assert memory.live == {}


# ---- events --------------------------------------------------------------------------------------


def held_up(device: Any) -> threading.Event:
    """An event until which the device does nothing."""
    begin = threading.Event()
    device.runner.submit(lambda future: lambda: begin.wait(60))
    return begin


def test_writers_on_other_devices_are_waited_for() -> None:
    """A transfer that is submitted waits for the source's writer; the next writer there waits for it."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        make = there.put({A: np.ones(2)}).link(code(double, [A], [B], "make"))
        change = make.context.link(code(lambda x: x * 10, [A], [B], "change"))
        move = device_to_device(B, here, make.context)
        assert move is not None
        begin, slow = held_up(two), held_up(one)
        first = make.submit()
        moved = move.submit()
        changed = change.submit()  # runs when the transfer has read
        begin.set()
        first.result(60)
        assert not moved.done()
        assert not changed.done()
        slow.set()
        moved.result(60)
        changed.result(60)
        assert move.context.get(B).tolist() == [2, 2]
        assert change.context.get(B).tolist() == [10, 10]


def test_what_was_cancelled_is_not_read() -> None:
    """Work behind it is refused, naming it; contents are those from before."""
    with cpu_devices("cpu:1") as (one,), Context(one) as root:
        first = root.put({A: np.ones(2)}).link(code(double, [A], [B], "first"))
        second = first.context.link(code(double, [B], [C], "second"))
        first.run()
        begin = held_up(one)
        again, after = first.submit(), second.submit()
        assert again.cancel()
        begin.set()
        with pytest.raises(OrderError, match=r"second: <b.*by 'first', which was cancelled"):
            after.result(60)
        assert first.context.get(B).tolist() == [2, 2]
        second.run()
        assert second.context.get(C).tolist() == [4, 4]


def test_a_chain_of_writes_does_not_grow() -> None:
    with cpu_devices("cpu:1") as (one,), Context(one) as root:
        routine = root.put({A: np.ones(2)}).link(code(double, [A], [B], "first"))
        for _ in range(30):
            last = routine.submit()
        last.result(60)
        one.wait()
        write = routine.context._buffers[B].write
        assert write is not None
        assert write.before is None
        assert routine._work.mark.is_coming
        assert len(routine._work.mark.under_way) <= 30
        routine.run()
        assert len(routine._work.mark.under_way) == 1


def test_work_keeps_its_contexts() -> None:
    """Nobody else holds them: they are closed when the work is done."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two):
        begin = held_up(one)
        made = Context(one).put({A: np.ones(2)}).link(code(double, [A], [B], "made"))
        move = device_to_device(B, Context(two), made.context)
        assert move is not None
        events = [made.submit(), move.submit()]
        del made, move
        gc.collect()
        assert one.contexts == 3
        begin.set()
        for event in events:
            event.result(60)
        one.wait()
        two.wait()
        gc.collect()
        assert one.contexts == two.contexts == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_work_on_three_devices(seed: int) -> None:
    """Ops, transfers and merges, all submitted at once, give what NumPy gives one after another."""
    rng = np.random.default_rng(seed)
    nodes = [Node(f"n{k}", (50,)) for k in range(4)]
    minus = [[code(lambda x, y: x - y, [x, y], [y], "minus") for y in nodes] for x in nodes]
    add = [code(lambda x: x, [x.merged], [x], "add", accumulate=True) for x in nodes]
    names = ("cpu:0", "cpu:1", "cpu:2")
    with cpu_devices(*names) as devices, ExitStack() as stack:
        want = [{x: rng.integers(-3, 4, 50).astype(float) for x in nodes} for _ in names]
        roots = [stack.enter_context(Context(device)) for device in devices]
        lines = [root.put(values) for root, values in zip(roots, want, strict=True)]
        for _ in range(40):
            k, other = (int(at) for at in rng.permutation(3)[:2])
            i, j = (int(at) for at in rng.integers(0, 4, 2))
            x, y, kind = nodes[i], nodes[j], rng.integers(3)
            routines = []
            if kind == 0:
                routines = [lines[k].link(minus[i][j])]
                want[k][y] = want[k][x] - want[k][y]
            elif kind == 1:
                routines = [device_to_device(x, lines[k], lines[other], source=y)]
                want[k][x] = want[other][y].copy()
            else:
                bring = device_to_device(x, lines[k], lines[other], into="merge", source=y)
                assert bring is not None
                routines = [bring, bring.context.link(add[i])]
                want[k][x] = want[k][x] + want[other][y]
            for routine in routines:
                assert routine is not None
                routine.submit()
                lines[k] = routine.context
        for line, values in zip(lines, want, strict=True):
            for node, value in values.items():
                np.testing.assert_array_equal(line.get(node), value)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, y: device_to_device(D, x, y), NodeError, "<d: float64.*not in the source"),
        (
            lambda x, y: device_to_device(Node("w", (3,)), x, y, source=A),
            einloom.ShapeError,
            r"\(2,\)",
        ),
        (
            lambda x, y: device_to_device(Node("w", (2,), "f4"), x, y, source=A),
            einloom.DTypeError,
            "f",
        ),
        (lambda x, y: device_to_device(A, x, y, into="both"), einloom.OptionError, "into='both'"),
        (lambda x, y: device_to_device(A, x, "cpu:2"), einloom.CallError, "src=...*str"),
        (lambda x, y: device_to_device(A, None, y), einloom.CallError, "dst=...*NoneType"),
        (
            lambda x, y: device_to_device(B.rows(0, 1), x, y, source=A.rows(0, 1)),
            NodeError,
            "lacks",
        ),
        (
            lambda x, y: device_to_device(Node.constant("k", np.ones(2)), x, y, source=A),
            NodeError,
            "cannot be written",
        ),
    ],
    ids=list("abcdefgh"),
)
def test_bad_transfers(call: Any, error: type[Exception], text: str) -> None:
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        source = there.put({A: np.ones(2)})
        before = dict(one.pools.sizes)
        with pytest.raises(error, match=text):
            call(here, source)
        assert dict(one.pools.sizes) == before


# ---- previously failed ---------------------------------------------------------------------------


class Ending(Future[Any]):
    """An event of work that ends in the moment in which somebody asks whether it has."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self.end = end

    def done(self) -> bool:
        self.end()
        return True


def test_work_that_ends_while_it_is_looked_at() -> None:
    """What was looked at first was of before the end, and what came next of after it: so the routine seemed
    never to have run, or its write never to have begun."""
    mark = Mark("made")

    def end() -> None:
        mark.completed = 1

    mark.goes_on(Ending(end))
    assert mark.is_coming

    with cpu_devices("cpu:1") as (one,):
        buffer = Buffer(one, A, MERGE)

    def begin_and_end() -> None:
        write.has_begun = write.is_done = True
        write.before = None

    write = Write(Ending(begin_and_end), mark, None)
    buffer.write = write
    assert buffer.last_write(mark) is write


def test_what_a_transfer_has_not_brought_is_not_merged_again() -> None:
    """It was cancelled, or its source's writer was: the merge buffer holds what was there before."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as there, Context(two) as here:
        make = there.put({A: np.ones(2)}).link(code(double, [A], [B], "make"))
        bring = device_to_device(B, here.put({C: np.zeros(2)}), make.context, into="merge")
        assert bring is not None
        join = bring.context.link(code(lambda x: x, [B.merged], [C], "join", accumulate=True))
        for routine in (make, bring, join):
            routine.run()
        begin = held_up(two)
        brought, joined = bring.submit(), join.submit()
        assert brought.cancel()
        begin.set()
        with pytest.raises(
            OrderError, match=r"merge buffer was to be written by 'b from.*cancelled"
        ):
            joined.result(60)
        begin = held_up(one)
        made, brought = make.submit(), bring.submit()
        assert made.cancel()
        begin.set()
        with pytest.raises(OrderError, match="'make', which was cancelled"):
            brought.result(60)
        with pytest.raises(OrderError, match="the merge buffer was to be written by 'b from"):
            join.run()  # though `bring` has failed long before
        for routine in (make, bring, join):
            routine.run()
        assert join.context.get(C).tolist() == [4, 4]


@pytest.mark.parametrize("into", ["node", "merge"])
def test_a_transfer_comes_after_the_writer_at_its_source(into: Any) -> None:
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as there, Context(two) as here:
        add = (
            there.put({A: np.ones(2)})
            .zeros(B)
            .link(code(lambda x: x, [A], [B], "add", accumulate=True))
        )
        move = device_to_device(B, here, add.context, into=into)
        assert move is not None
        assert (move.depends_on, move.can_run) == (("add",), False)
        with pytest.raises(OrderError, match="not executed yet: 'add', which writes b"):
            move.run()
        add.run()
        move.run()
        if into == "node":
            assert move.context.get(B).tolist() == [1, 1]


def test_contents_of_before_are_nobody_elses_result() -> None:
    """Whether it is asked for before or after the failure; the routine itself may be run again."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as here, Context(two) as there:
        total = here.put({C: np.ones(2)})
        bring = device_to_device(A, total, there.put({A: np.ones(2)}), into="merge")
        other = device_to_device(A, total, there.put({A: np.ones(2)}), into="merge")
        assert bring is not None
        assert other is not None
        join = bring.context.link(code(lambda x: x, [A.merged], [C], "join", accumulate=True))
        bring.run()
        other.run()
        begin = held_up(one)
        joined = join.submit()
        early: list[Exception] = []

        def ask() -> None:
            try:
                total.get(C)
            except OrderError as error:
                early.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        begin.set()
        asking.join(60)
        assert isinstance(joined.exception(60), MergeError)
        with pytest.raises(OrderError, match="was to be written by 'join', which failed"):
            total.get(C)
        assert len(early) == 1
        bring.run()
        join.run()
        assert total.get(C).tolist() == [2, 2]


def test_a_closed_parent_stays_while_another_device_reads() -> None:
    """The memory that the last child's close gives back is its parent's too; so is that of constants."""
    constant = Node.constant("k", np.full(2, 3.0))
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(two) as here:
        root = Context(one)
        parent = root.put({A: np.ones(2)})
        child = parent.link(code(double, [constant], [C], "child")).context
        parent.close()
        root.close()
        moves = [
            device_to_device(A, here, child),
            device_to_device(B, here, child, source=constant),
        ]
        begin = held_up(two)
        moved = [move.submit() for move in moves if move is not None]
        closing = threading.Thread(target=lambda: (child.close(), one.close()))
        closing.start()
        closing.join(0.2)
        assert closing.is_alive()
        begin.set()
        closing.join(60)
        assert [event.exception(60) for event in moved] == [None, None]


def test_a_close_that_is_refused_can_be_tried_again() -> None:
    """In a callback, which runs in the device's thread, it would wait for what is queued behind it."""
    with cpu_devices("cpu:1") as (one,), Context(one) as root:
        held = root.put({A: np.ones(2)})
        make = held.link(code(double, [A], [B], "make"))
        begin, refused = held_up(one), []

        def close(_: Any) -> None:
            try:
                held.close()
            except OrderError as error:
                refused.append(error)

        first = make.submit()
        first.add_done_callback(close)
        second = make.submit()
        begin.set()
        second.result(60)
        assert len(refused) == 1
        assert held.get(A).tolist() == [1, 1]
        make.context.close()
        held.close()
        assert held.is_closed
