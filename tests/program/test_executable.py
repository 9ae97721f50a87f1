"""Programs bound to a backend: generated code or table, results, `out`, threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.program.programs import (
    assert_same,
    by_laws,
    forced,
    random_arrays,
    random_indices,
    random_program,
)

import einloom
from einloom._base.errors import ProgramError, Unsupported
from einloom.backend.cpu import cpu
from einloom.program import executable as module
from einloom.program import schedule as scheduling
from einloom.program.builder import Builder
from einloom.program.executable import TABLE_FROM, Executable
from einloom.program.ir import Program

SOURCE = """\
def run(x0, x1, out=None):
    x2 = k0(x1)  # transpose -> float64[3,2]
    x3 = k1(x0, x2)  # dot_general -> float64[2,2]
    del x0, x1, x2
    x4 = k2(x3, out=out)  # reduce_sum -> float64[2]
    del x3
    return x4
"""


def gram() -> Program:
    """Row sums of a @ b.T"""
    build = Builder()
    a, b = build.input("f8", (2, 3)), build.input("f8", (2, 3))
    turned = build("transpose", b, perm=(1, 0))
    product = build("dot_general", a, turned, contracting=((1,), (0,)), batch=((), ()))
    return build.finish(build("reduce_sum", product, axes=(1,)))


def forms(program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Executable]:
    """As generated code, and as a loop over a table."""
    generated = Executable(program, cpu())
    with monkeypatch.context() as patch:
        patch.setattr(module, "TABLE_FROM", 0)
        return [generated, Executable(program, cpu())]


def test_source() -> None:
    """Straight-line Python that can be read."""
    executable = Executable(gram(), cpu())
    assert executable.source == SOURCE
    assert executable.peak_bytes == executable.schedule.peak_bytes
    assert not executable.is_view


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernel_alone_is_called_as_it_is(turned: bool, rng: np.random.Generator) -> None:
    """Where the function would only pass on what it is given, and there alone: in another order it is not."""
    build = Builder()
    given = [build.input("f8", (3, 4)) for _ in range(2)]
    program = build.finish(build("subtract", *(given[::-1] if turned else given)))
    executable = Executable(program, cpu())
    (step,) = executable.steps
    assert (executable.settled() is step.kernel) is not turned
    assert executable.source.startswith("def run(")
    a, b = rng.random((3, 4)), rng.random((3, 4))
    out = np.empty((3, 4))
    assert executable(a, b, out=out) is out
    np.testing.assert_array_equal(out, b - a if turned else a - b)
    np.testing.assert_array_equal(executable(a, b), out)


def test_ill_formed_program_is_refused() -> None:
    program = gram()
    broken = Program(program.slots, program.instructions[1:], program.inputs, program.outputs)
    with pytest.raises(ProgramError, match="before it is written"):
        Executable(broken, cpu())


def test_what_the_backend_cannot_do_is_refused_before_running() -> None:
    build = Builder()
    x = build.input("float64", (2, 2))
    with pytest.raises(Unsupported, match="'cholesky' has no kernel"):
        Executable(build.finish(build("cholesky", x)), cpu())


def test_out_is_filled_and_returned(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Directly by the last kernel where that makes the result, else by a copy."""
    a, b = rng.random((2, 2, 3))
    for executable in forms(gram(), monkeypatch):
        assert executable._tail is not None
        out = np.full((4,), np.nan)[::2]
        assert executable(a, b, out=out) is out
        np.testing.assert_array_equal(out, executable(a, b))


INDIRECT: dict[str, Any] = {
    "a view last": lambda b, x: (b("reshape", b("copy", x), shape=(3, 2)),),
    "a transposed input": lambda b, x: (b("transpose", x, perm=(1, 0)),),
    "a constant last": lambda b, x: (b("constant", value=3, dtype="float64"),),
    "the result made earlier": lambda b, x: (b("copy", x), b("conj", x))[:1],
    "an input": lambda b, x: (x,),
}


