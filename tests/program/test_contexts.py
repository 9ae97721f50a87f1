"""Contexts: where nodes lie, what linking gives, and what closing frees."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.program.mock_device import cpu_devices, mock_device

import einloom
from einloom import (
    CallError,
    ClosedError,
    Code,
    Context,
    DTypeError,
    Node,
    NodeError,
    OptionError,
    ShapeError,
)
from einloom.backend.devices import Device
from einloom.program.bindings import Bindings
from einloom.program.dispatch import executable_for
from einloom.program.ir import StaticIndex

GOLDEN = Path(__file__).parent / "golden" / "contexts.txt"
F4 = "float32"


def pair(name: str, *values: float) -> Node:
    return Node.constant(name, np.array(values, F4))


def places(context: Context) -> dict[str, tuple[int, int]]:
    return {node.name: tuple(loc) for node, loc in context.locations.items()}


# ---- places --------------------------------------------------------------------------------------


def test_places_one_pool_each() -> None:
    """OCANNL's test_buffer_loc of one pool for each node: a 1, out 2, b 3, all at offset 0."""
    for _ in range(2):
        with mock_device() as (device, _memory), Context(device, policy="separate") as root:
            a, b, out = pair("a", 1, 2), pair("b", 3, 4), Node("out", (2,), F4)
            first = root.link(Code(lambda x: x + x, [a], [out]))
            second = first.context.link(Code(lambda x, y: x + y, [out, b], [out]))
            assert places(second.context) == {"a": (1, 0), "out": (2, 0), "b": (3, 0)}
            first.run()
            second.run()
            assert second.context.get(out).tolist() == [5, 8]


def test_places_packed() -> None:
    """The same for packed pools: what is written first, constants in a pool of the device."""
    for _ in range(2):
        with mock_device() as (device, _memory), Context(device) as root:
            a, b, out = pair("a", 1, 2), pair("b", 3, 4), Node("out", (2,), F4)
            routine = root.link(Code(lambda x, y: x * y, [a, b], [out]))
            assert places(routine.context) == {"out": (1, 0), "a": (2, 0), "b": (2, 8)}


def test_offsets_are_honoured() -> None:
    """p = a + b and q = a * b, side by side in one pool: both survive."""
    with mock_device() as (device, _memory), Context(device) as root:
        a, b = pair("a", 1, 2), pair("b", 3, 4)
        p, q = Node("p", (2,), F4), Node("q", (2,), F4)
        routine = root.link(Code(lambda x, y: (x + y, x * y), [a, b], [p, q]))
        assert places(routine.context)["p"] == (1, 0)
        assert places(routine.context)["q"] == (1, 8)
        routine.run()
        assert routine.context.get(p).tolist() == [4, 6]
        assert routine.context.get(q).tolist() == [3, 8]


def chained(device: Device | str, policy: Any) -> str:
    """Every kind of node, as text."""
    x, y, total = Node("x", (8, 8)), Node("y", (8, 8)), Node("total", (8,))
    w = Node.constant("w", np.eye(8))
    # kernels of large arrays are fused, and on more threads programs run in parts
    with einloom.options(threads=1, small=1 << 18), Context(device, policy=policy) as root:
        held = root.put({x: np.ones((8, 8))}).zeros(total)
        product = held.link(Code(lambda a, b: abs(a @ b) ** 2 + 1, [x, w], [y], name="product"))
        rows = product.context.link(
            Code(lambda a, b: einloom.einsum("ij,kj->j", a, b), [y.rows(2, 4), y], [total],
                 accumulate=True, name="rows")
        )  # fmt: skip
        parts = [held, product, rows, rows.context]
        return "\n\n".join(str(part) for part in parts)


def test_as_text() -> None:
    """Dumps are the same in every run and on every machine, and whoever used the process before."""
    with cpu_devices("cpu:0"):
        packed = chained("cpu:0", "packed")
    with cpu_devices("cpu:0"):
        separate = chained("cpu:0", "separate")
        Context("cpu:0").close()
    assert packed + "\n\n" + separate + "\n" == GOLDEN.read_text()
    with cpu_devices("cpu:0"):
        assert chained("cpu:0", "packed") == packed


