"""Extension families: declared once, run where a runtime is registered, checked when they return."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.errors import EinloomError, ExtensionError, ProgramError
from einloom.backend.cpu import cpu
from einloom.backend.dims import minimum
from einloom.backend.spec import ArraySpec
from einloom.program import executable as module
from einloom.program import extension
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.extension import (
    bind_extension,
    family_of,
    register_family,
    register_runtime,
    unregister_family,
)
from einloom.program.ir import Instruction, Program, Slot
from einloom.program.serial import (
    program_from_json,
    program_to_json,
    template_from_json,
    template_to_json,
)
from einloom.program.verify import verify

NAME = "test.extremes.v1"


def infer(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    """(largest values, their positions) along an axis: two outputs of different dtypes."""
    (x,), axis = inputs, attrs["axis"]
    if not -len(x.shape) <= axis < len(x.shape):
        raise ProgramError(f"{NAME}: axis={axis} is out of range for {x}")
    shape = tuple(n for k, n in enumerate(x.shape) if k != axis % len(x.shape))
    return ArraySpec(x.dtype, shape), ArraySpec(np.dtype("int64"), shape)


def run(attrs: dict[str, Any], x: Any) -> tuple[Any, ...]:
    return np.asarray(x.max(attrs["axis"])), np.asarray(x.argmax(attrs["axis"]))


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families and runtimes of this test alone."""
    monkeypatch.setattr(extension, "_FAMILIES", {})
    monkeypatch.setattr(extension, "_RUNTIMES", {})


@pytest.fixture
def family() -> Iterator[str]:
    register_family(NAME, infer)
    register_runtime(NAME, "cpu", run)
    yield NAME
    unregister_family(NAME)


def extremes(build: Builder, x: int) -> tuple[int, ...]:
    return build.extension(NAME, x, axis=1)


