"""A batch in shares, each of which one thread does everything for: results, memory, what is not shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from benchmarks.memory import SLACK, peak_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import einloom
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.program import branches as module
from einloom.program import schedule as scheduling
from einloom.program import shares
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import Program

SAMPLES: dict[str, Any] = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}


@pytest.fixture(scope="module", autouse=True)
def always() -> Iterator[None]:
    """Whatever can be shared is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST", 0.0), ("GAIN", 1e6), ("START", 0.0), ("EVEN", 1e6)):
            patch.setattr(module, name, value)
        patch.setattr(shares, "FEWEST", 1)
        patch.setattr(scheduling, "HIGHER", 100.0)
        yield


def shared(program: Program, threads: int = 2, **how: Any) -> Executable:
    with options(threads=threads):
        return Executable(program, cpu(), **how)


def batch_of(n: int, size: int = 6) -> Program:
    """Three products for each sample, of which one operand is for all of them, and a square."""
    build = Builder()
    x = build.input("f8", (n, size, size))
    y = build.input("f8", (size, n, size))  # samples in the middle
    z, w = (build.input("f8", (size, size)) for _ in range(2))
    both = build("dot_general", z, w, contracting=((1,), (0,)), batch=((), ()))
    xy = build("dot_general", x, y, contracting=((2,), (0,)), batch=((0,), (1,)))
    each = build("dot_general", xy, both, contracting=((2,), (0,)), batch=((), ()))
    turned = build("transpose", each, perm=(1, 0, 2))
    total = build("dot_general", turned, x, contracting=((0, 2), (1, 2)), batch=((1,), (0,)))
    return build.finish(
        build("dot_general", total, total, contracting=((), ()), batch=((0,), (0,)))
    )


def arrays_of(program: Program, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-2, 3, program.slots[slot].shape).astype(float) for slot in program.inputs]


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("n", [5, 7, 64])
def test_every_sample_once(n: int, threads: int) -> None:
    program = batch_of(n)
    executable = shared(program, threads)
    assert executable.in_shares
    assert len(executable.parts) == threads
    # what has no samples is made once
    assert sum(ins.op == "dot_general" for ins in executable.schedule.program.instructions) == 1
    arrays = arrays_of(program)
    want = executable.interpret(*arrays)
    for _ in range(3):
        np.testing.assert_array_equal(executable(*arrays), want)
    out = np.full((2 * n,), np.nan)[::2]
    assert executable(*arrays, out=out) is out
    np.testing.assert_array_equal(out, want)
    seconds: list[float] = []
    np.testing.assert_array_equal(executable.profile(*arrays, seconds=seconds), want)
    assert len(seconds) == len(program.instructions)


def test_whole_in_one_place_and_shared_in_another() -> None:
    """x[a] . x[b] for all pairs of samples: a share of it needs all of x."""
    build = Builder()
    x = build.input("f8", (40, 9))
    gram = build("dot_general", x, x, contracting=((1,), (1,)), batch=((), ()))
    squares = build("dot_general", gram, gram, contracting=((), ()), batch=((0, 1), (0, 1)))
    program = build.finish(build("transpose", squares, perm=(1, 0)))
    executable = shared(program)
    assert not executable.in_shares
    (array,) = arrays_of(program)
    np.testing.assert_array_equal(executable(array), (array @ array.T) ** 2)


def test_an_op_that_is_not_known_to_keep_the_axis() -> None:
    build = Builder()
    x, y = (build.input("f8", (40, 4, 4)) for _ in range(2))
    turned = build("reverse", build("dot_general", x, y, **SAMPLES), axes=(0,))
    program = build.finish(build("dot_general", turned, x, **SAMPLES))
    assert not shared(program).in_shares


