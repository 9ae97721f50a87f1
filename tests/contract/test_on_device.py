"""einsum, expressions, functions and transforms of arrays on a device: NumPy in the place of a GPU."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import STAND_INS
from tests.backend.stand_in import DeviceArray
from tests.cases import Case, random_cases
from tests.oracles import check

import einloom
from einloom._base.errors import ConversionError, DTypeError, OptionError, ShapeError, Unsupported
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.contract.expression import Expression

GPU = STAND_INS["gpu"]
OPTIMIZE = ("auto", "greedy", True)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: GPU)
    yield
    unregister_arrays(DeviceArray)


def on_device(*operands: Any, out: Any = None, **keywords: Any) -> Any:
    """einsum with all arrays on the device, the result as einsum of the host gives it."""
    given = [x.view(DeviceArray) if isinstance(x, np.ndarray) else x for x in operands]
    if out is not None:
        found = einloom.einsum(*given, out=out.view(DeviceArray), **keywords)
        assert type(found) is DeviceArray
        return out
    found = einloom.einsum(*given, **keywords)
    assert type(found) is DeviceArray, "left the device"
    plain = found.view(np.ndarray)
    return plain if plain.ndim else plain[()]


def runs(case: Case) -> bool:
    """A device has numbers of native order, and fewer kinds of them."""
    names = {*case.dtypes, case.dtype, case.out} - {None}
    if "swapped" in (*case.layouts, case.out_layout):
        return False
    return all(np.dtype(x).isnative and np.dtype(x).char not in "gGO" for x in names if x)


def check_many(seed: int, n: int) -> None:
    for k, case in enumerate(filter(runs, random_cases(seed, n))):
        check(on_device, case, [OPTIMIZE[k % len(OPTIMIZE)]], against_numpy=False)


def test_random() -> None:
    check_many(7, 100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many(seed: int) -> None:
    check_many(seed, 500)


# ---- nothing moves -------------------------------------------------------------------------------


def test_mixed_operands() -> None:
    x, y = np.ones((2, 2)), GPU.to_device(np.ones((2, 2)))
    with pytest.raises(Unsupported, match=r"einsum: operand 0 is on the host.*to_device\(x\)"):
        einloom.einsum("ij,jk", x, y)
    with pytest.raises(Unsupported, match=r"einsum.out=.*: operand 0 is on the host"):
        einloom.einsum("ij,jk", y, y, out=x)
    with pytest.raises(ConversionError, match="list"):
        einloom.einsum("ij,jk", y, [[1.0, 2.0]] * 2)
    with pytest.raises(Unsupported, match=r"kron: operand 0 is on the host"):
        einloom.kron(x, y)


# ---- expressions ---------------------------------------------------------------------------------


def test_expression() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2)))
    plan = einloom.plan("ij,jk,kl->il", a, b, c, constants=(1, 2))
    expr = Expression(plan, {1: b, 2: c}, GPU)
    x = GPU.to_device(a)
    got = expr(x)
    np.testing.assert_allclose(GPU.to_host(got), a @ b @ c)
    out = GPU.to_device(np.ones((3, 2)))
    assert expr(x, out=out, alpha=2, beta=3) is out
    np.testing.assert_allclose(GPU.to_host(out), 2 * (a @ b @ c) + 3)
    np.testing.assert_allclose(GPU.to_host(expr(x, alpha=2)), 2 * (a @ b @ c))
    with pytest.raises(Unsupported, match="is on the host"):
        expr(a)
    with pytest.raises(ShapeError):
        expr(x[:2])
    with pytest.raises(DTypeError):
        expr(x.astype("f4"))
    with pytest.raises(OptionError, match="beta scales"):
        expr(x, beta=1)
    for call in (expr.submit, expr.run_slices, expr.explain):
        with pytest.raises(Unsupported, match="runs on gpu:0"):
            call(x)
    assert "dot_general" in expr.explain()


def test_slices_are_refused() -> None:
    plan = replace(einloom.plan("ij,jk->ik", (2, 30), (30, 2)), sliced=(1,))
    with pytest.raises(Unsupported, match="slices do not run on gpu:0"):
        Expression(plan, backend=GPU)


def test_exponents() -> None:
    x = GPU.to_device(np.full(3, 1e200))
    mantissa, exponent = einloom.einsum("i,i->", x, x, strip_exponent=True)
    assert type(mantissa) is DeviceArray
    assert (round(float(GPU.to_host(mantissa)), 9), exponent) == (3.0, 400.0)


def test_devices_of_expressions() -> None:
    expr = einloom.compile("ij,jk->ik", (2, 3), (3, 2), device="cpu:0")
    assert pickle.loads(pickle.dumps(expr)).backend is einloom.backend.get("cpu")
    with pytest.raises(OptionError, match="device='tpu'"):
        einloom.compile("ij,jk->ik", (2, 3), (3, 2), device="tpu")


# ---- functions and transforms --------------------------------------------------------------------


def test_functions() -> None:
    x = np.random.default_rng(1).standard_normal((4, 4))
    y = GPU.to_device(x)
    for name in ("logsumexp", "softmax", "cumsum", "diagonal", "trace_of_matrix"):
        function = getattr(einloom, name, None)
        if function is None:
            continue
        got = function(y, axis=0) if name != "diagonal" else function(y)
        want = function(x, axis=0) if name != "diagonal" else function(x)
        assert type(got) is DeviceArray, name
        np.testing.assert_allclose(GPU.to_host(got), want)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "ifftn", "rfftn", "hfft"])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_transforms(name: str, norm: str | None) -> None:
    x = np.random.default_rng(2).standard_normal((4, 6))
    function = getattr(einloom.fft, name)
    got = function(GPU.to_device(x), norm=norm)
    assert type(got) is DeviceArray
    np.testing.assert_allclose(GPU.to_host(got), function(x, norm=norm), atol=1e-14)


def test_planners_of_the_user_are_asked_each_time() -> None:
    """Previously failed: the device remembered the first answer."""
    asked = []

    def last(inputs: Any, output: Any, sizes: Any, memory_limit: Any = None) -> Any:
        asked.append(len(inputs))
        return [(0, 1), (0, 1)]

    x = GPU.to_device(np.ones((2, 2))).view(DeviceArray)
    for _ in range(3):
        einloom.einsum("ab,bc,cd->ad", x, x, x, optimize=last)
    assert asked == [3, 3, 3]


def test_constants_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("einloom.contract.api"), "get", lambda device: GPU)
    x = np.arange(4.0).reshape(2, 2)
    y = GPU.to_device(x).view(DeviceArray)
    expression = einloom.compile("ab,bc->ac", (2, 2), y, constants=(1,), device="gpu")
    np.testing.assert_array_equal(GPU.to_host(expression(y)), x @ x)