# ---- linking -------------------------------------------------------------------------------------


def test_inputs_and_outputs() -> None:
    """Constants are neither; what is read and written is both; others are not made twice."""
    a, b, out, k = Node("a", (2,)), Node("b", (2,)), Node("out", (2,)), pair("k", 1, 2)
    wide = Node.constant("wide", np.array([10.0, 20.0]))
    with cpu_devices("cpu:1") as (device,), Context(device) as root:
        held = root.put({a: np.ones(2), b: np.full(2, 3.0)})
        code = Code(lambda x, y, c: x * y + c, [a, b, wide], [out], name="code")
        routine = held.link(code)
        assert (routine.inputs, routine.outputs, routine.merge_input) == ((a, b), (out,), None)
        assert (routine.name, routine.context.parent, k in routine.context) == ("code", held, False)
        again = routine.context.link(Code(lambda x: x, [a], [out], accumulate=True))
        assert (again.inputs, again.outputs) == ((a, out), (out,))
        assert again.context.locations[out] == routine.context.locations[out]
        assert again.context.nbytes == 0
        assert out not in held  # which never changes
        routine.run()
        again.run()
        assert again.context.get(out).tolist() == [14, 24]


def test_results_that_show_what_is_written() -> None:
    """Two nodes exchanged, turned in place, and added to themselves turned."""
    x, y = Node("x", (3, 3)), Node("y", (3, 3))
    p, q = np.arange(9.0).reshape(3, 3), np.ones((3, 3))
    with Context("cpu:1") as root:
        held = root.put({x: p, y: q})
        held.link(Code(lambda a, b: (b, a), [x, y], [x, y])).run()
        np.testing.assert_array_equal(held.get(x), q)
        np.testing.assert_array_equal(held.get(y), p)
        held.link(Code(lambda a: a.T, [y], [y])).run()
        np.testing.assert_array_equal(held.get(y), p.T)
        held.link(Code(lambda a: a.T, [y], [y], accumulate=True)).run()
        np.testing.assert_array_equal(held.get(y), p.T + p)
        held.link(Code(lambda a, b: a @ b, [y, x], [y])).run()
        np.testing.assert_array_equal(held.get(y), (p.T + p) @ q)


def test_an_accumulator_takes_no_memory() -> None:
    """The sum is written where it lies; a product goes straight to its node."""
    a, out = Node("a", (2, 2)), Node("out", (2, 2))
    with Context("cpu:1") as root:
        routine = root.put({a: np.ones((2, 2))}).zeros(out).link(
            Code(lambda x: x, [a], [out], accumulate=True)
        )  # fmt: skip
        assert routine.executable is not None
        assert routine.executable.may_write_over(1)
        assert not routine.executable.may_write_over(0) or a.spec == out.spec
        for _ in range(3):
            routine.run()
        assert routine.context.get(out).tolist() == [[3, 3], [3, 3]]


def test_constants_are_uploaded_once() -> None:
    """One for all contexts of a device, and only what is declared one: equal inputs share nothing."""
    with mock_device() as (device, memory):
        w = Node.constant("w", np.ones(4))
        x, out = Node("x", (4,)), Node("out", (4,))
        code = Code(lambda a, b: a + b, [x, w], [out])
        with Context(device) as one, Context(device) as two:
            first = one.put({x: np.zeros(4)}).link(code)
            second = two.put({x: np.zeros(4)}).link(code)
            assert first.context.locations[w] == second.context.locations[w]
            assert first.context.locations[x] != second.context.locations[x]
            assert list(device.constants) == [w]
            first.run()
            second.context.set(x, np.ones(4))
            second.run()
            assert first.context.get(out).tolist() == [1] * 4
            assert second.context.get(out).tolist() == [2] * 4
        assert len(memory.live) == 1  # the constant's, which is the device's
        assert not w.value.flags.writeable
    assert memory.live == {}


