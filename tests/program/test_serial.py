"""Programs as JSON: exact, readable for ever, and refused with a reason when they are not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import CALLS, some_dtype
from tests.backend.inferences import INFERENCES

from einloom._base.errors import EinloomError, FileFormatError, ProgramError
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu
from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec, dtype_from_name
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import FORMAT, VERSION, Program
from einloom.program.serial import program_from_json, program_to_json, read_document

F8 = np.dtype("float64")
GOLDEN = Path(__file__).parent / "golden"


def contraction() -> Program:
    """Every op of the first version of the format, some twice."""
    b = Builder()
    x, y = b.input("float32", (2, 1, 3)), b.input("complex128", (3, 3))
    n = b.input("int64", ())
    flat = b("squeeze", x, axes=(1,))
    turned = b("transpose", flat, perm=(1, 0))
    product = b("dot_general", flat, turned, batch=((), ()), contracting=((1,), (0,)))
    cube = b("embed_diagonal", product, axis=0, copies=1)
    back = b("extract_diagonal", cube, axes=(0, 2))
    total = b("reduce_sum", b("add", back, product), axes=(0, 1))
    raised = b("expand_dims", total, axes=(1, 0))
    wide = b("broadcast_in_dim", raised, shape=(3, 5, 3), axes=(0, 2))
    wide = b("cast", b("copy", b("reduce_sum", wide, axes=(1,))), dtype="complex128")
    phase = b("constant", value=0.5 - 1.25j, dtype="complex128")
    zero = b("constant", value=-0.0, dtype="complex128")
    phases = b("broadcast_in_dim", b("add", phase, zero), shape=(3, 3), axes=())
    turned = b("multiply", b("conj", y), phases)
    terms = ((0, 1), (1, 2), (2, 0))
    result = b("sum_product", turned, wide, y, terms=terms, output=(2, 0))
    flag = b("constant", value=True, dtype="bool")
    return b.finish(result, n, flag, total)


def document(program: Program | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(program_to_json(program or contraction()))
    return found


def every_op() -> Program:
    """Each op of the catalogue on inputs of its own."""
    b = Builder()
    results = [b("constant", value=0.5 - 1.25j, dtype="complex128")]
    by_rank = sorted(CALLS, key=lambda call: len(call.shapes[0]))  # the highest is kept
    called = {call.op: (call.attrs, call.specs(some_dtype(call.op))) for call in by_rank}
    called |= {op: (attrs, inputs) for op, attrs, inputs, _ in INFERENCES}
    called["cast"] = called["convert"] = ({"dtype": "complex128"}, (ArraySpec(F8, (2,)),))
    for op, (attrs, inputs) in called.items():
        results += b.several(op, *(b.input(x.dtype, x.shape) for x in inputs), **attrs)
    return b.finish(*results)


def test_every_op_is_tried() -> None:
    assert set(every_op().op_counts) == set(CATALOGUE)


@pytest.mark.parametrize("make", [contraction, every_op, lambda: sliced()])
def test_round_trip(make: Callable[[], Program]) -> None:
    program = make()
    again = program_from_json(program_to_json(program))
    assert again == program
    assert repr(again) == repr(program)
    assert hash(again) == hash(program)


@pytest.mark.parametrize("name", sorted(cpu().capabilities()["copy"]))
def test_round_trip_of_dtypes(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = dtype_from_name(name)
    for call in CALLS:
        if class_of(dtype) in CATALOGUE[call.op].takes(call.attrs):
            b = Builder()
            operands = [b.input(x.dtype, x.shape) for x in call.specs(dtype)]
            program = b.finish(*b.several(call.op, *operands, **call.attrs))
            assert program_from_json(program_to_json(program)) == program


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63, 10**300, True, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2j, -0.0j],
    ids=repr,
)
def test_round_trip_of_constants(value: Any) -> None:
    """To the last bit and the sign of zero."""
    b = Builder()
    program = b.finish(b("constant", value=value, dtype="object"))
    again = program_from_json(program_to_json(program))
    (ins,) = again.instructions
    assert repr(ins.attrs["value"]) == repr(value)


def test_defaults_are_left_out() -> None:
    """So that programs without flags read and are written as ever."""
    b = Builder()
    x, acc = b.input("complex64", (2,)), b.input("complex64", ())
    axes: dict[str, Any] = {"batch": ((), ()), "contracting": ((0,), (0,))}
    plain = b("dot_general", x, x, **axes, conj=[False, False])
    b("dot_general_add", x, x, acc, **axes, conj=(False, False), alpha=1, beta=1)
    b("dot_general_add", x, x, plain, **axes, conj=(True, False), alpha=1.0, beta=2j)
    program = b.finish(plain)
    written = [ins["attributes"] for ins in document(program)["instructions"]]
    assert [set(attributes) - set(axes) for attributes in written] == [
        set(),
        set(),
        {"conj", "alpha", "beta"},
    ]
    assert written[2]["conj"] == [True, False]
    assert written[2]["beta"] == {"complex": [0.0, 2.0]}
    again = program_from_json(program_to_json(program))
    assert again == program
    assert repr(again) == repr(program)
    spelt = document(program)
    spelt["instructions"][0]["attributes"]["conj"] = [False, False]
    assert program_from_json(json.dumps(spelt)) == program


def test_infinity_and_nan() -> None:
    b = Builder()
    values = [float("inf"), float("-inf"), float("nan")]
    program = b.finish(*(b("constant", value=value, dtype="float64") for value in values))
    again = program_from_json(program_to_json(program))
    np.testing.assert_array_equal(Executable(again, cpu())(), values)


def test_document_says_what_it_is() -> None:
    import einloom

    found = document()
    assert (found["format"], found["version"]) == (FORMAT, VERSION) == ("einloom.program", 3)
    assert found["einloom"] == einloom.__version__


def test_large_sizes() -> None:
    b = Builder()
    program = b.finish(b("copy", b.input("int8", (10**400, 2**64))))
    assert program_from_json(program_to_json(program)) == program


def test_golden_file_of_version_1() -> None:
    """Every later version reads it; its `convert` was what is now `cast`."""
    program = program_from_json((GOLDEN / "program_v1.json").read_text())
    assert program == contraction()
    assert repr(program) == repr(contraction())
    x, y = np.arange(6, dtype="float32").reshape(2, 1, 3), np.eye(3) * (1 + 2j)
    result, n, flag, total = Executable(program, cpu())(x, y, np.int64(7))
    a = x[:, 0]
    assert (total, n, flag) == (2 * (a @ a.T).sum(), 7, True)
    want = (0.5 - 1.25j) * abs(1 + 2j) ** 2 * 5 * total  # the 5 copies that were summed
    np.testing.assert_allclose(result, np.eye(3) * want, rtol=1e-12)


def test_golden_file_of_version_2() -> None:
    """Every op that there was then: its document is written again as it was read."""
    text = (GOLDEN / "program_v2.json").read_text()
    program = program_from_json(text)
    assert len(program.op_counts) == 111
    assert set(program.op_counts) <= set(CATALOGUE)
    known, again = json.loads(text), document(program)
    assert [entry[:2] for entry in again["slots"]] == known["slots"]
    for name in ("format", "instructions", "inputs", "outputs"):
        assert again[name] == known[name], name


def sliced() -> Program:
    """Static indices, a size that is only a bound, and an order in memory."""
    b = Builder()
    x, i, j = b.input("float32", (5, 3, 4)), b.index("i", 5), b.index("j", 2)
    row = b("slice_at", b("slice_at", x, axis=0, at=i), axis=1, at=j)
    program = b.finish(b("tanh", row), b("transpose", x, perm=(2, 0, 1)))
    slots = list(program.slots)
    slots[0] = replace(slots[0], bounds=(0, 2), layout=(1, 0, 2))
    return replace(program, slots=tuple(slots))


def test_golden_file_of_version_3() -> None:
    """Static indices, bounds and layouts: read, and written again as it was."""
    text = (GOLDEN / "program_v3.json").read_text()
    assert program_from_json(text) == sliced()
    assert document(sliced()) | {"einloom": ""} == json.loads(text) | {"einloom": ""}


def test_there_is_a_golden_file_for_every_version() -> None:
    assert {path.name for path in GOLDEN.glob("program_*")} == {
        f"program_v{version}.json" for version in range(1, VERSION + 1)
    }


def test_unknown_fields_are_ignored() -> None:
    """A later writer of the same version may say more."""
    found = document() | {"comment": "more", "einloom": "99.0"}
    assert program_from_json(json.dumps(found)) == contraction()


# ---- refused -----------------------------------------------------------------------------------


def changed(**changes: Any) -> str:
    return json.dumps(document() | changes)


def without(name: str) -> str:
    found = document()
    del found[name]
    return json.dumps(found)


def instruction(**changes: Any) -> str:
    """The document with its first instruction (a squeeze) changed."""
    found = document()
    found["instructions"][0] |= changes
    return json.dumps(found)


GARBAGE: dict[str, str | bytes] = {
    "empty": "",
    "text": "program(%0: float64[2])",
    "cut": program_to_json(contraction())[:200],
    "bytes": b"\x93NUMPY\x01\x00\xff\xfe",
    "brackets without end": "[" * 200_000,
    "number without end": '{"version": ' + "1" * 10_000 + "}",
    "null": "null",
    "list": "[]",
    "string": '"einloom.program"',
    "no format": without("format"),
    "other format": changed(format="einloom.plan"),
    "format no string": changed(format=["einloom.program"]),
    "no version": without("version"),
    "version 0": changed(version=0),
    "version text": changed(version="1"),
    "version true": changed(version=True),
    "version real": changed(version=1.0),
    "no slots": without("slots"),
    "no instructions": without("instructions"),
    "no inputs": without("inputs"),
    "no outputs": without("outputs"),
    "slots null": changed(slots=None),
    "slots numbers": changed(slots=[1, 2]),
    "slot too long": changed(slots=[["float64", [2], [], None, "C"]]),
    "bounds number": changed(slots=[["float64", [2], 3, None]]),
    "layout number": changed(slots=[["float64", [2], [], 3]]),
    "indices numbers": changed(indices=[3]),
    "index without name": changed(indices=[[3, "k"]]),
    "slot without shape": changed(slots=[["float64"]]),
    "shape number": changed(slots=[["float64", 3]]),
    "dtype null": changed(slots=[[None, [2]]]),
    "dtype number": changed(slots=[[8, [2]]]),
    "dtype unknown": changed(slots=[["float65", [2]]]),
    "instructions object": changed(instructions={"op": "copy"}),
    "instructions text": changed(instructions="copy"),
    "inputs number": changed(inputs=1),
    "op null": instruction(op=None),
    "op list": instruction(op=["squeeze"]),
    "op number": instruction(op=3),
    "attributes list": instruction(attributes=[["axes", [1]]]),
    "attributes null": instruction(attributes=None),
    "attribute object": instruction(attributes={"axes": {"axes": 1}}),
    "complex of text": instruction(attributes={"axes": {"complex": ["a", "b"]}}),
    "inputs null": instruction(inputs=None),
    "outputs number": instruction(outputs=1),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage(what: str) -> None:
    with pytest.raises(FileFormatError, match=r"einloom\.program"):
        program_from_json(GARBAGE[what])  # type: ignore[arg-type]


def test_newer_version() -> None:
    with pytest.raises(FileFormatError, match=rf"version {VERSION + 1} .* newer .*upgrade einloom"):
        program_from_json(changed(version=VERSION + 1))


ILL_FORMED = {
    "slot": changed(outputs=[999]),
    "slot text": changed(outputs=["0"]),
    "size": changed(slots=[["float64", [-1]]] * len(document()["slots"])),
    "unknown op": instruction(op="nowhere"),
    "unknown family": instruction(op="extension:linalg.svd.v1"),
    "axes": instruction(attributes={"axes": [0]}),
    "axes text": instruction(attributes={"axes": "one"}),
    "axes null": instruction(attributes={"axes": None}),
    "axes complex": instruction(attributes={"axes": {"complex": [1, 2]}}),
    "axes nested": instruction(attributes={"axes": [[1]]}),
    "no attributes": instruction(attributes={}),
    "reads itself": instruction(inputs=[3]),
    "writes an input": instruction(outputs=[0]),
}


@pytest.mark.parametrize("what", ILL_FORMED)
def test_ill_formed_program(what: str) -> None:
    """JSON of the right form, but no program."""
    with pytest.raises(ProgramError, match="rule"):
        program_from_json(ILL_FORMED[what])


def test_any_damage_is_refused_or_harmless(rng: np.random.Generator) -> None:
    """Bytes changed at random: an error of ours, or a program that passes the verifier."""
    text = program_to_json(contraction()).encode("ascii")
    refused = 0
    for _ in range(400):
        damaged = bytearray(text)
        for at in rng.integers(0, len(text), rng.integers(1, 4)):
            damaged[at] = rng.integers(32, 127)
        try:
            program_from_json(damaged.decode("ascii"))
        except EinloomError:
            refused += 1
    assert refused > 200


def test_read_document_names_what_it_expected() -> None:
    with pytest.raises(
        FileFormatError, match=r"expected .*'einloom\.plan', got 'einloom\.program'"
    ):
        read_document(program_to_json(contraction()), "einloom.plan", 1)
