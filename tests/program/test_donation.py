"""Operands that are given away: the same bits in less memory, and nothing still read is written to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.program.programs import (
    as_tuple,
    assert_same,
    random_arrays,
    random_indices,
    random_program,
)

import einloom
from einloom._base.errors import CallError, OptionError, Unsupported
from einloom.backend.cpu import cpu
from einloom.program.executable import Executable
from einloom.program.passes import optimise
from einloom.program.trace import trace

N = 300  # matrices of 720 KB: memory is lent


def compiled(function: Any) -> Executable:
    """Of two matrices."""
    shapes = [(N, N)] * 2
    return Executable(trace(function, *shapes).bind(shapes), cpu())


def matrices(count: int, n: int = N, seed: int = 5) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.random((n, n)) for _ in range(count)]


def lent_by(call: Any) -> int:
    """Bytes of memory that are lent to what a call returns."""
    before = cpu().buffer_info().lent_bytes
    kept = call()
    got = cpu().buffer_info().lent_bytes - before
    del kept
    return got


def test_a_chain_runs_in_the_memory_of_its_operands() -> None:
    """(A B) C: the result lies where A or B lay, and no memory is taken for it."""
    expr = einloom.compile("ij,jk,kl->il", (N, N), (N, N), (N, N))
    a, b, c = matrices(3)
    want = expr(a, b, c)
    assert lent_by(lambda: expr(a, b, c)) >= want.nbytes
    kept = c.copy()
    given = a.copy(), b.copy()
    assert lent_by(lambda: expr(*given, c, donate=(0, 1))) == 0
    given = a.copy(), b.copy()
    got = expr(*given, c, donate=(0, 1))
    assert any(np.shares_memory(got, x) for x in given)
    assert got.tobytes() == want.tobytes()
    np.testing.assert_array_equal(c, kept)


def test_the_memory_that_is_asked_for_is_less() -> None:
    """A call that fits with what it is given alone is not refused."""
    run = compiled(lambda a, b: (a @ b) @ b)
    size = N * N * 8
    assert run.schedule.certain_bytes == 2 * size
    assert run.donation((0,)).certain_bytes == size
    assert run.donation((0, 1)).certain_bytes == size  # b is read to the end


@pytest.mark.parametrize("order", ["C", "F"])
def test_elementwise_writes_over_its_operand(order: Any) -> None:
    run = compiled(lambda x, y: (x * y + x) * y)
    x, y = (np.asarray(one, order=order) for one in matrices(2))
    want, kept, given = run(x, y), y.copy(), x.copy(order="K")
    got = run(given, y, donate=(0,))
    assert np.shares_memory(got, given)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(y, kept)


def test_what_is_returned_or_shown_is_not_written_over() -> None:
    """The operand itself, or a view of it, is a result: its memory is never given to another."""
    x, y = matrices(2)
    run = compiled(lambda x, y: (x.T, (x @ y) * 2))
    want = [one.copy() for one in run(x, y)]
    for one, two in zip(run(x.copy(), y.copy(), donate=(0, 1)), want, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("group", range(8))
def test_random_programs(group: int) -> None:
    """The same results, whatever is given away; other operands stay as they are."""
    for seed in range(group * 25, group * 25 + 25):
        program = optimise(random_program(seed))
        arrays = [np.array(x, order="K") for x in random_arrays(program, seed)]
        indices = random_indices(program, seed)
        run = Executable(program, cpu(), fuse=bool(seed % 2))
        want = tuple(x.copy() for x in as_tuple(run(*arrays, indices=indices)))
        rng = np.random.default_rng(seed)
        donate = tuple(k for k in range(len(arrays)) if rng.random() < 0.7)
        given = [x.copy(order="K") for x in arrays]
        assert_same(run(*given, indices=indices, donate=donate), want)
        for k in set(range(len(arrays))) - set(donate):
            np.testing.assert_array_equal(given[k], arrays[k])
        if len(want) == 1:
            out = np.empty_like(want[0])
            given = [x.copy(order="K") for x in arrays]
            assert_same(run(*given, out=out, indices=indices, donate=donate), want)
            assert_same(out, want)


def test_alpha_beta_and_out() -> None:
    expr = einloom.compile("ij,jk,kl->il", (N, N), (N, N), (N, N))
    a, b, c = matrices(3)
    want = 2 * expr(a, b, c)
    np.testing.assert_array_equal(expr(a.copy(), b, c, alpha=2, donate=(0,)), want)
    out = np.ones((N, N))
    assert expr(a.copy(), b.copy(), c, out=out, alpha=2, beta=-1, donate=(0, 1)) is out
    np.testing.assert_allclose(out, want - 1, rtol=1e-12)


def test_by_another_thread() -> None:
    expr = einloom.compile("ij,jk,kl->il", (N, N), (N, N), (N, N))
    a, b, c = matrices(3)
    want = expr(a, b, c)
    got = expr.submit(a.copy(), b.copy(), c, donate=(0, 1), device="cpu:1").result()
    np.testing.assert_array_equal(got, want)


def test_refused() -> None:
    """Before anything is written: operands hold what they held."""
    expr = einloom.compile("ij,jk,kl->il", (4, 4), (4, 4), (4, 4))
    a, b, c = matrices(3, 4)
    locked = a.copy()
    locked.flags.writeable = False
    wide = np.zeros((4, 8))[:, ::2]
    both = np.ones((4, 4))
    bad: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("operand 0 is read-only", (locked, b, c), {"donate": (0,)}),
        ("operand 1 has gaps", (a, wide, c), {"donate": (1,)}),
        ("operand 0 has gaps", (np.broadcast_to(1.0, (4, 4)).copy()[::-1], b, c), {"donate": (0,)}),
        ("operand 0 shares memory with operand 2", (both, b, both), {"donate": (0,)}),
        ("operand 1 shares memory with operand 0", (both.T, both, c), {"donate": (1,)}),
        ("operand 1 shares memory with out", (a, both, c), {"donate": (1,), "out": both}),
    ]
    for text, arrays, keywords in bad:
        before = [x.copy() for x in arrays]
        with pytest.raises(CallError, match=rf"^expression\(donate=\.\.\.\): {text}"):
            expr(*arrays, **keywords)
        for x, y in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(x, y)
    for donate in (3, (3,), (-1,), (0.5,), ("a",), (True,), (None,)):
        with pytest.raises(OptionError, match=re.escape(f"expression(donate={donate!r}")):
            expr(a, b, c, donate=donate)  # type: ignore[arg-type]


def test_slices_keep_their_operands() -> None:
    plan = einloom.plan("ij,jk,kl->il", (40, 40), (40, 40), (40, 40))
    expr = einloom.compile(replace(plan, sliced=(1,)))
    with pytest.raises(Unsupported, match="slices read operands to the end"):
        expr(*matrices(3, 40), donate=(0,))
