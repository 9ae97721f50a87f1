"""What is exported means the same elsewhere: XLA parses it, compiles it and agrees with the laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import Call, calls, legal, operands
from tests.backend.laws import assert_means, meaning
from tests.program.programs import by_laws, random_arrays, random_indices, random_program

import einloom
from einloom import Unsupported, linalg, trace
from einloom.backend.catalogue import CATALOGUE
from einloom.interop import stablehlo
from einloom.interop.hlo import RULES
from einloom.program.builder import Builder
from einloom.program.ir import Program

jax = pytest.importorskip("jax", reason="XLA comes with the extra `bench`")
pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]
DTYPES = ("bool", "int8", "int32", "uint32", "int64", "float16", "float32", "float64", "complex128")


@pytest.fixture(autouse=True)
def _double_precision() -> Any:
    with jax.enable_x64(True):
        yield


def run(text: str, arrays: Sequence[Array]) -> list[Array]:
    """The text, parsed, verified, compiled and run on the CPU."""
    from jax._src.interpreters.mlir import make_ir_context
    from jax._src.lib import _jax, xla_client
    from jaxlib.mlir import ir

    device = jax.devices("cpu")[0]
    with make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        devices, options = _jax.DeviceList((device,)), xla_client.CompileOptions()
        compiled = device.client.compile_and_load(module, devices, options, [])
    given = [jax.device_put(np.ascontiguousarray(x).reshape(x.shape), device) for x in arrays]
    made = compiled.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(shards[0]) for shards in made]


def one_op(call: Call, dtype: str) -> Program:
    build = Builder()
    inputs = [build.input(spec.dtype, spec.shape) for spec in call.specs(np.dtype(dtype))]
    return build.finish(*build.several(call.op, *inputs, **call.attrs))


TABLE = [op for op in CATALOGUE if op in RULES and calls(op)]


@pytest.mark.parametrize("op", TABLE)
def test_ops(op: str) -> None:
    rng = np.random.default_rng(7)
    tried = 0
    for dtype in DTYPES:
        for call in legal(op, np.dtype(dtype)):
            arrays = operands(call, dtype, "C", rng)
            try:
                text = stablehlo(one_op(call, dtype))
            except Unsupported:
                assert dtype == "complex128", call
                continue
            outputs = call.outputs(np.dtype(dtype))
            try:
                got = run(text, arrays)
                assert_agree(got, call, arrays, outputs)
            except Exception as error:
                error.add_note(f"{call} {dtype}\n{text}")
                raise
            tried += 1
    assert tried


def assert_agree(got: list[Array], call: Call, arrays: list[Array], outputs: Any) -> None:
    """Within the bounds of the laws; XLA's complex logarithms miss those, by a few units."""
    if call.op in ("log", "log1p") and outputs[0].dtype.kind == "c":
        want = meaning(call.op, call.attrs, arrays, outputs)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    else:
        made = tuple(got) if len(got) > 1 else got[0]
        assert_means(made, call.op, call.attrs, arrays, outputs)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    program = random_program(seed)
    arrays, indices = random_arrays(program, seed), random_indices(program, seed)
    try:
        text = stablehlo(program)
    except Unsupported:
        return
    given = [*arrays, *(np.asarray(n, np.int64) for n in indices)]
    for got, want in zip(run(text, given), by_laws(program, arrays, indices), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrices(dtype: str) -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        lower, upper = linalg.cholesky(a), linalg.cholesky(a, upper=True)
        left = linalg.solve_triangular(lower, b, lower=True, trans="C")
        return lower, upper, left, linalg.solve_triangular(upper, c, side="right")

    shapes = [(4, 3, 3), (4, 3, 2), (4, 2, 3)]
    program = trace(fn, *(f"{dtype}[{','.join(map(str, shape))}]" for shape in shapes)).bind(shapes)
    rng = np.random.default_rng(3)
    x, b, c = (np.asarray(rng.normal(size=s) + 1j * rng.normal(size=s)) for s in shapes)
    x, b, c = (y if dtype == "complex128" else y.real for y in (x, b, c))
    arrays = [y.astype(dtype) for y in (x @ x.conj().swapaxes(1, 2) + np.eye(3), b, c)]
    for got, want in zip(run(stablehlo(program), arrays), fn(*arrays), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-6)


def test_expressions() -> None:
    """The equations of the corpus of the benchmarks at home: planned, lowered, exported."""
    rng = np.random.default_rng(5)
    for equation, *shapes in (
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
        ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("iij,jk->ik", (3, 3, 2), (2, 4)),
        ("ab,ac,ad->bcd", (3, 2), (3, 4), (3, 2)),
        ("abc,bd,cd->ad", (2, 3, 4), (3, 2), (4, 2)),
        ("i->", (7,)),
    ):
        arrays = [rng.normal(size=shape) for shape in shapes]
        text = stablehlo(einloom.compile(equation, *shapes).program)
        (got,) = run(text, arrays)
        np.testing.assert_allclose(got, einloom.einsum(equation, *arrays), rtol=1e-12)
