"""Every equation of the corpus means what its definition says, however it is planned."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.cases import CORPUS, Case
from tests.oracles import check, einsum_oracle, label_sizes
from tests.tolerance import assert_close, tolerance

import einloom

DTYPES = (
    *("bool", "uint8", "int64", "float16", "float32", "float64", "longdouble"),
    *("complex64", "complex128", "clongdouble"),
)
OPTIMIZE = ("auto", True, False, "greedy", "optimal")


def title(heading: str, case: Case) -> str:
    """Name of a case in the list of tests."""
    equation = case.equation if isinstance(case.equation, str) else repr(case.equation)
    shown = equation if len(ascii(equation)) < 60 else f"{len(case.shapes)} operands"
    return f"{heading}: {shown} {'x'.join(map(str, sum(case.shapes, ())))[:24]}"


def ways(case: Case) -> tuple[object, ...]:
    """Every optimize=; parentheses already fix the order, and 'optimal' is exponential."""
    if isinstance(case.equation, str) and "(" in case.equation:
        return ("auto",)
    return OPTIMIZE if len(case.shapes) <= 8 else OPTIMIZE[:-1]


cases = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=title(head, case)) for head, group in CORPUS.items() for case in group],
)


@pytest.mark.parametrize("dtype", DTYPES)
@cases
def test_corpus(case: Case, dtype: str) -> None:
    check(einloom.einsum, replace(case, dtypes=(dtype,)), ways(case))


@cases
def test_bfloat16(case: Case) -> None:
    pytest.importorskip("ml_dtypes")
    check(einloom.einsum, replace(case, dtypes=("bfloat16",)))


@cases
def test_mixed_dtypes_and_layouts(case: Case) -> None:
    """float32 with complex128 with int8, none of them contiguous."""
    count = len(case.shapes)
    check(
        einloom.einsum,
        replace(
            case,
            dtypes=(("float32", "complex128", "int8") * count)[:count],
            layouts=(("transposed", "reversed", "sliced", "unaligned") * count)[:count],
        ),
    )


@cases
def test_alpha_beta_conj(case: Case) -> None:
    """out = alpha * einsum(conj(first), rest ...) + beta * out."""
    case = replace(case, dtypes=("complex128",), out="complex128", out_layout="transposed")
    inputs, output = case.labels
    first, *rest = operands = case.operands()
    start = case.out_array()
    assert start is not None
    start.real, start.imag = 0.25, np.arange(start.size).reshape(start.shape)
    alpha, beta, out = 0.5 - 2j, 3 + 0.25j, start.copy(order="K")
    keywords = {**case.keywords(out), "alpha": alpha, "beta": beta, "conj": (0,)}
    got = einloom.einsum(*case.arguments(operands), **keywords)
    assert got is out
    want = alpha * einsum_oracle(inputs, output, [first.conj(), *rest]) + beta * start
    sums = einsum_oracle(inputs, output, [abs(operand) for operand in operands])
    sizes = label_sizes(inputs, case.shapes)
    terms = math.prod(size for label, size in sizes.items() if label not in output) + 1
    scale = abs(alpha) * sums + abs(beta * start)
    assert_close(got, want, scale, tolerance("complex128", terms, len(operands) + 1))