def test_arrays_are_copied() -> None:
    """Neither what is put nor what is got shares memory with a node."""
    x, given = Node("x", (3,)), np.arange(3.0)
    with Context("cpu:1") as root:
        held = root.put({x: given})
        given[:] = 9
        got = held.get(x)
        assert got.tolist() == [0, 1, 2]
        got[:] = 7
        held.set(x, np.full(3, 5.0))
        assert held.get(x).tolist() == [5, 5, 5]


def test_aliases() -> None:
    """A place plus so many bytes; no memory of its own; writing it writes the whole."""
    x, out = Node("x", (4, 3)), Node("out", (2, 3))
    middle = x.rows(1, 3)
    assert middle.rows(1, 2).parent is x
    with Context("cpu:1") as root:
        held = root.put({x: np.zeros((4, 3))})
        assert held.locations[middle] == held.locations[x].after(24)
        assert held.locations[middle.rows(1, 2)] == held.locations[x].after(48)
        before = held.device.pools.nbytes
        held.set(middle, np.ones((2, 3)))
        double = held.link(Code(lambda a: a + a, [middle], [middle]))
        double.run()
        assert double.context.nbytes == 0 == held.device.pools.nbytes - before
        assert held.get(x).sum(axis=1).tolist() == [0, 6, 6, 0]
        read = held.link(Code(lambda a: a + 1, [middle], [out]))
        read.run()
        assert read.context.get(out).tolist() == [[3] * 3] * 2


def test_programs_and_templates() -> None:
    """Code is of programs, templates and functions; what runs is compiled once for each device."""
    from einloom.program.builder import Builder

    build = Builder()
    program = build.finish(build("exp", build.input("float64", (3,))))
    template = einloom.trace(lambda a: a * 2, "float64[n]")
    x, y = Node("x", (3,)), Node("y", (3,))
    with Context("cpu:1") as root:
        held = root.put({x: np.zeros(3)})
        for source, want in ((program, 1.0), (template, 0.0)):
            one, two = held.link(Code(source, [x], [y])), held.link(Code(source, [x], [y]))
            assert one.executable is two.executable
            one.run()
            assert one.context.get(y).tolist() == [want] * 3
        assert one.context.locations[y] != two.context.locations[y]
    assert executable_for(program, "cpu:1") is not executable_for(program, "cpu:2")


# ---- static indices ------------------------------------------------------------------------------


def sliced_rows() -> Code:
    """total += x[i, j], one at a time."""
    from einloom.program.builder import Builder

    build = Builder()
    x, i, j = build.input("float64", (3, 4, 2)), build.index("i", 3), build.index("j", 4)
    row = build("slice_at", build("slice_at", x, axis=0, at=i), axis=0, at=j)
    program = build.finish(build("contiguous", row))
    return Code(program, [Node("x", (3, 4, 2))], [Node("total", (2,))], accumulate=True)


def test_bindings_and_the_loop() -> None:
    """Values that are set, given for one run, or run through; a loop leaves them as they are."""
    code, values = sliced_rows(), np.random.default_rng(0).standard_normal((3, 4, 2))
    (x, total), (out,) = code.inputs, code.outputs
    with Context("cpu:1") as root:
        held = root.put({x: values}).zeros(total)
        routine = held.link(code, {"j": 1})
        assert dict(routine.bindings) == {"i": 0, "j": 1}
        want = np.zeros(2)

        def check() -> None:
            np.testing.assert_allclose(routine.context.get(out), want, atol=1e-12)

        routine.run()
        want = values[0, 1]
        check()
        routine.bindings["i"] = 2
        routine.run({"j": 3})
        want = want + values[2, 3]
        check()
        routine.run({"i": range(1, 3)})
        want = want + values[1:3, 1].sum(0)
        check()
        routine.loop()
        want = want + values.sum((0, 1))
        check()
        routine.loop({"j": [0, 2]})
        want = want + values[:, [0, 2]].sum((0, 1))
        check()
        routine.submit({"i": range(3), "j": range(2, 4)}).result()
        want = want + values[:, 2:].sum((0, 1))
        check()
        assert dict(routine.bindings) == {"i": 2, "j": 1}


