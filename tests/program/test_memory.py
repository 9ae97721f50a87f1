"""Memory plans: what is alive at once never overlaps, and arenas keep what they promise."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from tests.program.programs import (
    as_tuple,
    assert_same,
    by_laws,
    random_arrays,
    random_indices,
    random_program,
)
from tests.program.test_schedule import needed_until, seen_in

import einloom
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu
from einloom.contract.problem_file import read_problem
from einloom.program import executable as module
from einloom.program import memory
from einloom.program.builder import Builder
from einloom.program.executable import IDLE, Executable
from einloom.program.fused import Fused
from einloom.program.ir import Instruction, Program
from einloom.program.memory import ALIGNMENT, MemoryPlan, Policy, plan_memory
from einloom.program.passes import optimise
from einloom.program.schedule import schedule

GOLDEN = Path(__file__).parent / "memory_plan.txt"
INSTANCES = Path(__file__).parents[2] / "benchmarks" / "instances"
POLICIES: tuple[Policy, ...] = ("packed", "separate")


def memory_of(program: Program, policy: Policy = "packed") -> MemoryPlan:
    return plan_memory(program, schedule(program, cpu(), fused=False).dies_after, policy)


def places_of(program: Program) -> dict[int, tuple[int, int]]:
    """By definition: the slots that a kernel makes and nobody is given, of shapes that are known, with
    their lifetimes."""
    found = {}
    for index, ins in enumerate(program.instructions):
        if ins.may_view or ins.family is not None or ins.op == "constant":
            continue
        for slot in ins.outputs:
            if program.slots[slot].bounds:
                continue
            last = needed_until(program, slot)
            if last < len(program.instructions):
                found[slot] = (index, last)
    return found


def written_over(ins: Instruction, position: int) -> bool:
    if isinstance(ins, Fused):
        return ins.plan.reduce is None
    is_elementwise = CATALOGUE[ins.op].group == "elementwise"
    return is_elementwise or (ins.op, position) in (("dot_general_add", 2), ("ldexp", 0))


def may_share(program: Program, one: int, other: int) -> bool:
    """Whether an op that may write over an operand makes one of the two from the other, which dies there."""
    lives = places_of(program)
    early, late = sorted((one, other), key=lambda slot: lives[slot])
    ins = program.instructions[lives[late][0]]
    return (
        early in ins.inputs
        and all(written_over(ins, k) for k, x in enumerate(ins.inputs) if x == early)
        and lives[early][1] == lives[late][0]
        and program.slots[early].spec == program.slots[late].spec
        and not any(early in seen_in(program)[x] for x in ins.inputs if x != early)
    )


def assert_laid_out(program: Program, plan: MemoryPlan) -> None:
    lives = places_of(program)
    assert set(plan.locations) == set(lives)
    for slot, (pool, offset) in plan.locations.items():
        assert offset % ALIGNMENT == 0
        assert offset + program.slots[slot].nbytes <= plan.pools[pool]
        assert min(plan.pools) == 1
    for one, other in combinations(lives, 2):
        both = max(lives[one][0], lives[other][0]) <= min(lives[one][1], lives[other][1])
        (pool, a), (other_pool, b) = plan.locations[one], plan.locations[other]
        apart = (
            pool != other_pool
            or 0 in (program.slots[one].nbytes, program.slots[other].nbytes)
            or a + program.slots[one].nbytes <= b
            or b + program.slots[other].nbytes <= a
        )
        assert apart or not both or may_share(program, one, other), (one, other)


@pytest.mark.parametrize("seeds", [range(k * 60, k * 60 + 60) for k in range(5)], ids=str)
@pytest.mark.parametrize("sorted_below", [0, memory.SORTED_BELOW], ids=["in order", "sorted"])
def test_random_programs(sorted_below: int, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SORTED_BELOW", sorted_below)
    for seed in seeds:
        for program in (random_program(seed), optimise(random_program(seed))):
            for policy in POLICIES:
                plan = memory_of(program, policy)
                try:
                    assert_laid_out(program, plan)
                    assert plan.live_bytes <= plan.nbytes
                except AssertionError as error:
                    error.add_note(f"random_program({seed}):\n{program}\n{plan.text(program)}")
                    raise


def chain(count: int = 12) -> Program:
    """Matrices of three sizes, one after another, with elementwise ops between them."""
    b = Builder()
    x = b.input("float64", (8, 16))
    others = [b.input("float64", shape) for shape in ((16, 8), (8, 32), (32, 16))]
    for k in range(count):
        if k % 4 == 3:
            x = b("tanh", b("multiply", x, x))
            continue
        y = others[k % 4]
        x = b("dot_general", x, y, contracting=((1,), (0,)), batch=((), ()))
    kept = b("conj", x)
    return b.finish(b("transpose", b("add", kept, x), perm=(1, 0)))


def test_as_text() -> None:
    """Two plans of one program can be compared line by line, and are the same every time."""
    program = chain()
    text = "\n\n".join(memory_of(program, policy).text(program) for policy in POLICIES)
    assert text + "\n" == GOLDEN.read_text()
    again = "\n\n".join(memory_of(chain(), policy).text(chain()) for policy in POLICIES)
    assert again == text


def test_policies() -> None:
    """A pool for each node at its start, or one pool in which the dead make room."""
    program = chain()
    separate, packed = memory_of(program, "separate"), memory_of(program)
    places = set(separate.locations.values())
    assert {offset for _, offset in places} == {0}
    assert sorted(separate.pools) == list(range(1, len(places) + 1))
    assert set(packed.pools) == {1}
    assert packed.live_bytes <= packed.nbytes < separate.nbytes / 3


def test_in_place() -> None:
    """An elementwise op writes over an operand that dies, but not over one that a view still shows."""
    b = Builder()
    x = b.input("float64", (4, 4))
    one = b("exp", x)
    two = b("negate", one)
    turned = b("transpose", two, perm=(1, 0))
    three = b("add", two, turned)
    four = b("multiply", three, three)
    narrow = b("cast", four, dtype="float32")
    plan = memory_of(b.finish(b("reduce_sum", narrow, axes=(0, 1))))
    at = plan.locations
    assert at[one] == at[two]
    assert at[three] != at[two]
    assert at[three] == at[four]
    assert narrow in at
    assert turned not in at


def test_products_are_added_in_place(rng: np.random.Generator) -> None:
    """To what dies there, unless a factor lies in the same memory."""
    b = Builder()
    x, y = b.input("float64", (4, 4)), b.input("float64", (4, 4))
    axes = {"batch": ((), ()), "contracting": ((1,), (0,))}
    one = b("exp", x)
    two = b("dot_general_add", x, y, one, **axes, alpha=2)
    three = b("dot_general_add", two, y, two, **axes)
    four = b("dot_general_add", x, b("transpose", three, perm=(1, 0)), three, **axes)
    five = b("dot_general_add", four, four, b("negate", x), **axes, beta=3)
    six = b("negate", x)
    seven = b("dot_general_add", five, six, six, **axes, beta=-1)
    program = b.finish(b("reduce_sum", seven, axes=(0, 1)))
    at = memory_of(program).locations
    assert at[one] == at[two]
    assert at[three] != at[two]
    assert at[four] != at[three]
    assert at[seven] != at[six]
    executable = Executable(program, cpu())
    assert executable.schedule.has_arena
    p, q = (rng.integers(-2, 3, (4, 4)).astype(float) for _ in range(2))
    want = 2 * p @ q + np.exp(p)
    want = want @ q + want
    want = p @ want.T + want
    want = want @ want - 3 * p
    want = want @ -p + p
    for _ in range(2):
        np.testing.assert_allclose(executable(p, q), want.sum(), rtol=1e-10)


def test_sizes_that_the_data_decide() -> None:
    """A view that they cut is cut anew at every call, and lies in no pool."""
    b = Builder()
    x, y = b.input("float64", (6,)), b.input("int64", (3,))
    long, count = b("exp", x), b("reduce_max", y, axes=(0,), initial=None)
    short = b("dynamic_truncate", long, count, axis=0)
    padded = b("pad_to_match", short, x, axis=0)
    program = b.finish(b("reduce_sum", padded, axes=(0,)))
    assert set(memory_of(program).locations) == {long, count, padded}
    executable = Executable(program, cpu())
    for n in (2, 6, 0, 4):
        got = executable(np.zeros(6), np.array([n, 0, -1]))
        assert got == n


def test_no_intermediates() -> None:
    b = Builder()
    x = b.input("float64", (3,))
    program = b.finish(b("exp", x), b("transpose", x, perm=(0,)))
    plan = memory_of(program)
    assert (dict(plan.locations), dict(plan.pools), plan.nbytes, plan.live_bytes) == ({}, {}, 0, 0)
    assert not schedule(program, cpu()).has_arena


def test_many_nodes() -> None:
    """Beyond some thousands they are laid out in the order of the program."""
    program = chain(5000)
    plan = memory_of(program)
    assert plan.nbytes <= 1.2 * plan.live_bytes


@pytest.mark.parametrize("file", sorted(INSTANCES.glob("*.json")), ids=lambda file: file.stem)
def test_published_problems(file: Path) -> None:
    """What is laid out takes at most a tenth more than what is alive at the worst moment."""
    problem = read_problem(file)
    for path in ("opt_size", "opt_flops"):
        program = einloom.plan(
            problem.equation, *problem.shapes, planner=problem.paths[path]
        ).program
        plan = memory_of(program)
        assert plan.nbytes <= 1.1 * plan.live_bytes


# ---- arenas ------------------------------------------------------------------------------------


def test_results_are_not_in_the_arena(rng: np.random.Generator) -> None:
    """A later call leaves them as they are."""
    executable = Executable(chain(), cpu())
    assert executable.schedule.has_arena
    arrays = [rng.standard_normal(x.shape) for x in chain().specs(chain().inputs)]
    first = executable(*arrays)
    kept = first.copy()
    (arena,) = executable._arenas
    assert not any(np.shares_memory(first, x) for x in arena)
    executable(*(2 * x for x in arrays))
    np.testing.assert_array_equal(first, kept)
    assert executable._arenas == [arena]


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_what_is_dropped_is_freed_at_once(calls: int) -> None:
    """Previously failed: executables and their arenas waited for the garbage collector."""
    executable = Executable(chain(), cpu(), at_once=False)
    arrays = [np.ones(x.shape) for x in chain().specs(chain().inputs)]
    for _ in range(calls):
        executable(*arrays)
    executable.interpret(*arrays)
    executable.profile(*arrays)
    found: list[Any] = [ref(executable), *(ref(x) for one in executable._arenas for x in one)]
    assert (len(found) > 1) == (calls > 1)
    gc.disable()
    try:
        del executable
        assert [one() for one in found] == [None] * len(found)
    finally:
        gc.enable()


def test_random_programs_twice() -> None:
    """The second call, in the arena of the first, gives the same."""
    for seed in range(150):
        program = random_program(seed)
        executable = Executable(program, cpu())
        arrays, others = random_arrays(program, seed), random_arrays(program, seed + 1)
        indices = random_indices(program, seed)
        want = by_laws(program, arrays, indices)
        first = as_tuple(executable(*arrays, indices=indices))
        executable(*others, indices=random_indices(program, seed + 1))
        assert_same(first, want)
        assert_same(executable(*arrays, indices=indices), want)


def test_an_arena_for_every_caller(rng: np.random.Generator) -> None:
    """Eight at once have eight; IDLE of them are kept."""
    together = threading.Barrier(8)
    inside: list[int] = []

    class Backend(type(cpu())):  # type: ignore[misc]
        def bind(self, op: str, *spec: Any) -> Any:
            kernel = super().bind(op, *spec)
            if op != "tanh":
                return kernel

            def run(x: Any, out: Any = None) -> Any:
                together.wait(60)
                inside.append(x.__array_interface__["data"][0])
                return kernel(x, out=out)

            return run

    executable = Executable(chain(4), Backend())
    arrays = [rng.standard_normal(x.shape) for x in chain(4).specs(chain(4).inputs)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda k: executable(*arrays), range(8)))
    assert all(np.array_equal(result, results[0]) for result in results)
    assert len(set(inside)) == 8
    assert len(executable._arenas) == IDLE


@pytest.mark.parametrize("table", [False, True], ids=["generated", "table"])
def test_a_kernel_that_fails(
    table: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Any of them, once: the error reaches the caller, and the next call is right."""
    if table:
        monkeypatch.setattr(module, "TABLE_FROM", 0)
    program = chain(8)
    broken: list[int] = []

    class Backend(type(cpu())):  # type: ignore[misc]
        count = 0

        def bind(self, op: str, *spec: Any) -> Any:
            kernel = super().bind(op, *spec)
            number = Backend.count
            Backend.count += 1

            def run(*arrays: Any, **out: Any) -> Any:
                if number in broken:
                    raise FloatingPointError(f"kernel {number}")
                return kernel(*arrays, **out)

            return run

    executable = Executable(program, Backend())
    arrays = [rng.standard_normal(x.shape) for x in program.specs(program.inputs)]
    want = executable(*arrays)
    for number in range(len(program.instructions)):
        broken[:] = [number]
        if executable.program.instructions[number].is_view and not table:
            continue  # it ran when the arena was made
        with pytest.raises(FloatingPointError, match=f"kernel {number}"):
            executable(*arrays)
        broken.clear()
        np.testing.assert_array_equal(executable(*arrays), want)
        assert len(executable._arenas) == (0 if table else 1)
