"""A contraction whose slices two devices share out: `python examples/two_devices.py`.

The label k is summed in slices. The program of one slice is linked once on each device, where the operands
are uploaded once; each device adds up its half of the slices. Then the second one's sum goes to the merge
buffer of the first, which adds it to its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import einloom
from einloom import Code, Context, Node

EQUATION = "ijk,jlk,lmk->im"
SUMMED = 2  # the label k, by its number


def slice_code(arrays: list[Any]) -> Code:
    """sum += one slice of the contraction."""
    plan = replace(einloom.plan(EQUATION, *arrays), sliced=(SUMMED,))
    program = einloom.compile(plan).program
    operands = [Node(f"operand {k}", x.shape, x.dtype) for k, x in enumerate(arrays)]
    spec = program.slots[program.outputs[0]].spec
    total = Node("sum", spec.shape, spec.dtype)
    return Code(program, operands, [total], accumulate=True, name="slice")


def distributed(arrays: list[Any], devices: tuple[str, ...] = ("cpu:0", "cpu:1")) -> Any:
    """The contraction, each device with its share of the slices."""
    code = slice_code(arrays)
    *operands, total = code.inputs
    (index,) = code.program.indices
    bounds = [index.size * part // len(devices) for part in range(len(devices) + 1)]
    contexts = []
    for part, name in enumerate(devices):
        held = Context(name).put(dict(zip(operands, arrays, strict=True))).zeros(total)
        routine = held.link(code)
        routine.submit({index.name: range(bounds[part], bounds[part + 1])})
        contexts.append(routine.context)
    add = Code(lambda x: x, [total.merged], [total], accumulate=True, name="add")
    here, *others = contexts
    for there in others:
        bring = einloom.device_to_device(total, here, there, into="merge")
        assert bring is not None
        bring.submit()  # waits for the other device
        routine = bring.context.link(add)
        routine.submit()
        here = routine.context
    return here.get(total)


def error() -> float:
    """How far the distributed sum is from that of one call, relative to its largest element."""
    rng = np.random.default_rng(4)
    shapes = ((60, 50, 40), (50, 30, 40), (30, 70, 40))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    want = einloom.einsum(EQUATION, *arrays)
    return float(abs(distributed(arrays) - want).max() / abs(want).max())


if __name__ == "__main__":
    print(f"two devices and one agree to {error():.1e}")