def test_transposes_after_what_is_shared() -> None:
    build = Builder()
    x, y = (build.input("f8", (40, 3, 3)) for _ in range(2))
    product = build("dot_general", build("dot_general", x, y, **SAMPLES), x, **SAMPLES)
    program = build.finish(build("transpose", product, perm=(2, 0, 1)))
    executable = shared(program)
    assert executable.in_shares
    a, b = arrays_of(program)
    np.testing.assert_array_equal(executable(a, b), (a @ b @ a).transpose(2, 0, 1))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_networks_of_samples(data: st.DataObject) -> None:
    """Trees of matrices with and without samples, which stand at any axis, and dtypes that mix."""
    count = data.draw(st.integers(3, 6))
    n, size = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 3))
    terms, dtypes = [], []
    for k in range(count):
        axes = ["abcdefgh"[k], "abcdefgh"[k + 1]]
        if k == 0 or data.draw(st.booleans()):
            axes.insert(data.draw(st.integers(0, 2)), "z")
        terms.append("".join(axes))
        dtypes.append(data.draw(st.sampled_from(["f8", "c16", "i8"])))
    out = data.draw(st.permutations(["a", "abcdefgh"[count], "z"]))
    equation = f"{','.join(terms)}->{''.join(out)}"
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = [
        rng.integers(-2, 3, [n if x == "z" else size for x in term]).astype(dtype)
        for term, dtype in zip(terms, dtypes, strict=True)
    ]
    with options(threads=data.draw(st.sampled_from([2, 3]))):
        got = einloom.compile(equation, *arrays)(*arrays)
    np.testing.assert_array_equal(got, np.einsum(equation, *arrays))


def measured_peak(executable: Executable) -> int:
    """Most bytes in use during a call in shares."""
    assert executable.in_shares
    arrays = arrays_of(executable.program)
    with options(threads=2):
        executable(*arrays)
        return peak_bytes(lambda: executable(*arrays), arrays)


def test_peak_is_an_upper_bound_and_hardly_above_that_of_one_program() -> None:
    program = batch_of(2000, 24)
    executable, alone = shared(program), shared(program, 1)
    assert measured_peak(executable) <= executable.peak_bytes + SLACK
    assert executable.peak_bytes <= alone.peak_bytes * 1.1 + SLACK


def test_explain_says_so() -> None:
    shape = (300, 8, 8)
    with options(threads=2):
        expression = einloom.compile("zab,zbc,zcd,zda->z", *[shape] * 4)
        text = expression.explain()
    assert "side by side" in text
    assert "each for its share of an axis" in text
    assert expression.source.count("def run(") == 3


def test_another_axis_than_the_longest() -> None:
    """The longest is not carried by what takes most of the time."""
    shapes = ((300, 8), (200, 8, 60), (200, 60, 60), (200, 60, 2))
    arrays = [
        np.random.default_rng(k).integers(-2, 3, shape).astype(float)
        for k, shape in enumerate(shapes)
    ]
    with options(threads=2):
        expression = einloom.compile("xa,yab,ybc,ycd->xyd", *arrays)
        got = expression(*arrays)
    assert "share" in expression.explain()
    np.testing.assert_array_equal(got, np.einsum("xa,yab,ybc,ycd->xyd", *arrays, optimize=True))


def test_constants_and_what_is_given_away() -> None:
    shape, one = (300, 8, 8), (8, 8)
    x, y, z = (
        np.random.default_rng(k).integers(-2, 3, s).astype(float)
        for k, s in enumerate((shape, one, shape))
    )
    want = np.einsum("zab,bc,zcd,zde->zae", x, y, z, z, optimize=True)
    with options(threads=2):
        expression = einloom.compile("zab,bc,zcd,zde->zae", x, y, z, z, constants=[1])
        assert "share" in expression.explain()
        np.testing.assert_array_equal(expression(x, z, z), want)
        executable = shared(batch_of(64))
        arrays = arrays_of(executable.program)
        kept = executable(*arrays)
        given = [a.copy() for a in arrays]
        np.testing.assert_array_equal(executable(*given, donate=(0, 1)), kept)


def test_large_results_are_counted_twice_while_they_are_joined() -> None:
    build = Builder()
    x, y = build.input("f8", (2000, 30, 4)), build.input("f8", (2000, 4, 30))
    product = build("dot_general", x, y, **SAMPLES)
    again = build("dot_general", product, build.input("f8", (2000, 30, 30)), **SAMPLES)
    program = build.finish(build("dot_general", again, again, **SAMPLES))
    executable = shared(program)
    assert measured_peak(executable) <= executable.peak_bytes + SLACK
