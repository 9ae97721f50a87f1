"""Programs as CUDA graphs: launches are recorded and played again, by NumPy in the place of CuPy."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import RECORDING, needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.stand_in import DeviceArray, invalidated

import einloom
from einloom._base.errors import ShapeError, Unsupported
from einloom.contract.expression import Expression
from einloom.program.builder import Builder
from einloom.program.executable import Executable


def executable(function: Any, *shapes: tuple[int, ...], backend: Any = COMPILING) -> Executable:
    """With chains as kernels, however short they are."""
    program = einloom.trace(function, *shapes, dtype="float32").bind(shapes)
    with einloom.options(small=0):
        return Executable(program, backend)


def chain(x: Any, y: Any) -> Any:
    """A chain that is fused, and many small products."""
    return einloom.einsum("bij,bjk->bik", abs(x) + x * x, y)


@needs_compiler
def test_played_again() -> None:
    """On what the arrays then hold; results are the same arrays, in a pool that is the graph's."""
    run = executable(chain, (20, 3, 3), (20, 3, 3))
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((20, 3, 3)).astype("f4") for _ in range(2))
    before = len(COMPILING.xp.allocators)
    captured: Any = run.capture(x.view(DeviceArray), y.view(DeviceArray))
    assert len(COMPILING.xp.allocators) == before + 1
    assert not RECORDING
    for _ in range(2):
        with launches() as launched:
            found = captured()
        assert not launched  # no kernel by itself
        assert found is captured.results
        want = np.einsum("bij,bjk->bik", np.abs(x) + x * x, y)
        np.testing.assert_allclose(found.view(np.ndarray), want, rtol=1e-5, atol=1e-5)
        x[...] = rng.standard_normal(x.shape)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_small_products_that_are_added(dtype: str) -> None:
    """Previously failed: what was said to be a launch of our own called cuBLAS."""
    b = Builder()
    x, y, acc = (b.input(dtype, shape) for shape in ((20, 3, 4), (20, 4, 2), (20, 3, 2)))
    attrs = {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}
    run = Executable(b.finish(b("dot_general_add", x, y, acc, alpha=2, **attrs)), COMPILING)
    rng = np.random.default_rng(3)
    arrays = [
        rng.integers(-4, 5, spec.shape).astype(dtype).view(DeviceArray)
        for spec in run.program.specs(run.program.inputs)
    ]
    COMPILING.xp.routines.called.clear()
    want = 2 * (arrays[0].view(np.ndarray) @ arrays[1].view(np.ndarray)) + arrays[2].view(
        np.ndarray
    )
    np.testing.assert_array_equal(run(*arrays).view(np.ndarray), want)
    captured: Any = run.capture(*arrays)
    assert captured.graph.launches
    assert not COMPILING.xp.routines.called


def test_refused() -> None:
    """What waits for the device, and whatever CuPy refuses: by name, before anything runs."""
    run = executable(lambda x: einloom.linalg.cholesky(x), (3, 3))
    with pytest.raises(Unsupported, match="cholesky"):
        run.capture(np.ones((3, 3), "f4").view(DeviceArray))
    build = Builder()
    x, places = build.input("float32", (9,)), build.input("int64", (3,))
    sorts = Executable(build.finish(build("take", x, places, axis=0)), COMPILING)
    with pytest.raises(Unsupported, match=r"take.* cannot be captured on gpu:0"):
        sorts.capture(*(np.ones(n, t).view(DeviceArray) for n, t in ((9, "f4"), (3, "i8"))))


def test_products_by_cublas() -> None:
    """Past CuPy, which refuses them while a stream is captured: recorded, and played again."""
    run = executable(lambda x, y: x @ y, (100, 90), (90, 80))
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(shape).astype("f4") for shape in ((100, 90), (90, 80)))
    captured: Any = run.capture(x.view(DeviceArray), y.view(DeviceArray))
    assert len(captured.graph.launches) == 1
    COMPILING.xp.routines.called.clear()
    for _ in range(2):
        np.testing.assert_allclose(captured().view(np.ndarray), x @ y, rtol=1e-4, atol=1e-4)
        assert not COMPILING.xp.routines.called
        y[...] = rng.standard_normal(y.shape)


def test_expressions() -> None:
    """Played on what the arrays then hold; what waits, or is compiled for the host, is refused."""
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(shape) for shape in ((30, 40), (40, 50), (50, 20))]
    plan = einloom.plan("ij,jk,kl->il", *arrays)
    captured: Any = Expression(plan, backend=COMPILING).capture(
        *(x.view(DeviceArray) for x in arrays)
    )
    for _ in range(2):
        want = arrays[0] @ arrays[1] @ arrays[2]
        np.testing.assert_allclose(captured().view(np.ndarray), want, atol=1e-10)
        arrays[1][...] = rng.standard_normal((40, 50))
    with pytest.raises(Unsupported, match="no graphs on cpu"):
        Expression(plan).capture(*arrays)
    sliced = Expression(replace(plan, sliced=(1,)), backend=COMPILING)
    with pytest.raises(Unsupported, match="slices"):
        sliced.capture(*(x.view(DeviceArray) for x in arrays))
    with pytest.raises(ShapeError):
        Expression(plan, backend=COMPILING).capture(*(x[:2].view(DeviceArray) for x in arrays))
    with pytest.raises(Unsupported, match="on the host"):
        Expression(plan, backend=COMPILING).capture(*arrays)


def test_not_on_the_cpu() -> None:
    run = executable(lambda x: x + x, (3,), backend=einloom.backend.get())
    with pytest.raises(Unsupported, match="no graphs on cpu"):
        run.capture(np.ones(3, "f4"))


@needs_compiler
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_fails_while_it_is_captured(
    monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    """The stream is free again, and the error says which step. Previously failed: that the capture had become
    invalid was said instead; and nothing ended it when the user interrupted it."""
    run = executable(lambda x: 2 * abs(x) + x, (7,))
    x = np.ones(7, "f4").view(DeviceArray)

    def empty(*args: Any, **keywords: Any) -> Any:
        if RECORDING and is_interrupted:
            raise KeyboardInterrupt
        if RECORDING:
            invalidated("operation not permitted when stream is capturing")
        return np.empty(*args, **keywords).view(DeviceArray)

    monkeypatch.setattr(COMPILING.xp, "empty", empty, raising=False)
    said = None if is_interrupted else "not permitted when stream is capturing"
    with pytest.raises(KeyboardInterrupt if is_interrupted else Unsupported, match=said):
        run.capture(x)
    assert not RECORDING


@needs_compiler
def test_what_is_found_when_the_capture_ends() -> None:
    """A step went on after an error."""
    run = executable(lambda x: 2 * abs(x) + x, (7,))
    settled = run.settled()

    def going_on(*arrays: Any) -> Any:
        found = settled(*arrays)
        if RECORDING:
            with suppress(RuntimeError):
                invalidated("cuBLAS")
        return found

    with pytest.raises(Unsupported, match="CaptureInvalidated"):
        COMPILING.capture(going_on, [np.ones(7, "f4").view(DeviceArray)])
    assert not RECORDING
