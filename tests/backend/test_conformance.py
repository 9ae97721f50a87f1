"""Every kernel of every backend does what its row of the catalogue says, for every dtype and layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import (
    BACKENDS,
    CARDS,
    PATHS,
    RUNNERS,
    SUITE,
    can_say,
    cases,
    dtypes_of,
    get,
    path,
    put,
)
from tests.backend.calls import (
    CELLS,
    LAYOUTS,
    OF_THEIR_OWN,
    OUT_LAYOUTS,
    Call,
    arrangements,
    calls,
    junk,
    layouts_of,
    legal,
    missing_cells,
    operands,
    values,
)
from tests.backend.laws import Array, assert_means, meaning
from tests.backend.through_nx import more_dtypes
from tests.cases import lay_out

from einloom.backend.catalogue import CATALOGUE
from einloom.backend.dtypes import class_of, reaches
from einloom.backend.spec import ArraySpec, dtype_from_name, dtype_name

WITH_KERNEL = [op for op in CATALOGUE if any(op in one.capabilities() for one in BACKENDS.values())]
FROM_TABLE = [op for op in WITH_KERNEL if op not in OF_THEIR_OWN]
WRITING = [op for op in FROM_TABLE if not CATALOGUE[op].is_view]


@contextmanager
def noting(*what: object) -> Iterator[None]:
    """Name the cell in the traceback of what fails in it."""
    try:
        yield
    except Exception as error:
        error.add_note(", ".join(map(str, what)))
        raise


def paths(backend: str, op: str, name: str, call: Call) -> list[str]:
    """Ways through the kernels to compare: all, but those that would be compiled for this call alone."""
    if backend not in BACKENDS or CATALOGUE[op].is_view:
        return ["as shipped"]
    if op in REDUCTIONS and not (name in REDUCTIONS[op] and call.attrs["axes"] in FEW):
        return ["as shipped"]
    if op in COMPILED and name not in COMPILED[op]:
        return ["as shipped"]
    return [how for how in PATHS if how != "two threads" or name in THREADED]


def calls_of(backend: str, op: str, dtype: np.dtype[Any]) -> list[Call]:
    """Those in the table that a runner has words for, of which there are some."""
    found = [call for call in legal(op, dtype) if can_say(backend, call, dtype)]
    assert found or (op in ("fft", "ifft") and dtype.kind != "c")
    return found


# Handing work over takes longer than the work.
THREADED = ("int64", "float32", "bfloat16", "object")


# These are compiled for each dtype, or each element size, which takes seconds; see test_indexing.py.
COMPILED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("take", "take_along_axis"), ("int8", "bfloat16", "float32", "int64", "complex128")
    ),
    **dict.fromkeys(("scatter", "fold", "associative_scan"), ("float32", "float16")),
    "scatter_along_axis": ("int16", "float32", "float16"),
    **dict.fromkeys(("sort", "argsort"), ("float32", "int64", "bfloat16", "complex64", "object")),
    "threefry2x32": ("int32", "uint64"),
}

# A reduction is compiled for each dtype and arrangement of axes, which takes a second each; see
# test_reductions for many arrangements of a few dtypes.
REDUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("reduce_sum", "reduce_max"), ("float32",)),
    **dict.fromkeys(("reduce_prod", "reduce_min", "reduce_mean"), ()),
}
FEW = ((1, 4, 2),)


@pytest.mark.parametrize(("backend", "op", "name"), cases(FROM_TABLE, SUITE))
def test_law(backend: str, op: str, name: str, rng: np.random.Generator) -> None:
    """For every layout of the operands, which stay as they were; views share memory, others do not."""
    dtype = dtype_from_name(name)
    view = CATALOGUE[op].view
    for call in calls_of(backend, op, dtype):
        specs, outputs = call.specs(dtype), call.outputs(dtype)
        kernel = RUNNERS[backend].bind(op, call.attrs, specs, outputs)
        for layouts in arrangements(call, dtype):
            arrays = operands(call, dtype, layouts, rng)
            before = [x.tolist() for x in arrays]
            want = meaning(op, call.attrs, arrays, outputs)
            for how in paths(backend, op, name, call):
                with noting(call, layouts, how), path(how):
                    got = get(backend, kernel(*put(backend, *arrays)))
                    assert_means(got, op, call.attrs, arrays, outputs, want)
                    assert repr([x.tolist() for x in arrays]) == repr(before), "operand modified"
                    if backend not in CARDS:  # what was brought to the host is a copy
                        assert_memory(view, got, arrays)


def assert_memory(view: str, got: Any, arrays: list[Array]) -> None:
    for one in got if isinstance(got, tuple) else (got,):
        shared = any(np.shares_memory(one, x) for x in arrays)
        if view == "always":
            assert one.size == 0 or shared, "a copy"
        if view == "never":
            assert not shared, "a view"
            assert one.flags.writeable


@pytest.mark.parametrize(("backend", "op", "name"), cases(WRITING, SUITE))
def test_out(backend: str, op: str, name: str, rng: np.random.Generator) -> None:
    """`out` of any strides is written completely and returned."""
    dtype = dtype_from_name(name)
    for call in calls_of(backend, op, dtype):
        specs, outputs = call.specs(dtype), call.outputs(dtype)
        kernel = RUNNERS[backend].bind(op, call.attrs, specs, outputs)
        arrays = operands(call, dtype, "C", rng)
        want = meaning(op, call.attrs, arrays, outputs)
        layouts, hows = layouts_of(outputs[0].dtype, OUT_LAYOUTS), paths(backend, op, name, call)
        for k, layout in enumerate(layouts * 2):
            how = hows[(k + k // len(layouts)) % len(hows)]
            out = junk(outputs[0], layout, rng)
            with noting(call, "out", layout, how), path(how):
                (target,) = put(backend, out)
                assert kernel(*put(backend, *arrays), out=target) is target
                assert_means(get(backend, target), op, call.attrs, arrays, outputs, want)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "op", "name"), cases(REDUCTIONS))
def test_compiled_reductions(
    backend: str, op: str, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them."""
    monkeypatch.setitem(REDUCTIONS, op, (name,))
    monkeypatch.setattr(f"{__name__}.FEW", [call.attrs["axes"] for call in calls(op)])
    test_law(backend, op, name, rng)
    test_out(backend, op, name, rng)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "name"), [(op, x) for op in FROM_TABLE for x in more_dtypes(op)])
