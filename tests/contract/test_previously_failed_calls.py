"""Calls that failed once: one test for each, so that it stays mended."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.caches import Cache


def test_messages_name_the_call_that_was_made() -> None:
    for call, run in {
        "ncon": lambda: einloom.ncon([np.ones((2, 2, 2))], [[1, 1]]),
        "tensordot": lambda: einloom.tensordot(np.array(["a"]), np.array(["b"]), 0),
        "transpose": lambda: einloom.transpose(np.ones((2, 3)), out=np.ones(2)),
    }.items():
        with pytest.raises(einloom.EinloomError, match=f"^{call}"):
            run()


def test_masked_out_is_refused() -> None:
    out = np.ma.masked_all((2, 2))
    with pytest.raises(einloom.DTypeError, match="out must be"):
        einloom.einsum("ij->ji", np.ones((2, 2)), out=out)


@pytest.mark.parametrize("conj", [None, 0])
def test_conj_without_positions(conj: object) -> None:
    with pytest.raises(einloom.CallError, match="conj"):
        einloom.einsum("i->i", np.ones(2), conj=conj)


def test_conj_is_read_at_the_call() -> None:
    """A view of a dict as conj must not be remembered by its identity."""
    x, positions = np.array([1j]), {"a": 0}
    conj = positions.values()
    assert einloom.einsum("i->i", x, conj=conj)[0] == -1j
    positions.clear()
    assert einloom.einsum("i->i", x, conj=conj)[0] == 1j


def test_wide_sums_of_float32() -> None:
    ones = np.ones((2**25, 2), np.float32)
    assert einloom.einsum("ij->j", ones).tolist() == [2.0**25, 2.0**25]


def test_dtype_names_of_ml_dtypes() -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 is the lowprec extra")
    assert einloom.einsum("i,i->", [1.0], [2.0], dtype="bfloat16", casting="unsafe") == 2


def test_tensordot_reads_no_string_as_subscripts() -> None:
    with pytest.raises(einloom.EinloomError, match=r"^tensordot"):
        einloom.tensordot("ij", np.ones(2), 0)


def test_a_cache_is_bounded_by_weight() -> None:
    cache: Cache[str] = Cache("test weight", 10, weigh=len)
    for text in ("aaaa", "bbbb", "cccc"):
        cache.put(text, text)
    assert cache.get("aaaa") is None
    assert cache.get("cccc") == "cccc"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_no_lock_survives_a_fork() -> None:
    """A cache whose lock another thread holds at the fork must work in the child."""
    cache: Cache[int] = Cache("test fork", 4)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with cache._lock:
            held.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    child = os.fork()
    if child == 0:
        cache.put("x", 1)
        os._exit(0 if cache.get("x") == 1 else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("layout", ["C", "F"])
def test_views_of_conjugated_and_of_converted_operands(layout: Any) -> None:
    """A compiled transposition went by strides alone."""
    z = np.asarray(np.arange(6).reshape(2, 3) * (1 + 2j), order=layout)
    np.testing.assert_array_equal(einloom.compile("ij->ji", z, conj=[0])(z), z.conj().T)
    x = np.asarray(np.arange(6.0).reshape(2, 3), order=layout)
    narrow = einloom.compile("ij->ji", x, dtype="f4")(x)
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow, x.T)
    wide = einloom.compile("ij->ji", narrow.T, dtype="f8")(narrow.T.copy(order=layout))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, x.T)


def test_the_number_of_threads_is_not_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """How products are shared out was that of the first call."""
    from einloom.backend.cpu import sharing

    x, ways = np.ones((400, 400)), []
    run = sharing.multiply

    def noted(left: Any, right: Any, product: Any, way: Any) -> Any:
        ways.append(way)
        return run(left, right, product, way)

    monkeypatch.setattr("einloom.backend.cpu.matrices.multiply", noted)
    einloom.clear_caches()
    for threads, want in ((1, []), (2, ["rows"]), (1, [])):
        ways.clear()
        with einloom.options(threads=threads, small=1):
            einloom.einsum("ij,jk,ik->ik", x, x, x)
        assert ways == want


def test_garbage_is_collected_in_optimizers_of_the_user() -> None:
    """It was switched off in the whole process, and on again whatever they had done."""
    seen = []

    def last(inputs: Any, output: Any, sizes: Any, memory_limit: Any = None) -> Any:
        seen.append(gc.isenabled())
        gc.disable()
        return [(0, 1), (0, 1)]

    x = np.ones((3, 3))
    try:
        einloom.einsum("ab,bc,cd->ad", x, x, x, optimize=last)
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [True]
