"""What numpy.linalg has not, as ops of programs: the same values as at once, for sizes bound later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einloom
from einloom.backend.cpu import cpu
from einloom.linalg import (
    canonical_svd,
    canonical_vectors,
    eig_two_sided,
    eigh,
    eigh_generalized,
    eigh_subset,
    expm,
    polar,
    positive_qr,
    qr,
    qr_pivoted,
    qr_positive,
    qr_rank_revealing,
    randomized_svd,
    schur,
    sqrtm,
    svd,
    truncated_svd,
)
from einloom.program.executable import Executable

RNG = np.random.default_rng(1)
SQUARE = RNG.standard_normal((3, 4, 4))
WIDE = RNG.standard_normal((3, 4, 6))
DEFINITE = SQUARE @ SQUARE.swapaxes(1, 2) + np.eye(4)

CALLS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (expm, (SQUARE,)),
    (lambda a: sqrtm(a, hermitian=True), (DEFINITE,)),
    (polar, (WIDE,)),
    (lambda a: polar(a, "left"), (WIDE,)),
    (schur, (SQUARE,)),
    (lambda a: schur(a, "complex"), (SQUARE,)),
    (qr_positive, (WIDE,)),
    (lambda a: qr_positive(a, "complete"), (WIDE,)),
    (lambda a: positive_qr(*qr(a)), (WIDE,)),
    (lambda a: canonical_svd(*svd(a)), (WIDE,)),
    (lambda a: svd(a, False, gauge="canonical"), (WIDE,)),
    (lambda a: canonical_vectors(eigh(a)[1]), (DEFINITE,)),
    (qr_pivoted, (WIDE,)),
    (lambda a: qr_pivoted(a, "r")[1:], (WIDE,)),
    (qr_rank_revealing, (WIDE,)),
    (eigh_generalized, (SQUARE + SQUARE.swapaxes(1, 2), DEFINITE)),
    (lambda a: eigh_subset(a, by_index=(1, 2)), (DEFINITE,)),
    (eig_two_sided, (SQUARE,)),
    (lambda a: randomized_svd(a, 2, seed=3, gauge="canonical"), (WIDE,)),
    (lambda a: truncated_svd(a, 2, gauge="canonical", absorb="right"), (WIDE,)),
)


def traced(function: Any, arrays: tuple[Any, ...]) -> Any:
    shapes = [x.shape for x in arrays]
    names = ["float64[b,m,n]" if x.shape[1] != x.shape[2] else "float64[b,n,n]" for x in arrays]
    template = einloom.trace(function, *names)
    program = template.bind(shapes)
    return program, Executable(program, cpu())(*arrays)


@pytest.mark.parametrize(("function", "arrays"), CALLS)
def test_programs_do_the_same(function: Any, arrays: Any) -> None:
    program, found = traced(function, arrays)
    wanted = function(*arrays)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    slots = [program.slots[at] for at in program.outputs]
    for x, y, slot in zip(found, wanted, slots, strict=True):
        assert x.shape == y.shape == slot.shape
        assert x.dtype == y.dtype == slot.dtype
        assert np.allclose(x, y)


def test_a_bond_is_truncated_between_two_contractions() -> None:
    def step(state: Any, gate: Any) -> Any:
        theta = einloom.einsum("aij,ijkl->akl", state, gate)
        left, _, right, ranks, _ = truncated_svd(theta, 3, cutoff=1e-3, absorb="left")
        return einloom.einsum("akr,arl->akl", left, right), ranks

    state, gate = RNG.standard_normal((2, 4, 4)), RNG.standard_normal((4, 4, 5, 6))
    template = einloom.trace(step, "float64[b,4,4]", "float64[4,4,5,6]", sizes={"b": 2})
    program = template.bind([state.shape, gate.shape])
    found, ranks = Executable(program, cpu())(state, gate)
    wanted, same = step(state, gate)
    assert np.allclose(found, wanted)
    assert ranks.tolist() == same.tolist()
    assert program.slots[program.outputs[0]].shape == (2, 5, 6)


def test_roots_of_traced_matrices_are_complex() -> None:
    _, x = traced(sqrtm, (DEFINITE,))
    assert x.dtype == np.complex128
    assert np.allclose(x @ x, DEFINITE)


def test_failures_of_programs_are_named() -> None:
    bad = np.stack([np.eye(2), np.diag([1.0, -1])])
    program, _ = traced(lambda a: sqrtm(a, hermitian=True), (abs(bad),))
    with pytest.raises(einloom.LinAlgError, match="1 of 2"):
        Executable(program, cpu())(bad)
