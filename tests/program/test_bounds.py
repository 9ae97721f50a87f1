"""Sizes that the data decide: cut, looked at, filled up again; nothing else reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einloom._base.errors import ExtensionError, ProgramError, ShapeError
from einloom.backend.cpu import cpu
from einloom.program.bounds import with_bounds
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.serial import program_from_json, program_to_json
from einloom.program.verify import verify


def cut_and_filled() -> Program:
    """The first columns of x, turned; their number; and the columns with zeros behind them."""
    b = Builder()
    x, size = b.input("float64", (2, 5)), b.input("int64", ())
    cut = b("dynamic_truncate", x, size, axis=1)
    turned = b("transpose", b("reverse", b("identity", cut), axes=(0,)), perm=(1, 0))
    taller = b("expand_dims", turned, axes=(0,))
    filled = b("pad_to_match", cut, x, axis=1)
    total = b("reduce_sum", filled, axes=(0, 1))
    return b.finish(taller, b("shape_of", cut, axis=1), filled, total)


def test_listing() -> None:
    assert str(cut_and_filled()) == (
        "program(%0: float64[2,5], %1: int64[])\n"
        "  %2 = dynamic_truncate(%0, %1) [axis=1]  # float64[2,<=5], view\n"
        "  %3 = identity(%2)  # float64[2,<=5], view\n"
        "  %4 = reverse(%3) [axes=(0,)]  # float64[2,<=5], view\n"
        "  %5 = transpose(%4) [perm=(1,0)]  # float64[<=5,2], view\n"
        "  %6 = expand_dims(%5) [axes=(0,)]  # float64[1,<=5,2], view\n"
        "  %7 = pad_to_match(%2, %0) [axis=1]  # float64[2,5], 80 B\n"
        "  %8 = reduce_sum(%7) [axes=(0,1)]  # float64[], 8 B\n"
        "  %9 = shape_of(%2) [axis=1]  # int64[], 8 B\n"
        "  return %6, %9, %7, %8"
    )


@pytest.mark.parametrize(("size", "kept"), [(0, 0), (2, 2), (5, 5), (9, 5), (-3, 0)])
def test_run(size: int, kept: int) -> None:
    """The size is clamped; as it is, after every pass, and read from a file."""
    program = cut_and_filled()
    x = np.arange(1.0, 11).reshape(2, 5)
    for one in (program, optimise(program), program_from_json(program_to_json(program))):
        turned, n, filled, total = Executable(one, cpu())(x, np.array(size))
        np.testing.assert_array_equal(turned, x[::-1, :kept].T[None])
        assert n == kept
        np.testing.assert_array_equal(filled, np.where(np.arange(5) < kept, x, 0))
        assert total == x[:, :kept].sum()


def test_memory_is_planned_for_the_bound() -> None:
    executable = Executable(cut_and_filled(), cpu())
    assert 2 * 5 * 8 * 2 <= executable.peak_bytes < 1000


def test_the_longer_decides() -> None:
    """The result of pad_to_match has a known size where no bound exceeds an exact one."""
    b = Builder()
    x, y, size = b.input("f8", (4,)), b.input("f8", (2,)), b.input("i8", ())
    cut, short = (b("dynamic_truncate", operand, size, axis=0) for operand in (x, y))
    pairs = {(cut, x): (), (x, cut): (), (cut, y): (0,), (x, short): (), (short, x): (),
             (short, cut): (0,), (cut, short): (0,), (y, cut): (0,), (x, y): ()}  # fmt: skip
    slots = {pair: b("pad_to_match", *pair, axis=0) for pair in pairs}
    program = verify(b.finish(*slots.values()))
    assert {pair: program.slots[slot].bounds for pair, slot in slots.items()} == pairs
    results = Executable(program, cpu())(np.ones(4), np.ones(2), np.array(1))
    lengths = [4, 4, 2, 4, 4, 1, 1, 2, 4]
    assert [len(one) for one in results] == lengths


def test_templates() -> None:
    b = Builder()
    x, size = b.input("f8", ("n", 2)), b.input("i8", ())
    cut = b("dynamic_truncate", x, size, axis=0)
    template = b.template(b("negate", b("pad_to_match", cut, x, axis=0)), cut)
    assert "float64[<=n,2]" in str(template)
    filled, kept = Executable(template.bind([(3, 2), ()]), cpu())(np.ones((3, 2)), np.array(1))
    np.testing.assert_array_equal(filled, [[-1, -1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(kept, [[1, 1]])


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("negate", {}),
        ("copy", {}),
        ("reduce_sum", {"axes": (0,)}),
        ("reshape", {"shape": (4, 1)}),
        ("slice", {"starts": (0,), "stops": (2,), "steps": (1,)}),
        ("concatenate", {"axis": 0}),
    ],
)
def test_others_refuse(op: str, attrs: dict[str, Any]) -> None:
    b = Builder()
    cut = b("dynamic_truncate", b.input("f8", (4,)), b.input("i8", ()), axis=0)
    with pytest.raises(
        ProgramError, match=rf"{op} takes no operand of a size that the data decide"
    ):
        b(op, cut, **attrs)
    with pytest.raises((ProgramError, ExtensionError)):
        b.extension("nowhere.op.v1", cut)


def test_out_of_another_size() -> None:
    """A result whose size the data decide is not written into an array of the bound."""
    b = Builder()
    x, y, size = b.input("f8", (5,)), b.input("f8", (3,)), b.input("i8", ())
    filled = b("pad_to_match", b("dynamic_truncate", x, size, axis=0), y, axis=0)
    executable = Executable(b.finish(filled), cpu())
    with pytest.raises(ShapeError, match=r"out has shape \(5,\), the result \(3,\)"):
        executable(np.ones(5), np.ones(3), np.array(1), out=np.ones(5))


def test_with_bounds() -> None:
    """Declares what a program of an earlier version leaves out."""
    program = cut_and_filled()
    bare = Program(
        tuple(type(slot)(slot.spec) for slot in program.slots),
        program.instructions,
        program.inputs,
        program.outputs,
    )
    with pytest.raises(ProgramError, match="declared as bounds"):
        verify(bare)
    assert with_bounds(bare) == program
