"""How many bytes matrix products copy, with the layouts of the program and without."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import einloom
from einloom.backend.catalogue import dot_dims
from einloom.backend.cpu import cpu, matrices
from einloom.contract.problem_file import read_problem
from einloom.program.executable import Executable
from einloom.program.ir import Program

from ..harness import CaseResult, measure
from .einsum import INSTANCES, SMALL


def layouts(quick: bool) -> Iterator[CaseResult]:
    """Bytes copied on the einsum problems by their opt_flops path, beside what products in canonical
    order copy; and seconds beside a program whose slots are all row-major."""
    for file in sorted(INSTANCES.glob("*.json")):
        if quick and file.stem not in SMALL:
            continue
        problem = read_problem(file)
        arrays = [np.ascontiguousarray(x) for x in problem.arrays(0)]
        program = einloom.plan(
            problem.equation, *arrays, planner=problem.paths["opt_flops"]
        ).program
        ours, plain = (Executable(made, cpu()) for made in (program, row_major(program)))
        with copied_bytes() as counted:
            ours(*arrays)
        copied, canonical = sum(counted), canonical_bytes(program)
        yield measure(
            problem.name,
            {"einloom": partial(ours, *arrays), "row-major": partial(plain, *arrays)},
            rounds=5,
            baselines=("row-major",),
            quick=quick,
            facts={
                "copied_bytes": copied,
                "canonical_bytes": canonical,
                "copied_over_canonical": copied / canonical if canonical else None,
                "peak_bytes": ours.peak_bytes,
                "row_major_peak_bytes": plain.peak_bytes,
            },
        )


def row_major(program: Program) -> Program:
    """The same program without layouts."""
    return replace(program, slots=tuple(replace(slot, layout=None) for slot in program.slots))


def canonical_bytes(program: Program) -> int:
    """Bytes of the operands of dot_general that are not [batch, rows, contracted] and [batch, contracted,
    columns] when every slot is row-major, and that a product of matrices in this order has to copy."""
    total = 0
    for ins in program.instructions:
        if ins.op != "dot_general":
            continue
        lhs, rhs = program.specs(ins.inputs)
        dims = dot_dims(ins.attrs, lhs.shape, rhs.shape)
        for spec, order in (
            (lhs, dims.lhs_batch + dims.lhs_free + dims.lhs_contracting),
            (rhs, dims.rhs_batch + dims.rhs_contracting + dims.rhs_free),
        ):
            long = [axis for axis in order if spec.shape[axis] > 1]
            if long != sorted(long):
                total += spec.nbytes
    return total


@contextmanager
def copied_bytes() -> Iterator[list[int]]:
    """The sizes of all arrays that matrix products copy meanwhile."""
    counted: list[int] = []
    pack, move = matrices.packed, matrices.move

    def packing(x: Any, shape: Any) -> Any:
        made = pack(x, shape)
        if not np.may_share_memory(made, x):
            counted.append(math.prod(shape) * x.itemsize)
        return made

    def moving(dst: Any, src: Any) -> Any:
        counted.append(src.nbytes)
        return move(dst, src)

    with mock.patch.multiple(matrices, packed=packing, move=moving):
        yield counted
