"""Many small products in one launch, beside NumPy's einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.tolerance import eps

from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import row_major
from einloom.backend.gpu.cuda.products import products
from einloom.backend.spec import dtype_from_name

Array = np.ndarray[Any, Any]
EQUATIONS = ("bmk,bkn->bmn", "kbm,nkb->mnb", "bi,bj->bij", "bkl,blk->b", "bm,bkn->bmn")
LONG = "kmb,bnk->nm"  # 185 terms, in warps
SIZES = {"b": 37, "m": 3, "n": 4, "k": 5, "l": 2, "i": 2, "j": 3}
DTYPES = ("bool", "int32", "uint8", "float16", "bfloat16", "float32", "float64", "complex64")
CONJ = (False, True)


def operands(equation: str, dtype: str) -> list[Array]:
    rng = np.random.default_rng(4)
    made = []
    for term in equation.partition("->")[0].split(","):
        parts = rng.integers(-4, 5, (2, *(SIZES[label] for label in term)))
        x = parts[0] + 1j * parts[1] if dtype.startswith("complex") else np.abs(parts[0])
        made.append(x.astype(dtype_from_name(dtype)))
    made[1] = made[1][::-1]
    return made


def kernel_of(equation: str, dtype: str) -> tuple[CudaKernel, list[Array]]:
    arrays = operands(equation, dtype)
    left, _, output = equation.partition("->")
    terms = left.split(",")
    strides = [dict(zip(t, strides_of(x), strict=True)) for t, x in zip(terms, arrays, strict=True)]
    summed = sorted({*terms[0], *terms[1]} - {*output})
    shape = tuple(SIZES[label] for label in output)
    of_free = [tuple(s.get(label, 0) for label in output) for s in strides]
    of_summed = [tuple(s.get(label, 0) for label in summed) for s in strides]
    kernel = products(
        dtype,
        (shape, row_major(shape), of_free[0], of_free[1]),
        (tuple(SIZES[label] for label in summed), of_summed[0], of_summed[1]),
        CONJ,
    )
    assert kernel is not None
    return kernel, arrays


CASES = [
    (equation, dtype)
    for at, equation in enumerate(EQUATIONS)
    for number, dtype in enumerate(DTYPES)
    if (at + number) % 2 == 0
]
CASES += [
    (LONG, name)
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator([kernel_of(*case)[0] for case in CASES], tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize(("equation", "dtype"), CASES)
def test_products(equation: str, dtype: str, emulate: Emulator) -> None:
    kernel, arrays = kernel_of(equation, dtype)
    shape = tuple(SIZES[label] for label in equation.partition("->")[2])
    out, memory = guarded(shape, arrays[0].dtype)
    emulate(kernel, out, *arrays)
    wide = np.int64 if out.dtype.kind in "iu" else bool if out.dtype.kind == "b" else np.complex128
    x, y = (operand.astype(wide) for operand in arrays)
    wanted = np.einsum(equation, x, y.conj() if wide is np.complex128 else y)
    if out.dtype.kind in "biu":
        np.testing.assert_array_equal(out, wanted.astype(out.dtype))
    else:
        np.testing.assert_allclose(out.astype(wide), wanted, eps(out.dtype))
    assert untouched(memory)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all([kernel_of(*case)[0] for case in CASES], architecture)