@pytest.mark.parametrize(
    "call",
    [
        lambda routine: routine.bindings.__setitem__("i", 3),
        lambda routine: routine.bindings.__setitem__("i", -1),
        lambda routine: routine.bindings.__setitem__("k", 0),
        lambda routine: routine.bindings.__delitem__("i"),
        lambda routine: routine.run({"i": 3}),
        lambda routine: routine.run({"i": 1.5}),
        lambda routine: routine.run({"i": range(4)}),
        lambda routine: routine.run({"i": [0, -1]}),
        lambda routine: routine.loop({"k": [0]}),
        lambda routine: routine.submit({"j": 4}),
    ],
    ids=[str(k) for k in range(10)],
)
def test_bindings_are_checked(call: Any) -> None:
    code = sliced_rows()
    with Context("cpu:1") as root:
        held = root.put({code.inputs[0]: np.ones((3, 4, 2))}).zeros(code.outputs[0])
        routine = held.link(code)
        with pytest.raises(einloom.OptionError, match="static index"):
            call(routine)
        assert held.get(code.outputs[0]).tolist() == [0, 0]
        with pytest.raises(einloom.OptionError, match="no static index 'z'; there are: i, j"):
            held.link(code, {"z": 0})


# ---- closing -------------------------------------------------------------------------------------


def test_close_frees_what_is_its_own() -> None:
    """Once; never what a parent or the constants own."""
    a, b, w = Node("a", (4,)), Node("b", (4,)), Node.constant("w", np.ones(4))
    with mock_device() as (device, memory):
        root = Context(device)
        held = root.put({a: np.ones(4)})
        routine = held.link(Code(lambda x, y: x + y, [a, w], [b]))
        routine.run()
        assert (len(memory.live), device.contexts) == (3, 3)
        routine.context.close()
        assert (len(memory.live), device.contexts) == (2, 2)
        assert held.get(a).tolist() == [1] * 4
        other = held.link(Code(lambda x, y: x * y, [a, w], [b]))
        other.run()
        assert other.context.get(b).tolist() == [1] * 4
        other.context.close()
        held.close()
        root.close()
        assert (len(memory.live), device.contexts) == (1, 0)
    assert sum(line.startswith("free") for line in memory.log) == 4


def test_a_closed_parent_waits_for_its_children() -> None:
    """It takes no work any more; what children have from it stays until the last is closed."""
    a, b = Node("a", (4,)), Node("b", (4,))
    code = Code(lambda x: x + x, [a], [b])
    with mock_device() as (device, memory):
        held = Context(device).put({a: np.ones(4)})
        one, two = held.link(code), held.link(code)
        held.close()
        one.run()
        assert one.context.get(a).tolist() == [1] * 4
        assert len(memory.live) == 3
        with pytest.raises(ClosedError, match="link code: the context on mock:0 is closed"):
            held.link(code)
        one.context.close()
        assert len(memory.live) == 2
        two.context.close()
        assert len(memory.live) == 0
        assert held.parent is not None
        held.parent.close()


def test_with_closes_all_that_was_derived() -> None:
    a, b = Node("a", (4,)), Node("b", (4,))
    with mock_device() as (device, memory):
        with Context(device) as root:
            held = root.put({a: np.ones(4)})
            routine = held.link(Code(lambda x: x + x, [a], [b]))
            routine.context.close()
        assert (held.is_closed, root.is_closed, device.contexts) == (True, True, 0)
        assert memory.live == {}
        with pytest.raises(ClosedError), root:
            pass


def test_garbage_is_closed() -> None:
    """Contexts that nobody holds any more free what they own, with those that they came of."""
    a = Node("a", (4,))
    with mock_device() as (device, memory):
        held = Context(device).put({a: np.ones(4)})
        assert len(memory.live) == 1
        del held
        gc.collect()
        assert (memory.live, device.contexts) == ({}, 0)