@pytest.mark.parametrize("table", [False, True], ids=["generated", "table"])
@pytest.mark.usefixtures("family")
def test_two_outputs_inside_a_program(
    table: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Before and after it ops of the catalogue; one output is used twice, one is a result."""
    if table:
        monkeypatch.setattr(module, "TABLE_FROM", 0)
    build = Builder()
    x = build.input("float32", (3, 4))
    largest, places = extremes(build, build("add", x, x))
    assert (str(build.spec(largest)), str(build.spec(places))) == ("float32[3]", "int64[3]")
    doubled = build("multiply", largest, largest)
    executable = Executable(build.finish(doubled, places), cpu())
    array = rng.random((3, 4)).astype("float32")
    got = executable(array)
    np.testing.assert_array_equal(got[0], (2 * array).max(1) ** 2)
    np.testing.assert_array_equal(got[1], array.argmax(1))
    assert [x.dtype.name for x in got] == ["float32", "int64"]
    with ThreadPoolExecutor(8) as pool:
        for again in pool.map(executable, [array] * 50):
            np.testing.assert_array_equal(again[1], got[1])


@pytest.mark.usefixtures("family")
def test_one_output_of_two_may_be_unused() -> None:
    build = Builder()
    _, places = extremes(build, build.input("f8", (2, 3)))
    executable = Executable(build.finish(places), cpu())
    x = np.array([[1.0, 3, 2], [9, 8, 7]])
    np.testing.assert_array_equal(executable(x), [1, 0])
    out = np.zeros(2, int)
    assert executable(x, out=out) is out
    np.testing.assert_array_equal(out, [1, 0])


def test_one_output() -> None:
    register_family("test.half.v2", lambda attrs, inputs: inputs)
    register_runtime("test.half.v2", "cpu", lambda attrs, x: (x / 2,))
    build = Builder()
    (half,) = build.extension("test.half.v2", build.input("f8", (2,)))
    got = Executable(build.finish(half), cpu())(np.array([1.0, 3.0]))
    np.testing.assert_array_equal(got, [0.5, 1.5])


@pytest.mark.usefixtures("family")
def test_json() -> None:
    build = Builder()
    program = build.finish(*extremes(build, build.input("f8", (2, 3))))
    text = program_to_json(program)
    assert program_from_json(text) == program
    unregister_family(NAME)
    with pytest.raises(ProgramError, match=r"extension:test\.extremes\.v1.*import the package"):
        program_from_json(text)


@pytest.mark.usefixtures("family")
def test_its_rule_refuses_bad_calls() -> None:
    build = Builder()
    with pytest.raises(ProgramError, match="axis=5 is out of range"):
        build.extension(NAME, build.input("f8", (2, 3)), axis=5)


# ---- sizes that are known later ------------------------------------------------------------------


@pytest.mark.usefixtures("family")
def test_output_rule_on_names() -> None:
    """In a template the family's own rule meets names; bound, it meets integers."""
    build = Builder()
    largest, places = extremes(build, build.input("float32", ("n", "m")))
    template = build.template(build("add", largest, largest), places)
    assert (str(build.spec(largest)), str(build.spec(places))) == ("float32[n]", "int64[n]")
    assert template_from_json(template_to_json(template)) == template
    x = np.array([[1, 3, 2], [9, 8, 7]], "float32")
    got = Executable(template.bind([(2, 3)]), cpu())(x)
    np.testing.assert_array_equal(got[0], [6, 18])
    np.testing.assert_array_equal(got[1], [1, 0])


def test_output_rule_with_the_smaller_of_two_sizes() -> None:
    """What a rule may use beside arithmetic."""

    def rank(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
        m, n = inputs[0].shape
        return (ArraySpec(inputs[0].dtype, (m, minimum(minimum(m, n), attrs["most"]))),)

    register_family("test.rank.v1", rank)
    build = Builder()
    (slot,) = build.extension("test.rank.v1", build.input("f8", ("m", "n")), most=4)
    template = build.template(slot)
    assert str(build.spec(slot)) == "float64[m,min(4,min(m,n))]"
    shapes = {(9, 3): (9, 3), (9, 8): (9, 4), (2, 8): (2, 2)}
    for given, want in shapes.items():
        program = template.bind([given])
        assert program.slots[program.outputs[0]].shape == want


@pytest.mark.parametrize("rule", [lambda m, n: min(m, n), lambda m, n: int(m), lambda m, n: n or m])
def test_output_rule_that_is_not_total(rule: Any) -> None:
    """It fails on names, with what to use instead, and works on integers."""

    def infer_partly(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> Any:
        return (ArraySpec(inputs[0].dtype, (rule(*inputs[0].shape),)),)

    register_family("test.partly.v1", infer_partly)
    build = Builder()
    build.extension("test.partly.v1", build.input("f8", (2, 3)))
    with pytest.raises(EinloomError, match=r"known (only when|later).*"):
        build.extension("test.partly.v1", build.input("f8", ("m", "n")))


@pytest.mark.parametrize("outputs", [None, 3, ("f8",), ArraySpec(np.dtype("f8"), ())])
def test_output_rule_that_returns_no_specs(outputs: Any) -> None:
    register_family("test.wrong.v1", lambda attrs, inputs: outputs)
    build = Builder()
    with pytest.raises(ExtensionError, match=r"'test\.wrong\.v1' returned .*ArraySpec for each"):
        build.extension("test.wrong.v1", build.input("f8", (2,)))


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize("outputs", [(), (1,), (1, 2, 3)])
def test_wrong_number_of_outputs_in_a_program(outputs: tuple[int, ...]) -> None:
    """Read from a file, say."""
    x, y, z = (Slot(ArraySpec(np.dtype(name), (2,))) for name in ("f8", "i8", "f8"))
    matrix = Slot(ArraySpec(np.dtype("f8"), (2, 3)))
    ins = Instruction(f"extension:{NAME}", (("axis", 1),), (0,), outputs)
    with pytest.raises(ProgramError, match=r"yields float64\[2\], int64\[2\], its slots say"):
        verify(Program((matrix, x, y, z), (ins,), (0,), (0,)))


# ---- what is prepared ----------------------------------------------------------------------------


def weighted(made: list[Any], name: str = "test.weighted.v1", step: float = 1.0) -> None:
    """x times a table that depends on its length and on an attribute; `made` notes the tables."""

    def prepare(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> Any:
        (x,) = inputs
        made.append((attrs["power"], x.shape))
        return (step * np.arange(x.shape[0])) ** attrs["power"]

    def run(attrs: dict[str, Any], x: Any, *, prepared: Any) -> tuple[Any, ...]:
        return (x * prepared,)

    register_family(name, same)
    register_runtime(name, "cpu", run, prepare)


def same(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    return inputs


def program_of(power: Any, n: int = 3, twice: bool = False) -> Program:
    build = Builder()
    x = build.input("f8", (n,))
    (y,) = build.extension("test.weighted.v1", x, power=power)
    return build.finish(build("add", y, x) if twice else y)


def test_prepared_once_for_all_programs() -> None:
    """By attributes, dtypes and shapes; listed with the other caches, and emptied with them."""
    einloom.clear_caches()
    made: list[Any] = []
    weighted(made)
    first, second = (Executable(program_of(2, twice=twice), cpu()) for twice in (False, True))
    np.testing.assert_array_equal(first(np.ones(3)), [0, 1, 4])
    np.testing.assert_array_equal(second(np.ones(3)), [1, 2, 5])
    assert made == [(2, (3,))]
    assert einloom.cache_info()["extensions"][:2] == (1, 1)
    Executable(program_of(3), cpu())
    Executable(program_of(2, 4), cpu())
    Executable(program_of(2.0), cpu())  # equal to 2, but not the same attribute
    assert made[1:] == [(3, (3,)), (2, (4,)), (2.0, (3,))]
    einloom.clear_caches()
    assert einloom.cache_info()["extensions"].currsize == 0
    np.testing.assert_array_equal(first(np.ones(3)), [0, 1, 4])  # what it holds stays valid
    Executable(program_of(2), cpu())
    assert len(made) == 5


def test_nothing_old_is_prepared_for_a_new_runtime() -> None:
    made: list[Any] = []
    for step in (1.0, 10.0):
        weighted(made, step=step)
        np.testing.assert_array_equal(
            Executable(program_of(1), cpu())(np.ones(3)), [0, step, 2 * step]
        )
        unregister_family("test.weighted.v1")
    assert len(made) == 2


def test_another_preparation_is_refused() -> None:
    weighted([])
    with pytest.raises(ExtensionError, match="already has a runtime"):
        weighted([])


def test_prepared_by_many_threads() -> None:
    weighted([])
    program = program_of(2)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: Executable(program, cpu()), range(16)))
    for run in runs:
        np.testing.assert_array_equal(run(np.ones(3)), [0, 1, 4])


def test_errors_of_a_preparation_are_its_own() -> None:
    def prepare(attrs: dict[str, Any], inputs: tuple[ArraySpec, ...]) -> Any:
        raise ZeroDivisionError("no table")

    register_family("test.weighted.v1", same)
    register_runtime("test.weighted.v1", "cpu", lambda attrs, x, prepared: (x,), prepare)
    with pytest.raises(ZeroDivisionError, match="no table"):
        Executable(program_of(2), cpu())


# ---- the registry ------------------------------------------------------------------------------


def test_declaring_is_idempotent() -> None:
    one = register_family(NAME, infer)
    assert register_family(NAME, infer) is one
    assert family_of(NAME) is one
    for _ in range(2):
        register_runtime(NAME, "cpu", run)


def test_another_rule_is_refused() -> None:
    register_family(NAME, infer)
    with pytest.raises(ExtensionError, match=r"'test\.extremes\.v1' is already declared"):
        register_family(NAME, lambda attrs, inputs: inputs)
    assert family_of(NAME).infer is infer


@pytest.mark.usefixtures("family")
def test_second_runtime_is_refused() -> None:
    with pytest.raises(ExtensionError, match=r"already has a runtime on backend 'cpu'.*unregister"):
        register_runtime(NAME, "cpu", lambda attrs, x: run(attrs, x))
    register_runtime(NAME, "gpu", lambda attrs, x: run(attrs, x))  # one for each backend


@pytest.mark.usefixtures("family")
def test_unregistered_families_can_be_declared_anew() -> None:
    unregister_family(NAME)
    unregister_family(NAME)
    with pytest.raises(ExtensionError, match="is unknown"):
        family_of(NAME)
    register_family(NAME, infer)
    with pytest.raises(ExtensionError, match="no runtime"):
        bind_extension(NAME, "cpu", {}, ())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "svd",
        "linalg.svd",
        "linalg.svd.1",
        "linalg.svd.v0",
        "linalg.svd.v01",
        "linalg.svd.v1.1",
        "Linalg.svd.v1",
        "linalg.SVD.v1",
        "linalg svd.v1",
        "linalg..v1",
        ".svd.v1",
        "linalg.svd.v1\n",
        "2d.svd.v1",
    ],
)
def test_malformed_name(name: str) -> None:
    with pytest.raises(ExtensionError, match=r"malformed: write \"room\.op\.vN\""):
        register_family(name, infer)


def test_unknown_family_names_what_to_import() -> None:
    register_family(NAME, infer)
    for call in (
        lambda: family_of("linalg.svd.v1"),
        lambda: register_runtime("linalg.svd.v1", "cpu", run),
        lambda: bind_extension("linalg.svd.v1", "cpu", {}, ()),
        lambda: Builder().extension("linalg.svd.v1"),
    ):
        with pytest.raises(ExtensionError, match=r"einloom\.linalg.*Known: test\.extremes\.v1"):
            call()


def test_missing_runtime_is_no_fallback() -> None:
    register_family(NAME, infer)
    register_runtime(NAME, "gpu", run)
    build = Builder()
    program = build.finish(*extremes(build, build.input("f8", (2, 3))))
    with pytest.raises(ExtensionError, match="no runtime on backend 'cpu'; nothing else is tried"):
        Executable(program, cpu())


WRONG: dict[str, Any] = {
    "too few": lambda attrs, x: run(attrs, x)[:1],
    "too many": lambda attrs, x: (*run(attrs, x), x),
    "none": lambda attrs, x: (),
    "other order": lambda attrs, x: run(attrs, x)[::-1],
    "dtype": lambda attrs, x: (run(attrs, x)[0].astype("f4"), run(attrs, x)[1]),
    "shape": lambda attrs, x: (run(attrs, x)[0][:1], run(attrs, x)[1]),
    "no tuple": lambda attrs, x: run(attrs, x)[0],
    "nothing": lambda attrs, x: None,
    "no arrays": lambda attrs, x: (1.0, 2),
    "lists": lambda attrs, x: tuple(y.tolist() for y in run(attrs, x)),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_results_are_refused(what: str) -> None:
    """With what came back, and what was declared."""
    register_family(NAME, infer)
    register_runtime(NAME, "cpu", WRONG[what])
    build = Builder()
    executable = Executable(build.finish(*extremes(build, build.input("f8", (2, 3)))), cpu())
    with pytest.raises(ExtensionError, match=rf"'{NAME}' on 'cpu' returned .*declared") as caught:
        executable(np.ones((2, 3)))
    if what in ("dtype", "shape"):
        assert "float64[2], int64[2]" in str(caught.value)


def test_errors_of_a_runtime_are_its_own() -> None:
    def fails(attrs: dict[str, Any], x: Any) -> Any:
        raise np.linalg.LinAlgError("did not converge")

    register_family(NAME, infer)
    register_runtime(NAME, "cpu", fails)
    build = Builder()
    executable = Executable(build.finish(*extremes(build, build.input("f8", (2, 3)))), cpu())
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        executable(np.ones((2, 3)))


def test_eight_threads_register_one() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: register_family(NAME, infer), range(64)))
    assert all(one is found[0] for one in found)
