"""What running a program costs beside its kernels alone, what fusion gains, how long building takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import einloom
from einloom.backend.cpu import cpu
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import Program

from ..harness import CaseResult, measure
from ..machine import Contender

TINY, TENSORS = 400, 1000  # instructions; tensors of the network that is built
SIDES = 1000, 3000  # of the square arrays that elementwise ops work on
QUICK_TINY, QUICK_TENSORS, QUICK_SIDES = 20, 30, (20,)
INNER = 16  # the products beside them are thin


def program(quick: bool) -> Iterator[CaseResult]:
    """A call beside its bare kernels with all arrays and views ready, and the interpreter's."""
    rng = np.random.default_rng(5)
    arrays = [rng.random((8, 8)) / 8 for _ in range(2)]
    tiny = _tiny(QUICK_TINY if quick else TINY)
    one = _negation()
    for name, made in ((f"{len(tiny.instructions)} tiny instructions", tiny), ("one", one)):
        inputs = arrays[: len(made.inputs)]
        result = measure(
            name,
            _contenders(made, inputs),
            rounds=41,
            baselines=("bare kernels", "interpreter"),
            quick=quick,
        )
        count, seconds = len(made.instructions), result.seconds
        extra = (seconds["einloom"] - seconds["bare kernels"]) / count
        result.facts = {"instructions": count, "microseconds_more_per_instruction": 1e6 * extra}
        yield result
    for side in QUICK_SIDES if quick else SIDES:
        yield _chain(side, quick)
    yield _building(QUICK_TENSORS if quick else TENSORS, quick)


def _tiny(count: int) -> Program:
    """Products, transpositions, elementwise ops by turns, of matrices of 8 by 8."""
    b = Builder()
    x, y = b.input("float64", (8, 8)), b.input("float64", (8, 8))
    steps: list[Callable[[int], int]] = [
        lambda x: b("dot_general", x, y, contracting=((1,), (0,)), batch=((), ())),
        lambda x: b("transpose", x, perm=(1, 0)),
        lambda x: b("multiply", x, y),
        lambda x: b("negate", x),
    ]
    for k in range(count - 1):
        x = steps[k % 4](x)
    return b.finish(b("copy", x))


def _negation() -> Program:
    b = Builder()
    return b.finish(b("negate", b.input("float64", (8, 8))))


def _contenders(made: Program, arrays: list[Any]) -> dict[str, Contender]:
    executable = Executable(made, cpu())
    bare = _bare(executable, arrays)
    return {
        "bare kernels": lambda: bare(),
        "einloom": lambda: executable.run(*arrays),
        "interpreter": lambda: executable.interpret(*arrays),
    }


def _bare(executable: Executable, arrays: list[Any]) -> Contender:
    """One function that calls the kernels on arrays that are there, and does nothing else."""
    made = executable.program
    values: dict[int, Any] = dict(zip(made.inputs, arrays, strict=True))
    names: dict[str, Any] = {}
    lines = ["def bare():"]
    for index, (ins, step) in enumerate(zip(made.instructions, executable.steps, strict=True)):
        (out,) = ins.outputs
        values[out] = step.kernel(*(values[slot] for slot in ins.inputs))
        if not ins.is_view:
            names[f"k{index}"] = step.kernel
            operands = ", ".join(f"x{slot}" for slot in ins.inputs)
            is_result = out in made.outputs
            lines.append(f"    k{index}({operands}{'' if is_result else f', out=x{out}'})")
    lines.append(f"    return x{made.outputs[0]}")
    names |= {f"x{slot}": value for slot, value in values.items()}
    text = "\n".join(lines)
    # arguments of a function around it: looked up as fast as the locals of a generated program
    inner = "\n".join(f"    {line}" for line in text.splitlines())
    scope: dict[str, Any] = {}
    exec(f"def around({', '.join(names)}):\n{inner}\n    return bare\n", scope)
    found: Contender = scope["around"](**names)
    return found


def _chain(side: int, quick: bool) -> CaseResult:
    """Five elementwise ops between two products: as one kernel, and one by one."""
    b = Builder()
    x, y = b.input("float64", (side, INNER)), b.input("float64", (INNER, side))
    row = b("broadcast_in_dim", b.input("float64", (side,)), shape=(side, side), axes=(1,))
    product = {"contracting": ((1,), (0,)), "batch": ((), ())}
    h = b("add", b("dot_general", x, y, **product), row)
    h = b("maximum", b("multiply", h, h), b("negate", b("absolute", h)))
    made = b.finish(b("dot_general", h, x, **product))
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(spec.shape) for spec in made.specs(made.inputs)]
    with einloom.options(small=min(einloom.get_options().small, side * side)):
        fused, plain = Executable(made, cpu()), Executable(made, cpu(), fuse=False)
    facts = {
        "elements": side * side,
        "instructions": len(fused.steps),
        "peak_bytes": fused.peak_bytes,
        "peak_bytes_one_by_one": plain.peak_bytes,
    }
    return measure(
        f"chain of 5 on {side} by {side}",
        {"one by one": lambda: plain(*arrays), "einloom": lambda: fused(*arrays)},
        rounds=21,
        baselines=("one by one",),
        quick=quick,
        facts=facts,
    )


def _building(tensors: int, quick: bool) -> CaseResult:
    """A chain of so many matrices: plan given, from the tree to an executable that can be called."""
    rng = np.random.default_rng(6)
    sizes = [int(n) for n in rng.integers(2, 9, tensors + 1)]
    terms = [(k, k + 1) for k in range(tensors)]
    shapes = [(sizes[k], sizes[k + 1]) for k in range(tensors)]
    operands = [item for shape, term in zip(shapes, terms, strict=True) for item in (shape, term)]
    plan = einloom.plan(*operands, (0, tensors), planner=[(0, 1)] * (tensors - 1))

    def build() -> Any:
        executable = Executable(einloom.Plan.from_json(document).program, cpu())
        return np.array(len(executable.steps))

    document = plan.to_json()
    return measure(
        "building", {"einloom": build}, rounds=7, quick=quick, facts={"tensors": tensors}
    )