def test_use_after_close() -> None:
    """Every call that needs the context's memory is an error; other contexts are unharmed."""
    a, b = Node("a", (4,)), Node("b", (4,))
    code = Code(lambda x: x + x, [a], [b])
    with cpu_devices("cpu:5") as (device,), Context(device) as root:
        other = root.put({a: np.full(4, 3.0)}).link(code)
        held = root.put({a: np.ones(4)})
        routine = held.link(code)
        routine.run()
        gone = routine.context
        gone.close()
        held.close()
        for call in (
            gone.close, held.close, routine.run, routine.submit, routine.loop,
            lambda: gone.link(code), lambda: held.put({b: np.ones(4)}), lambda: held.zeros(b),
            lambda: gone.get(b), lambda: gone.set(b, np.ones(4)), gone.__enter__,
            lambda: einloom.device_to_device(b, root, gone),
            lambda: einloom.device_to_device(b, gone, other.context),
        ):  # fmt: skip
            with pytest.raises(ClosedError, match=r"cpu:5"):
                call()
        other.run()
        assert other.context.get(b).tolist() == [6] * 4


def test_a_device_with_contexts_is_not_closed() -> None:
    a = Node("a", (4,))
    with cpu_devices("cpu:5") as (device,):
        held = Context(device).put({a: np.ones(4)})
        with pytest.raises(einloom.DeviceError, match="cpu:5: 2 contexts are not closed"):
            device.close()
        assert held.get(a).tolist() == [1] * 4
        held.parent.close()  # type: ignore[union-attr]
        held.close()


# ---- bad input -----------------------------------------------------------------------------------

