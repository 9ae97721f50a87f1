"""A program as a module of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..._base.errors import ProgramError, Unsupported
from ...backend.spec import ArraySpec
from ...program.ir import At, Instruction, Program
from . import contraction, elementwise, indexing, moving, reducing
from .text import INDEX, Rule, Specs, Text, Value, Values, returned, tensor

RULES: Mapping[str, Rule] = MappingProxyType(
    elementwise.RULES | moving.RULES | reducing.RULES | indexing.RULES | contraction.RULES
)
"""What writes each op; the others have no counterpart in StableHLO."""


def stablehlo(program: Program) -> str:
    """The program as text of StableHLO: a module whose function `main` takes the inputs in order, after
    them its static indices as int64 scalars, and returns the outputs.

    The program is read and not changed; nothing is run, and no runtime is loaded. Each result is that of
    the catalogue, but for what a compiled function cannot do: where an op raises for an index or a
    matrix, reads are clamped, writes dropped, and a factor is NaN. Sums of single precision are
    accumulated as the compiler sees fit.

    Args:
        program: a frozen program, such as `einloom.compile(...).program` or `template.bind(...)`.

    Returns:
        Text in MLIR's generic form, which StableHLO's tools and the runtimes of XLA read.

    Raises:
        ProgramError: this is no program with integer sizes.
        Unsupported: an op, a dtype or a size that is known later only has no counterpart; the message
            names it, and what to do.

    Complexity:
        one walk over the instructions; no more than a constant number of lines for each, but for scans
        (log n) and windows (the size of the kernel).

    Source: https://github.com/openxla/stablehlo/blob/main/docs/spec.md

    >>> import einloom
    >>> print(stablehlo(einloom.trace(lambda x: x + x, "float64[2]").bind([(2,)])))
    module @einloom {
      func.func public @main(%arg0: tensor<2xf64>) -> (tensor<2xf64>) {
        %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
        "func.return"(%0) : (tensor<2xf64>) -> ()
      }
    }
    """
    if not isinstance(program, Program):
        raise ProgramError(
            f"stablehlo: got a {type(program).__name__}, it takes a Program; an expression has one as "
            f".program, a template makes one by .bind(shapes)"
        )
    inputs = [Value(f"%arg{k}", spec) for k, spec in enumerate(program.specs(program.inputs))]
    first = len(inputs)
    indices = tuple(
        Value(f"%arg{first + k}", ArraySpec(INDEX, ())) for k in range(len(program.indices))
    )
    text, values = Text(), dict(zip(program.inputs, inputs, strict=True))
    for number, ins in enumerate(program.instructions):
        if any(program.slots[slot].bounds for slot in ins.outputs):
            raise Unsupported(
                f"stablehlo: instruction {number} ({ins.op}) has a size that is known when it runs; "
                f"leave it out of the program, or export what stands before it"
            )
        operands = tuple(values[slot] for slot in ins.inputs)
        made = _written(text, ins, operands, program.specs(ins.outputs), indices)
        values |= dict(zip(ins.outputs, made, strict=True))
    results = [values[slot] for slot in program.outputs]
    return _module([*inputs, *indices], text.lines, results)


def _written(
    text: Text, ins: Instruction, operands: Values, specs: Specs, indices: Values
) -> Values:
    """The results of one instruction; what is empty everywhere needs no op."""
    family = ins.family
    rule = RULES.get(ins.op) if family is None else contraction.FAMILIES.get(family)
    if rule is None or _is_left_out(ins, operands):
        dtypes = ", ".join(str(x.spec) for x in operands)
        raise Unsupported(
            f"stablehlo: {ins.op}({dtypes}) has no counterpart in StableHLO; run this op by einloom, "
            f"export the programs before and after it"
        )
    if all(0 in spec.shape for spec in specs):
        return tuple(text.full(0, spec.dtype, spec.shape) for spec in specs)
    given = [value for _, value in ins.attributes if isinstance(value, At)]
    made = rule(text, ins.attrs, (*operands, *(indices[at.index] for at in given)), specs)
    return made if isinstance(made, tuple) else (made,)


def _is_left_out(ins: Instruction, operands: Values) -> bool:
    """Complex functions with cuts, and matrices whose failures are answered in numbers."""
    if ins.family is not None:
        return len(ins.outputs) > 1
    return ins.op in elementwise.COMPOSED and operands[0].dtype.kind == "c"


def _module(parameters: list[Value], lines: list[str], results: list[Value]) -> str:
    takes = ", ".join(f"{x.name}: {tensor(x.spec)}" for x in parameters)
    gives = ", ".join(tensor(x.spec) for x in results)
    body = [*lines, returned("func", results)]
    return "\n".join(
        [
            "module @einloom {",
            f"  func.func public @main({takes}) -> ({gives}) {{",
            *(f"    {line}" for line in body),
            "  }",
            "}",
        ]
    )
