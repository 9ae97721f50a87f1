"""Templates: programs of sizes that are known later, bound to integers by the same rules."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import CALLS, some_dtype
from tests.backend.inferences import INFERENCES
from tests.backend.test_dims import named
from tests.each import each

from einloom._base.errors import DTypeError, EinloomError, FileFormatError, ProgramError, ShapeError
from einloom.backend.cpu import cpu
from einloom.backend.dims import dim, input_dim, minimum
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.ir import Program, Slot, StaticIndex, instruction
from einloom.program.serial import program_from_json, template_from_json, template_to_json
from einloom.program.template import RESOLVED, TEMPLATE_VERSION, ProgramTemplate, verify_template

GOLDEN = Path(__file__).resolve().parent / "golden"
N, M = dim("n"), dim("m")
F8 = np.dtype("float64")


def windows() -> ProgramTemplate:
    """Names, expressions, axes of inputs, and sizes in attributes."""
    b = Builder()
    x, y = b.input("float64", ("n", 3)), b.input("float64", ("m", "n"))
    both = b("concatenate", x, b("transpose", b("matmul", y, x), perm=(0, 1)), axis=0)
    flat = b("reshape", both, shape=(3 * (N + M),))
    half = b("slice", flat, starts=(0,), stops=((N + M) // 2,), steps=(1,))
    grown = b("pad", half, low=(input_dim(0, 1),), high=(minimum(N, M),), interior=(0,), value=0)
    return b.template(b("reduce_sum", both, axes=(1,)), grown)


def expected(x: Any, y: Any) -> tuple[Any, Any]:
    n, m = len(x), len(y)
    both = np.concatenate([x, y @ x])
    return both.sum(1), np.pad(both.reshape(-1)[: (n + m) // 2], (3, min(n, m)))


def test_listing() -> None:
    assert str(windows()) == (
        "template(%0: float64[n,3], %1: float64[m,n])\n"
        "  %2 = matmul(%1, %0)  # float64[m,3], 24*m B\n"
        "  %3 = transpose(%2) [perm=(0,1)]  # float64[m,3], view\n"
        "  %4 = concatenate(%0, %3) [axis=0]  # float64[m+n,3], 24*m+24*n B\n"
        "  %5 = reshape(%4) [shape=(3*m+3*n,)]  # float64[3*m+3*n], 24*m+24*n B\n"
        "  %6 = slice(%5) [starts=(0,), steps=(1,), stops=((m+n)//2,)]  # float64[(m+n)//2], view\n"
        "  %7 = pad(%6) [high=(min(m,n),), interior=(0,), low=(x0.1,), value=0]  "
        "# float64[x0.1+(m+n)//2+min(m,n)], 8*x0.1+8*((m+n)//2)+8*min(m,n) B\n"
        "  %8 = reduce_sum(%4) [axes=(1,)]  # float64[m+n], 8*m+8*n B\n"
        "  return %8, %7"
    )
    assert windows().names == ("n", "m")


@pytest.mark.parametrize(("n", "m"), [(4, 5), (1, 1), (7, 2), (0, 3), (0, 0)])
def test_bound_templates_run(n: int, m: int, rng: np.random.Generator) -> None:
    program = windows().bind([(n, 3), (m, n)])
    assert isinstance(program, Program)
    assert all(type(size) is int for slot in program.slots for size in slot.shape)
    x, y = rng.random((n, 3)), rng.random((m, n))
    for got, want in zip(Executable(program, cpu())(x, y), expected(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_bound_to_other_dtypes() -> None:
    program = windows().bind([(4, 3), (5, 4)], ["float32", np.float32])
    assert {str(slot.dtype) for slot in program.slots} == {"float32"}
    with pytest.raises(DTypeError, match=r"bind: instruction 0 \(matmul\): .*dtypes of"):
        windows().bind([(4, 3), (5, 4)], ["float32", "float64"])
    with pytest.raises(DTypeError, match="1 dtypes given, there are 2 inputs"):
        windows().bind([(4, 3), (5, 4)], ["float32"])
    with pytest.raises(DTypeError, match="float65"):
        windows().bind([(4, 3), (5, 4)], ["float65"] * 2)


RULES = [(c.op, c.attrs, c.specs(some_dtype(c.op))) for c in CALLS]
RULES += [row[:3] for row in INFERENCES]


@pytest.mark.parametrize("one", [True, False], ids=["names by size", "names by axis"])
@each(("op", "attrs", "inputs"), RULES)
def test_every_op_binds(op: str, attrs: Any, inputs: tuple[ArraySpec, ...], one: bool) -> None:
    """To what the builder makes of integers; sizes that were symbolic are sizes like others."""
    build, exact = Builder(), Builder()
    specs, _ = named(inputs, one)
    slots = [build.input(x.dtype, x.shape) for x in specs]
    template = build.template(*build.several(op, *slots, **attrs))
    slots = [exact.input(x.dtype, x.shape) for x in inputs]
    program = exact.finish(*exact.several(RESOLVED.get(op, op), *slots, **attrs))
    assert template.bind([x.shape for x in inputs]) == program
    assert template_from_json(template_to_json(template)) == template


def test_values() -> None:
    assert windows() == windows()
    assert hash(windows()) == hash(windows())


def test_integers_are_a_template_too() -> None:
    build = Builder()
    x = build.input("f8", (2, 3))
    y = build("copy", x)
    assert build.template(y).bind([(2, 3)]) == build.finish(y)
    with pytest.raises(ShapeError, match="axis 1 of input 0 has size 4, the template says 3"):
        build.template(y).bind([(2, 4)])


def test_finish_wants_integers() -> None:
    build = Builder()
    x = build.input("f8", ("n", 3))
    with pytest.raises(ProgramError, match=r"finish: slot %0 is float64\[n,3\].*template"):
        build.finish(x)


def test_static_indices_of_a_size_known_later() -> None:
    build = Builder()
    x = build.input("f8", ("n", 3))
    k: Any = dim("n")
    row = build("slice_at", x, axis=0, at=build.index("k", k))
    with pytest.raises(ProgramError, match="finish"):
        build.finish(row)
    template = build.template(row)
    assert template_from_json(template_to_json(template)) == template
    program = template.bind([(4, 3)])
    assert program.indices == (StaticIndex("k", 4),)
    np.testing.assert_array_equal(Executable(program, cpu())(np.eye(4, 3), indices=(2,)), [0, 0, 1])
    with pytest.raises(ProgramError, match=r"bind: instruction 0 .slice_at.*at=-1"):
        template.bind([(0, 3)])


# ---- refused when bound -------------------------------------------------------------------------

SHAPES: list[tuple[Any, str]] = [
    ([(4, 3)], "1 shapes given, there are 2 inputs"),
    ([(4, 3), (5, 6)], "axis 1 of input 1 has size 6, the template says n = 4 by axis 0 of"),
    ([(4, 2), (5, 4)], "axis 1 of input 0 has size 2, the template says 3"),
    ([(4, 3, 1), (5, 4)], r"input 0 has shape \(4, 3, 1\), the template says float64\[n,3\]"),
    ([(4, 3), (-5, 4)], r"input 1 has shape \(-5, 4\)"),
    ([(4, 3), (5.0, 4)], "the shape .* of input 1 is no tuple of integers"),
    ([(4, 3), 5], "the shape 5 of input 1 is no tuple of integers"),
    ([(4, 3), ("m", 4)], "of input 1 is no tuple of integers"),
]


@pytest.mark.parametrize(("shapes", "message"), SHAPES, ids=[message for _, message in SHAPES])
def test_wrong_shapes(shapes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        windows().bind(shapes)


def test_expressions_of_inputs_are_checked() -> None:
    build = Builder()
    x, y = build.input("f8", ("n",)), build.input("f8", (2 * N + 1, input_dim(0, 0)))
    template = build.template(x, y)
    template.bind([(3,), (7, 3)])
    with pytest.raises(
        ShapeError, match=r"axis 0 of input 1 has size 6, the template says 2\*n\+1 = 7, n = 3 by"
    ):
        template.bind([(3,), (6, 3)])
    with pytest.raises(
        ShapeError, match=r"axis 1 of input 1 has size 4, the template says x0.0 = 3"
    ):
        template.bind([(3,), (7, 4)])


LATE: list[tuple[str, dict[str, Any], tuple[Any, ...], Any]] = [
    ("add", {}, (("n",), ("m",)), [(2,), (3,)]),
    ("squeeze", {"axes": (0,)}, (("n",),), [(2,)]),
    ("reshape", {"shape": (3, M)}, (("n", "m"),), [(2, 5)]),
    ("slice", {"starts": (0,), "stops": (4,), "steps": (1,)}, (("n",),), [(3,)]),
    ("concatenate", {"axis": 0}, (("n", "m"), ("n", "k")), [(2, 3), (2, 4)]),
    ("split", {"axis": 0, "sizes": (2, M)}, (("n", "m"),), [(4, 3)]),
    ("extract_diagonal", {"axes": (0, 1)}, (("n", "m"),), [(4, 3)]),
    ("reduce_max", {"axes": (0,), "initial": None}, (("n",),), [(0,)]),
    ("argmax", {"axis": 0}, (("n",),), [(0,)]),
    ("matmul", {}, (("n", "m"), ("k", 2)), [(2, 3), (4, 2)]),
    ("cholesky", {}, (("n", "m"),), [(2, 3)]),
    ("pad", {"low": (-M,), "high": (0,), "interior": (0,), "value": 0}, (("n", ), ("m",)), [(2,), (3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attrs", "inputs", "shapes"), LATE, ids=[row[0] for row in LATE])
def test_what_names_leave_open_is_checked(op: str, attrs: Any, inputs: Any, shapes: Any) -> None:
    """By the rule that integers meet, naming the instruction."""
    build = Builder()
    slots = [build.input("f8", shape) for shape in inputs]
    slots = slots[:1] if op == "pad" else slots
    template = build.template(*build.several(op, *slots, **attrs))
    with pytest.raises(ProgramError, match=rf"bind: instruction 0 \({op}\): "):
        template.bind(shapes)


# ---- refused at once ----------------------------------------------------------------------------


def made(*slots: Any, instructions: Any = (), inputs: Any = (0,), outputs: Any = (0,)) -> Any:
    specs = tuple(Slot(ArraySpec(F8, shape)) for shape in slots)
    return ProgramTemplate(specs, tuple(instructions), inputs, outputs)


ILL_FORMED: list[tuple[str, Any, str]] = [
    ("name stands nowhere alone", made((2 * N,)), "n stands alone on no axis of an input"),
    (
        "name of an output",
        made((2,), (N,), instructions=[instruction("copy", (0,), (1,), {})], outputs=(1,)),
        "n stands alone on no axis",
    ),
    ("no such input", made((input_dim(1, 0),)), "there is no axis 0 of input 1"),
    ("no such axis", made((input_dim(0, 1),)), "there is no axis 1 of input 0"),
    ("its own size and one", made((input_dim(0, 0) + 1,)), "in a circle: axis 0 of input 0"),
    (
        "circle of two",
        made((input_dim(0, 1), 2 * input_dim(0, 0))),
        "in a circle: axis . of input 0 <- axis . of input 0",
    ),
    (
        "circle through a name",
        made((N, input_dim(0, 2) + N, input_dim(0, 1) - N)),
        "in a circle",
    ),
    ("negative size", made((-2,)), "sizes are integers >= 0 or expressions"),
    ("real size", made((2.5,)), "sizes are integers >= 0 or expressions"),
    ("no such slot", made((N,), outputs=(3,)), "every slot named exists"),
    ("never written", made((N,), (N,), outputs=(1,)), "written before it is read"),
    (
        "wrong shape",
        made((N,), (N + 1,), instructions=[instruction("copy", (0,), (1,), {})], outputs=(1,)),
        r"yields float64\[n\], its slots say float64\[n\+1\]",
    ),
]


@pytest.mark.parametrize(("template", "message"), [row[1:] for row in ILL_FORMED])
def test_ill_formed(template: ProgramTemplate, message: str) -> None:
    with pytest.raises(ProgramError, match=rf"ill-formed program: .*{message}"):
        verify_template(template)
    with pytest.raises(EinloomError):
        template_from_json(template_to_json(template))


def test_well_formed() -> None:
    verify_template(made((N, 2), (M,), inputs=(0, 1)))
    verify_template(made((input_dim(0, 0), N, 2 * input_dim(0, 0))))


def test_a_template_that_lies_is_refused_when_bound() -> None:
    template = windows()
    slots = list(template.slots)
    slots[2] = Slot(ArraySpec(F8, (N, 3)))  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"bind: instruction 0 \(matmul\): .*slot %2 says"):
        replace(template, slots=tuple(slots)).bind([(4, 3), (5, 4)])


# ---- JSON ---------------------------------------------------------------------------------------


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(template_to_json(windows()))
    return found


def changed(**changes: Any) -> str:
    return json.dumps(document() | changes)


def test_golden_file_of_version_1() -> None:
    text = (GOLDEN / "template_v1.json").read_text()
    assert template_from_json(text) == windows()
    assert document() | {"einloom": ""} == json.loads(text) | {"einloom": ""}
    names = {path.name for path in GOLDEN.glob("template_*")}
    assert names == {f"template_v{version}.json" for version in range(1, TEMPLATE_VERSION + 1)}


def test_newer_version() -> None:
    with pytest.raises(FileFormatError, match=r"einloom\.template version 2 .* newer .*upgrade"):
        template_from_json(changed(version=TEMPLATE_VERSION + 1))


def test_a_program_is_no_template() -> None:
    with pytest.raises(FileFormatError, match=r"expected .*'einloom\.program', got 'einloom\.temp"):
        program_from_json(template_to_json(windows()))
    with pytest.raises(EinloomError):  # nor do programs have sizes known later
        program_from_json(changed(format="einloom.program"))


SIZES: list[Any] = [
    {"size": ["+"]}, {"size": ["n", "n"]}, {"size": []}, {"size": 3}, {"size": None},
    {"size": ["n", 0, "//"]}, {"size": [[0], 1, "+"]}, {"size": [[-1, 0]]}, {"size": [1.5]},
    {"size": ["n m"]}, {"size": [{"size": ["n"]}]}, {"length": 3}, {"size": [True]},
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_garbled_sizes(size: Any) -> None:
    with pytest.raises(FileFormatError, match=r"einloom\.template"):
        template_from_json(changed(slots=[["float64", [size], [], None]]))


@pytest.mark.parametrize(
    "text", ["", "[" * 200_000, "null", "[]", '{"format": "einloom.template"}']
)
def test_garbage(text: str) -> None:
    with pytest.raises(FileFormatError, match=r"einloom\.template"):
        template_from_json(text)


def test_any_damage_is_refused_or_harmless(rng: np.random.Generator) -> None:
    text = template_to_json(windows()).encode("ascii")
    for _ in range(300):
        damaged = bytearray(text)
        for at in rng.integers(0, len(text), rng.integers(1, 4)):
            damaged[at] = rng.integers(32, 127)
        with suppress(EinloomError):
            template_from_json(damaged.decode("ascii")).bind([(4, 3), (5, 4)])