@pytest.mark.parametrize("what", INDIRECT)
def test_out_by_a_copy(
    what: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    build = Builder()
    program = build.finish(*INDIRECT[what](build, build.input("f8", (2, 3))))
    x = rng.random((2, 3))
    (want,) = by_laws(program, [x])
    for executable in forms(program, monkeypatch):
        assert executable._tail is None
        out = np.full_like(want, np.nan)
        assert executable(x, out=out) is out
        np.testing.assert_array_equal(out, want)
        assert not np.shares_memory(out, x)


@pytest.mark.parametrize("perms", [[(1, 2, 0)], [(2, 0, 1), (1, 0, 2)]])
def test_out_is_filled_through_transposes(
    perms: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """The kernel writes into `out` with its axes in the kernel's order."""
    build = Builder()
    x = build("copy", build.input("f8", (2, 3, 4)))
    for perm in perms:
        x = build("transpose", x, perm=perm)
    program = build.finish(x)
    array = rng.random((2, 3, 4))
    (want,) = by_laws(program, [array])
    for executable in forms(program, monkeypatch):
        assert executable._tail is not None
        out = np.full_like(want, np.nan, order="C")
        assert executable(array, out=out) is out
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(executable(array), want)


def test_out_of_another_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a copy is made, it casts."""
    build = Builder()
    x = build.input("f8", (2, 3))
    program = build.finish(build("transpose", build("copy", x), perm=(1, 0)))
    for executable in forms(program, monkeypatch):
        out = np.zeros((3, 2), np.float32)
        executable(np.full((2, 3), 0.5), out=out)
        np.testing.assert_array_equal(out, 0.5)


def test_several_results(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """In the order asked for; one slot may be several results, and inputs may be results."""
    build = Builder()
    x, y = build.input("f8", (2, 3)), build.input("i8", (3,))
    total = build("reduce_sum", x, axes=(0, 1))
    wide = build("convert", y, dtype="complex128")
    program = build.finish(wide, total, x, wide)
    arrays = [rng.random((2, 3)), rng.integers(0, 9, 3)]
    for executable in forms(program, monkeypatch):
        results = executable(*arrays)
        assert_same(results, by_laws(program, arrays))
        assert results[0] is results[3]
        assert results[2] is arrays[0]


def test_views() -> None:
    build = Builder()
    x = build.input("f8", (2, 3, 1))
    view = build("squeeze", build("transpose", x, perm=(2, 1, 0)), axes=(0,))
    executable = Executable(build.finish(view), cpu())
    assert executable.is_view
    array = np.zeros((2, 3, 1))
    executable(array)[2, 1] = 5
    assert array[1, 2, 0] == 5


def test_intermediates_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """During the call, as scheduled, in both forms: kernels see who is still alive."""
    import weakref

    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class Backend(type(cpu())):  # type: ignore[misc]
        def bind(self, op: str, *spec: Any) -> Any:
            kernel = super().bind(op, *spec)

            def run(*arrays: Any, out: Any = None) -> Any:
                alive.append(sum(ref() is not None for ref in made))
                result = kernel(*arrays)
                made.append(weakref.ref(result))
                return result

            return run

    build = Builder()
    x = build.input("f8", (10,))
    for _ in range(5):
        x = build("conj", x)
    program = build.finish(x)
    for table_from in (0, 100):
        monkeypatch.setattr(module, "TABLE_FROM", table_from)
        monkeypatch.setattr(scheduling, "ARENA", 0)
        made.clear()
        alive.clear()
        Executable(program, Backend())(np.zeros(10))
        assert alive == [0, 1, 1, 1, 1]


def test_interpret_measures_every_instruction() -> None:
    executable = Executable(gram(), cpu())
    seconds: list[float] = []
    executable.interpret(np.ones((2, 3)), np.ones((2, 3)), seconds=seconds)
    assert len(seconds) == 3
    assert min(seconds) >= 0


def long_program(count: int) -> Program:
    """count instructions: x, x + y, x + 2 y ... with a transpose now and then."""
    build = Builder()
    x, y = build.input("int64", (2, 2)), build.input("int64", (2, 2))
    for k in range(count):
        x = build("transpose", x, perm=(1, 0)) if k % 5 == 4 else build("add", x, y)
    return build.finish(x)


@pytest.mark.parametrize("count", [0, 1, TABLE_FROM - 1, TABLE_FROM, 2500])
def test_long_programs(count: int) -> None:
    executable = Executable(long_program(count), cpu())
    assert ("loop over a table" in executable.source) == (count >= TABLE_FROM)
    x, y = np.array([[1, 2], [3, 4]]), np.array([[10, 20], [30, 40]])
    want = x
    for k in range(count):
        want = want.T if k % 5 == 4 else want + y
    np.testing.assert_array_equal(executable(x, y), want)
    np.testing.assert_array_equal(executable.interpret(x, y), want)
    out = np.zeros((2, 2), int)
    assert executable(x, y, out=out) is out
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "table", [pytest.param(False, marks=pytest.mark.slow), True], ids=["generated", "table"]
)
def test_eight_threads(table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One executable in all of them, each with arrays of its own."""
    if table:
        monkeypatch.setattr(module, "TABLE_FROM", 0)
    together = threading.Barrier(8)
    cases = []
    for seed in range(15):
        program = random_program(seed)
        sets = [random_arrays(program, 8 * seed + k) for k in range(8)]
        with forced(program):
            cases.append((Executable(program, cpu()), sets))

    def work(k: int) -> None:
        indices = [random_indices(executable.program, k) for executable, _ in cases]
        wanted = [
            by_laws(executable.program, sets[k], i)
            for (executable, sets), i in zip(cases, indices, strict=True)
        ]
        together.wait(60)
        for _ in range(5):
            for (executable, sets), i, want in zip(cases, indices, wanted, strict=True):
                assert_same(executable(*sets[k], indices=i), want)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_an_error_inside_leaves_the_executable_usable() -> None:
    """Wrong arrays are the fronts' to refuse; a kernel that fails breaks nothing."""
    executable = Executable(gram(), cpu())
    with pytest.raises(ValueError, match="shapes"):
        executable(np.ones((2, 3)), np.ones((2, 4)))
    np.testing.assert_array_equal(executable(np.ones((2, 3)), np.ones((2, 3))), [6, 6])


# ---- static indices ---------------------------------------------------------------------------


def sliced_product() -> Executable:
    """x[i] @ y[:, j], for i < 5 and j < 3."""
    b = Builder()
    x, y = b.input("float64", (5, 4)), b.input("float64", (4, 3))
    i, j = b.index("i", 5), b.index("j", 3)
    row, column = b("slice_at", x, axis=0, at=i), b("slice_at", y, axis=1, at=j)
    axes = {"contracting": ((0,), (0,)), "batch": ((), ())}
    return Executable(b.finish(b("dot_general", row, column, **axes)), cpu())


def test_one_executable_for_all_indices(rng: np.random.Generator) -> None:
    x, y = rng.random((5, 4)), rng.random((4, 3))
    run = sliced_product()
    assert "i0" in run.source
    for i, j in np.ndindex(5, 3):
        want = x[i] @ y[:, j]
        np.testing.assert_allclose(run(x, y, indices=(i, j)), want, rtol=1e-14)
        np.testing.assert_allclose(run.interpret(x, y, indices=(i, j)), want, rtol=1e-14)
        out = np.empty(())
        assert run(x, y, indices=(i, j), out=out) is out
        np.testing.assert_allclose(out, want, rtol=1e-14)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ((), "0 static indices given, there are 2"),
        ((1,), "1 static indices given"),
        ((1, 2, 3), "3 static indices given"),
        ((5, 0), r"i0 \(i\) = 5 is not from 0 to 4"),
        ((0, -1), r"i1 \(j\) = -1 is not from 0 to 2"),
    ],
)
def test_static_indices_out_of_range(indices: tuple[int, ...], message: str) -> None:
    run = sliced_product()
    with pytest.raises(ProgramError, match=message):
        run(np.ones((5, 4)), np.ones((4, 3)), indices=indices)


def test_every_entry_runs_the_same_program(rng: np.random.Generator) -> None:
    """An executable, an expression and a routine: one engine, and the same bits."""
    x, y = rng.standard_normal((2, 4, 4))
    expr = einloom.compile("ij,jk->ik", x, y)
    want = expr(x, y)
    assert Executable(expr.program, cpu())(x, y).tobytes() == want.tobytes()
    a, b, c = (einloom.Node(name, (4, 4)) for name in "abc")
    with einloom.Context("cpu:1") as root:
        routine = root.put({a: x, b: y}).link(einloom.Code(expr.program, [a, b], [c]))
        routine.run()
        assert routine.context.get(c).tobytes() == want.tobytes()
