"""Other libraries as engines, einloom.fft as a backend of scipy.fft, and plans."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.fft
from tests.fft.cases import numbers

import einloom
from einloom import CallError, OptionError, ShapeError, Unsupported, fft, options
from einloom.backend.cpu import fft_native
from einloom.fft.backend import FUNCTIONS

X = np.arange(24.0).reshape(2, 3, 4)
Z = X + 1j * X[::-1]


class Library:
    """A backend of scipy.fft that has two functions and notes what it is asked."""

    __ua_domain__ = "numpy.scipy.fft"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __ua_function__(self, method: Any, args: Any, kwargs: Any) -> Any:
        self.asked.append(method.__name__)
        if method.__name__ not in ("fft", "rfftn"):
            return NotImplemented
        kwargs = {key: value for key, value in kwargs.items() if key in ("n", "s", "axis", "axes")}
        return getattr(np.fft, method.__name__)(*args, **kwargs)


@pytest.fixture
def library() -> Iterator[Library]:
    one = Library()
    fft.set_engine(one)
    try:
        yield one
    finally:
        fft.set_engine("scipy")


def test_engine_is_asked(library: Library) -> None:
    assert fft.get_engine() == "Library"
    assert np.array_equal(fft.fft(X, 5, axis=1), np.fft.fft(X, 5, axis=1))
    assert np.array_equal(fft.rfftn(X, axes=(0, 1)), np.fft.rfftn(X, axes=(0, 1)))
    out = np.empty((2, 3, 4), complex)
    assert fft.fft(X, out=out) is out
    assert np.array_equal(out, np.fft.fft(X))
    assert library.asked == ["fft", "rfftn", "fft"]


def test_scipy_does_what_the_engine_lacks(library: Library) -> None:
    with scipy.fft.set_backend(fft):  # which is not asked in return
        got = fft.dctn(X, 3, norm="ortho")
    assert np.allclose(got, scipy.fft.dctn(X, 3, norm="ortho"))
    assert library.asked == ["dctn"]


def test_engine_of_a_block() -> None:
    one = Library()
    with fft.use_engine(one):
        fft.fft(X)
    fft.fft(X)
    assert one.asked == ["fft"]
    with pytest.raises(OptionError, match="cannot be imported"), fft.use_engine("pyfftw"):
        pytest.skip("pyfftw is installed")
    assert fft.get_engine() == "scipy"


@pytest.mark.parametrize("name", ["mkl_fft", "pyfftw"])
def test_installed_engines(name: str) -> None:
    pytest.importorskip(name)
    if name == "mkl_fft":
        pytest.importorskip("mkl", reason="mkl_fft imports mkl-service, which it does not ask for")
    with fft.use_engine(name):
        assert np.allclose(fft.fft(Z), np.fft.fft(Z))
        assert np.allclose(fft.dct(X), scipy.fft.dct(X))


def test_public_functions_serve_where_compiled_ones_are_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fft_native, "MODULES", ("scipy.fft._nothing",))
    fft_native.native.cache_clear()
    try:
        assert fft_native.native().name == "scipy.fft"
        fft_native._try_out(fft_native.native())
        with scipy.fft.set_backend(fft):
            for name in ("fft", "ifftn", "hfft", "ihfftn", "irfftn"):
                want = getattr(np.fft, name, None)
                x = X if name == "ihfftn" else Z
                got = getattr(fft, name)(x, norm="ortho")
                if want is not None:
                    assert np.allclose(got, want(x, norm="ortho"))
            assert np.allclose(fft.idst(fft.dst(X, 2), 2), X)
        out = np.empty_like(Z)
        assert fft.fft(Z, out=out) is out
        assert np.allclose(out, np.fft.fft(Z))
    finally:
        monkeypatch.undo()
        fft_native.native.cache_clear()


def test_compiled_functions_are_found() -> None:
    assert fft_native.native().name in fft_native.MODULES


# ---- as a backend of scipy.fft ------------------------------------------------------------------


def test_every_function_of_scipy() -> None:
    assert set(scipy.fft.__all__) - set(fft.__all__) == {
        "set_backend", "skip_backend", "set_global_backend", "register_backend",
    }  # fmt: skip
    dispatched = {
        name for name in scipy.fft.__all__ if hasattr(getattr(scipy.fft, name), "arg_extractor")
    }
    assert dispatched <= set(FUNCTIONS)


def call(module: Any, name: str) -> Any:
    function = getattr(module, name)
    if name in ("fht", "ifht"):
        return function(X, 0.1, 1.0, offset=0.2, bias=0.1)
    return (
        function(Z if name.lstrip("i")[:2] != "hf" or name[0] != "i" else X, norm="ortho")
        if ("rfft" not in name.replace("irfft", ""))
        else function(X, norm="ortho")
    )


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_backend_of_scipy(name: str) -> None:
    want = call(fft, name)
    theirs = call(scipy.fft, name)
    asked = []

    class Counted:
        __ua_domain__ = fft.__ua_domain__

        @staticmethod
        def __ua_function__(method: Any, args: Any, kwargs: Any) -> Any:
            asked.append(method.__name__)
            return fft.__ua_function__(method, args, kwargs)

    with scipy.fft.set_backend(Counted, only=True):
        got = call(scipy.fft, name)
    assert asked == [name]
    assert np.array_equal(got, want)
    assert np.allclose(got, theirs, rtol=1e-10)
    with scipy.fft.set_backend(fft), scipy.fft.skip_backend(fft):
        assert np.allclose(call(scipy.fft, name), theirs)


def test_module_as_global_backend() -> None:
    scipy.fft.set_global_backend(fft)
    try:
        assert np.array_equal(scipy.fft.dct(X, 3), fft.dct(X, 3))
        assert np.array_equal(scipy.fft.fft(X, workers=2), fft.fft(X))
        with scipy.fft.set_workers(2):
            assert np.array_equal(scipy.fft.fftn(Z), fft.fftn(Z))
            assert np.array_equal(scipy.fft.dctn(X), fft.dctn(X))
        with pytest.raises(ShapeError):
            scipy.fft.fft(X, 0)
    finally:
        scipy.fft.set_global_backend("scipy")


# ---- plans --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft", "idct", "dst"])
def test_plans(kind: str) -> None:
    rng = np.random.default_rng(1)
    is_real = kind in ("rfft", "ihfft", "idct", "dst")
    dtype = "float32" if is_real else "complex64"
    x = numbers(rng, (5, 6, 7), dtype)
    n = 13 if kind in ("irfft", "hfft") else None
    plan = fft.plan(x.shape, 2, dtype, kind=kind, norm="ortho", n=n)
    lengths = {} if n is None else {"n": n}
    want = getattr(fft, kind)(x, norm="ortho", **lengths)
    assert np.array_equal(plan(x), want)
    assert np.array_equal(getattr(fft, kind)(x, norm="ortho", plan=plan, **lengths), want)
    out = np.empty_like(want)
    assert plan(x, out=out) is out
    assert (plan.result.dtype, plan.result.shape) == (want.dtype, want.shape)
    for wrong in (x[:3], x.astype("longdouble" if is_real else "clongdouble")):
        with pytest.raises(ShapeError, match="made for"):
            plan(wrong)
        with pytest.raises(ShapeError, match="the plan is for"):
            getattr(fft, kind)(wrong, norm="ortho", plan=plan, **lengths)
    with pytest.raises(CallError, match="other options"):
        getattr(fft, kind)(x, plan=plan, **lengths)
    with fft.use_engine(Library()), pytest.raises(Unsupported, match="plans are for SciPy"):
        plan(x)


def test_plans_say_what_will_run() -> None:
    with options(threads=2):
        text = fft.plan((300, 64, 512), (0, 1), np.complex64, norm="forward").describe()
        assert text.splitlines()[0].startswith("fft of complex64[300,64,512] along (0, 1)")
        assert "divided by its length" in text
        assert "2 threads" in text
        assert text.count("a line in every lane") == 2
        many = fft.plan((5000, 16, 11), (1, 2), np.float64, kind="rfft").describe()
        assert "members of the batch shared out" in many
        cubes = fft.plan((200, 32, 32, 32), (1, 2, 3), np.complex64).describe()
        assert "members of the batch shared out" in cubes
        squares = fft.plan((5000, 16, 16), (1, 2), np.float64, kind="rfft").describe()
        assert squares.count("a line in every lane") == 2
        assert "shared out" not in squares
        long = fft.plan(1 << 20).describe()
        assert "one call of the library" in long
        lines = fft.plan((300, 509), 1).describe()
        assert "lines shared out along axis 0" in lines
        columns = fft.plan((300, 509), 0, order="F").describe()
        assert "lines shared out along axis 1" in columns
    assert hash(fft.plan((4, 4))) == hash(fft.plan((4, 4)))
    assert "fft steps" in einloom.cache_info()
    json.dumps(text)


def test_several_threads_at_once() -> None:
    rng = np.random.default_rng(2)
    arrays = [numbers(rng, (90, 70 + k, 40), "complex64") for k in range(6)]
    wanted = [np.fft.fftn(x, axes=(0, 2)) for x in arrays]
    failures: list[Any] = []

    def work(k: int) -> None:
        for _ in range(4):
            with options(small=0, threads=2):
                got = fft.fftn(arrays[k], axes=(0, 2))
            if not np.allclose(got, wanted[k], rtol=1e-3, atol=1e-3):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- previously failed --------------------------------------------------------------------------


def test_engine_of_a_block_is_of_one_thread() -> None:
    one = Library()
    seen: list[str] = []

    def work() -> None:
        seen.append(fft.get_engine())
        fft.fft(X)

    with fft.use_engine(one):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert fft.get_engine() == "Library"
        with fft.use_engine("scipy"):
            fft.fft(X)
    assert seen == ["scipy"]
    assert not one.asked


def test_blocks_that_overlap_leave_nothing_behind() -> None:
    inside, done = threading.Event(), threading.Event()

    def work() -> None:
        with fft.use_engine(Library()):
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    with fft.use_engine("scipy"):
        thread.start()
        inside.wait(10)
    done.set()
    thread.join()
    assert fft.get_engine() == "scipy"


def test_process_engine_reaches_threads(library: Library) -> None:
    thread = threading.Thread(target=fft.fft, args=(X,))
    thread.start()
    thread.join()
    assert library.asked == ["fft"]