def test_more_dtypes_through_nx(op: str, name: str, rng: np.random.Generator) -> None:
    test_law("nx", op, name, rng)
    if op in WRITING:
        test_out("nx", op, name, rng)


def test_tables_are_complete() -> None:
    """Every op with a kernel has calls, and meets every layout that its operands can have."""
    for op in FROM_TABLE:
        assert calls(op), op
        assert missing_cells(op) <= CANNOT.get(op, set()), op
    assert set(CANNOT) <= set(FROM_TABLE)


FLAT = {"scalar"}  # these need an axis
CANNOT: dict[str, set[str]] = {
    **dict.fromkeys(("concatenate", "split", "extract_diagonal", "embed_diagonal"), FLAT),
    **dict.fromkeys(("tril", "triu", "argmax", "argmin", "matmul"), FLAT),
    **dict.fromkeys(
        ("associative_scan", "sort", "argsort", "unfold", "fold", "threefry2x32"), FLAT
    ),
    **dict.fromkeys(("take", "take_along_axis", "scatter_along_axis"), FLAT),
    **dict.fromkeys(("dynamic_slice", "dynamic_update_slice", "scatter"), FLAT),
    **dict.fromkeys(("gather", "gather_dynamic_slice_sizes"), FLAT),  # in vectors, none of them
    **dict.fromkeys(("rfft", "irfft"), FLAT),
    **dict.fromkeys(("slice_at", "shape_of", "dynamic_truncate", "pad_to_match"), FLAT),
}


def test_cells_are_those_nine() -> None:
    assert len(CELLS) == 9


# ---- conversions --------------------------------------------------------------------------------


CASTS = [(backend, name) for backend in SUITE for name in dtypes_of(backend, "cast")]


@pytest.mark.parametrize(("backend", "name"), CASTS)
def test_cast(backend: str, name: str, rng: np.random.Generator) -> None:
    """To every dtype; `convert` agrees where it is legal."""
    source = dtype_from_name(name)
    for target_name in dtypes_of(backend, "cast"):
        target = dtype_from_name(target_name)
        for shape in ((), (2, 3), (2, 1, 2, 3, 2), (0, 2)):
            for layout in layouts_of(source, LAYOUTS if len(shape) == 2 else ("C", "transposed")):
                output = ArraySpec(target, shape)
                x = lay_out(castable(rng, shape, source, target), layout, rng)
                attrs = {"dtype": target_name}
                want = meaning("cast", attrs, [x], (output,))
                ops = ["cast", "convert"] if reaches(source, target) else ["cast"]
                for op in ops:
                    for how in PATHS if name in THREADED else ("as shipped", "kernels forced"):
                        with noting(op, source, target, shape, layout, how), path(how):
                            check_cast(backend, op, x, output, want, rng)


def check_cast(
    backend: str, op: str, x: Array, output: ArraySpec, want: Any, rng: np.random.Generator
) -> None:
    attrs = {"dtype": dtype_name(output.dtype)}
    (given,) = put(backend, x)
    got = get(backend, RUNNERS[backend].apply(op, attrs, given))
    assert_means(got, op, attrs, [x], output, want)
    (out,) = put(backend, junk(output, "transposed", rng))
    assert RUNNERS[backend].apply(op, attrs, given, out=out) is out
    assert_means(get(backend, out), op, attrs, [x], output, want)


def castable(
    rng: np.random.Generator, shape: tuple[int, ...], source: np.dtype, target: np.dtype
) -> Array:
    """Every bit of the source; what goes through Python objects fits the narrowest dtype."""
    if source.kind == "O":
        return values(rng, shape, source, target)
    x = values(rng, shape, source)
    if class_of(source) in ("float", "complex") and target.kind != "O":
        return x * np.asarray(8, source) if source.kind == "V" else (x * 100).astype(source)
    return x


@pytest.mark.parametrize("name", dtypes_of("cpu", "constant"))
@pytest.mark.parametrize("backend", BACKENDS)
def test_constant(backend: str, name: str) -> None:
    dtype = dtype_from_name(name)
    for value in (True, 0, 1, 5, 0.5, -0.0, 1 - 2j):
        if isinstance(value, complex) and dtype.kind not in "cO":
            continue
        attrs = {"value": value, "dtype": name}
        got = get(backend, BACKENDS[backend].apply("constant", attrs))
        assert_means(got, "constant", attrs, [], ArraySpec(dtype, ()))
        assert not got.flags.writeable  # all calls share it
