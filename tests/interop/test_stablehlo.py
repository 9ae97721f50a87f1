"""Text of StableHLO: golden modules, literals, what is refused, and that exporting touches nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import Call, calls, some_dtype

import einloom
from einloom import ProgramError, Unsupported
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import CpuBackend
from einloom.backend.vocabulary import STABLEHLO
from einloom.interop import stablehlo
from einloom.interop.hlo import RULES
from einloom.interop.hlo.text import literal
from einloom.program.builder import Builder
from einloom.program.ir import VERSION, Program
from einloom.program.serial import program_from_json, program_to_json

GOLDEN = Path(__file__).parent / "golden"
DType = np.dtype[Any]
NOT_COMPLEX = frozenset(("sort", "argsort", "asin", "acos", "atan", "sinh", "cosh"))


def attention() -> Program:
    """Products, a transpose, a softmax and a constant."""
    build = Builder()
    q, k = build.input("float32", (2, 3, 4)), build.input("float32", (2, 5, 4))
    scores = build("dot_general", q, k, contracting=((2,), (2,)), batch=((0,), (0,)))
    top = build("reduce_max", scores, axes=(2,), initial=None)
    top = build("broadcast_in_dim", top, shape=(2, 3, 5), axes=(0, 1))
    weights = build("exp", build("subtract", scores, top))
    total = build("reduce_sum", weights, axes=(2,))
    half = build("constant", value=0.5, dtype="float32")
    total = build("multiply", total, build("broadcast_in_dim", half, shape=(2, 3), axes=()))
    return build.finish(build("transpose", weights, perm=(2, 0, 1)), total)


def picking() -> Program:
    """A static index, a gather by negative indices, an order, a comparison."""
    build = Builder()
    x, at = build.input("float64", (4, 3)), build.input("int32", (2,))
    row = build("slice_at", x, axis=0, at=build.index("row", 4))
    taken = build("take", row, at, axis=0)
    order = build("argsort", row, axis=0, descending=True)
    return build.finish(build("less", taken, taken), order)


def factors() -> Program:
    build = Builder()
    a, b = build.input("complex128", (3, 3)), build.input("complex128", (3, 2))
    lower = build("cholesky", a)
    rule = {"lower": True, "trans": "C", "unit_diagonal": False, "side": "left"}
    solved = build("triangular_solve", lower, b, **rule)
    return build.finish(build("ifft", solved, axes=(0,), scale=0.5))


@pytest.mark.parametrize(
    "program", [attention, picking, factors], ids=("attention", "picking", "factors")
)
def test_golden(program: Callable[[], Program]) -> None:
    want = (GOLDEN / f"{program.__name__}.mlir").read_text(encoding="utf-8")
    assert stablehlo(program()) == want.rstrip("\n")


def exported(call: Call, dtype: DType) -> str:
    """The text of one op alone."""
    build = Builder()
    inputs = [build.input(spec.dtype, spec.shape) for spec in call.specs(dtype)]
    return stablehlo(build.finish(*build.several(call.op, *inputs, **call.attrs)))


@pytest.mark.parametrize("op", [op for op in CATALOGUE if op in RULES and calls(op)])
def test_every_op_is_written(op: str) -> None:
    """Each value is made before it is read, and the op that the vocabulary names is there."""
    texts = []
    for call, dtype in product(calls(op), (some_dtype(op), np.dtype("complex64"))):
        if not call.takes(dtype) or (dtype.kind == "c" and op in NOT_COMPLEX):
            continue
        texts.append(exported(call, dtype))
        made = {f"%arg{k}" for k in range(len(call.shapes))}
        for line in texts[-1].splitlines():
            if line.startswith("    %"):
                left, _, right = line.strip().partition(' = "')
                assert set(re.findall(r"%\w+", right.partition(")")[0])) <= made
                made |= set(left.split(", "))
    named = f'"stablehlo.{STABLEHLO.get(op)}"'
    assert op not in STABLEHLO or any(named in text for text in texts)


@pytest.mark.parametrize("op", [op for op in CATALOGUE if op not in RULES and calls(op)])
def test_other_ops_are_refused(op: str) -> None:
    for call in calls(op):
        with pytest.raises(
            Unsupported, match=rf"{op}.*(run this op by einloom|known when it runs)"
        ):
            exported(call, some_dtype(op))


@pytest.mark.parametrize("op", sorted(NOT_COMPLEX))
def test_some_are_not_written_for_complex_numbers(op: str) -> None:
    with pytest.raises(Unsupported, match=op):
        exported(calls(op)[1], np.dtype("complex64"))


def test_vocabulary_names_ops_that_are_written() -> None:
    assert set(STABLEHLO) <= set(RULES) <= set(CATALOGUE)
    assert STABLEHLO["exp"] == "exponential"


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (0.1, "float64", "0.1"),
        (0.1, "float32", "0.10000000149011612"),
        (1e300, "float64", "1.0e+300"),
        (-0.0, "float64", "-0.0"),
        (float("nan"), "float16", "0x7E00"),
        (float("-inf"), "float64", "0xFFF0000000000000"),
        (2 - 1j, "complex64", "(2.0, -1.0)"),
        (True, "bool", "true"),
        (-(2**63), "int64", "-9223372036854775808"),
    ],
)
def test_literals(value: complex, dtype: str, want: str) -> None:
    assert literal(value, np.dtype(dtype)) == want


def test_what_is_no_program() -> None:
    template = einloom.trace(lambda x: x + x, "float64[n]")
    with pytest.raises(ProgramError, match=r"got a ProgramTemplate.*bind"):
        stablehlo(template)  # type: ignore[arg-type]


def test_sizes_known_later_are_refused() -> None:
    build = Builder()
    x, n = build.input("float64", (4,)), build.input("int64", ())
    program = build.finish(build("dynamic_truncate", x, n, axis=0))
    with pytest.raises(Unsupported, match=r"dynamic_truncate.*known when it runs"):
        stablehlo(program)


@pytest.mark.parametrize("dtype", ["object", "longdouble"])
def test_dtypes_without_a_type_are_refused(dtype: str) -> None:
    build = Builder()
    x = build.input(dtype, (2,))
    with pytest.raises(Unsupported, match=f"no element type for {np.dtype(dtype).name}"):
        stablehlo(build.finish(build("add", x, x)))


def test_families_with_an_op_of_stablehlo() -> None:
    program = einloom.trace(lambda a: einloom.linalg.cholesky(a, upper=True), "float64[3,3]")
    assert '"stablehlo.cholesky"(%arg0) {lower = false}' in stablehlo(program.bind([(3, 3)]))


def test_families_are_refused_by_name() -> None:
    program = einloom.trace(einloom.linalg.svd, "float64[3,2]").bind([(3, 2)])
    with pytest.raises(Unsupported, match=r"linalg\.svd"):
        stablehlo(program)


def test_exporting_reads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is the same after it; no backend is asked for kernels, and nothing is a backend."""

    def asked(*arguments: Any) -> None:
        raise AssertionError("the exporter has bound a kernel")

    monkeypatch.setattr(CpuBackend, "bind", asked)
    program = attention()
    before = program_to_json(program)
    assert json.loads(before)["version"] == VERSION
    assert stablehlo(program) == stablehlo(program_from_json(before))
    assert program_to_json(program) == before
    assert not hasattr(stablehlo, "bind")


def test_thousands_of_instructions() -> None:
    build = Builder()
    x = build.input("float64", (2,))
    last = x
    for _ in range(3_000):
        last = build("add", last, x)
    assert stablehlo(build.finish(last)).count("stablehlo.add") == 3_000