X, Y, K = Node("x", (2, 3)), Node("y", (2, 3)), Node.constant("k", np.ones((2, 3)))
SAME = Node("x", (2, 3))
BAD = [
    (lambda c: c.link(Code(lambda a: a + a, [SAME], [Y])), NodeError, "lacks <x: float64"),
    (lambda c: c.link(Code(lambda a: a, [X], [Y.rows(0, 1)])), einloom.ShapeError, "output 0"),
    (lambda c: c.link(Code(lambda a: a + a, [X.rows(0, 1)], [Y.rows(0, 1)])), NodeError, "lacks"),
    (lambda c: c.link(lambda a: a), einloom.CallError, "a function is no Code"),
    (lambda c: c.get(Y), NodeError, "get: <y"),
    (lambda c: c.get("x"), NodeError, "get: 'x'"),
    (lambda c: c.set(Y, np.ones((2, 3))), NodeError, "set: <y"),
    (lambda c: c.put({X: np.ones((2, 3))}), NodeError, "is in the context"),
    (lambda c: c.put({K: np.ones((2, 3))}), NodeError, "is a constant"),
    (lambda c: c.put({Y.rows(0, 1): np.ones((1, 3))}), NodeError, "is an alias"),
    (lambda c: c.put({"y": np.ones((2, 3))}), NodeError, "is no node"),
    (lambda c: c.put({Y: np.ones((3, 2))}), einloom.ShapeError, r"shape \(3, 2\), <y.*\(2, 3\)"),
    (lambda c: c.put({Y: np.ones((2, 3), "f4")}), einloom.DTypeError, "dtype float32, <y"),
    (lambda c: c.put({Y: [[1.0, 2.0, 3.0]] * 3}), einloom.ShapeError, r"shape \(3, 3\)"),
    (lambda c: c.set(X, np.ones(3)), einloom.ShapeError, r"shape \(3,\)"),
    (lambda c: c.zeros("y"), NodeError, "is no node"),
    (lambda c: Context("cpu:1", policy="loose"), einloom.OptionError, "policy='loose'"),
    (lambda c: Context("tpu"), einloom.DeviceError, "there is no device 'tpu'"),
    (lambda c: Code(lambda a: a, [X], [K]), NodeError, "<k.*cannot be written"),
    (lambda c: Code(lambda a: (a, a), [X], [Y, Y]), NodeError, "two outputs"),
    (lambda c: Code(lambda a: (a, a), [X], [Y]), einloom.ShapeError, "2 outputs, 1 nodes"),
    (lambda c: Code(lambda a: a.T, [X], [Y]), einloom.ShapeError, r"output 0 has shape \(3, 2\)"),
    (lambda c: Code(lambda a: abs(a), [X], ["y"]), einloom.CallError, "writes are nodes"),
    (lambda c: Code(lambda a: abs(a), ["x"], [Y]), einloom.CallError, "reads are nodes"),
    (lambda c: Code(3, [X], [Y]), einloom.CallError, "a int is no program"),
    (lambda c: Code(lambda a, b: a + b, [X.merged, Y.merged], [Y]), einloom.MergeError, "one node"),
    (lambda c: Node("", (2,)), einloom.OptionError, "name="),
    (lambda c: Node("n", 2), einloom.ShapeError, "no tuple"),
    (lambda c: Node("n", (-1,)), einloom.ShapeError, "negative"),
    (lambda c: Node("n", (2,), object), einloom.DTypeError, "pools hold numbers"),
    (lambda c: Node("n", (2,), ">f8"), einloom.DTypeError, "pools hold numbers"),
    (lambda c: X.rows(0, 3), einloom.ShapeError, "no such rows"),
    (lambda c: K.rows(0, 1), NodeError, "constants have no aliases"),
    (lambda c: setattr(X, "name", "z"), AttributeError, "cannot be changed"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=[str(k) for k in range(len(BAD))])
def test_bad_input(call: Any, error: type[Exception], text: str) -> None:
    """Typed errors that name what was wrong; nothing is left behind."""
    with Context("cpu:1") as root:
        held = root.put({X: np.ones((2, 3))})
        before = (dict(held.device.pools.sizes), held.device.contexts, held.device.next_pool_id)
        with pytest.raises(error, match=text):
            call(held)
        device = held.device
        assert before == (dict(device.pools.sizes), device.contexts, device.next_pool_id)
        assert held.get(X).tolist() == [[1] * 3] * 2


# ---- previously failed ---------------------------------------------------------------------------


def test_values_of_indices_are_some_and_stay() -> None:
    bindings = Bindings((StaticIndex("k", 3),))
    with pytest.raises(OptionError, match="static index k: no values given"):
        bindings.choices({"k": []})
    given = [0, 2]
    found = bindings.choices({"k": given})
    given[0] = -1
    assert found == [(0, 2)] == bindings.choices({"k": np.array([0, 2])})


def test_the_same_rows_are_the_same_alias() -> None:
    """Code that expects one in the merge buffer finds it, and no array is kept twice."""
    node = Node("x", (4, 2))
    assert node.rows(0, 2) is node.rows(0, 2)
    assert node.rows(0, 2) is not node.rows(0, 2, "first") is not node.rows(0, 3)
    with Context("cpu:1") as root:
        held = root.put({node: np.ones((4, 2))})
        for _ in range(20):
            held.get(node.rows(1, 3))
        assert len(held._buffers[node].arrays) <= 2


def test_nodes_of_bad_parts() -> None:
    with pytest.raises(DTypeError, match=r"Node\('x'\).*nonsense"):
        Node("x", (2,), "nonsense")
    with pytest.raises(ShapeError, match=r"Node.constant\('x'\)"):
        Node.constant("x", [[1.0], [1.0, 2.0]])
    node = Node("x", (2,))
    assert copy.deepcopy({"a": node})["a"] is copy.copy(node) is node
    with pytest.raises(CallError, match="make another"):
        pickle.dumps(node)
    with pytest.raises(CallError, match="name=3"):
        Code(lambda x: x, [node], [Node("y", (2,))], name=3)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="writes are a list of nodes"):
        Code(lambda x: x, [node], None)  # type: ignore[arg-type]
    with Context("cpu:1") as root, pytest.raises(CallError, match="a mapping from nodes to arrays"):
        root.put([node])  # type: ignore[arg-type]
