"""The backends that tests of kernels run, one line each, and what runs the conformance suite besides."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from tests.backend.calls import Call
from tests.backend.stand_in import DeviceArray, StandIn
from tests.backend.through_nx import ThroughNx, says
from tests.on_card import down, up

from einloom import backend as backends
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.gpu import GpuBackend, missing
from einloom.backend.protocol import Backend

BACKENDS: dict[str, Backend] = {
    "cpu": cpu(),
}

STAND_INS = {"gpu": GpuBackend(StandIn()), "gpu without cuTENSOR": GpuBackend(StandIn(False))}
"""The logic of a GPU over NumPy, in tests of their own."""

COMPILING = GpuBackend(StandIn(compiles=True))
"""The same where CUDA compiles: its kernels run on the CPU, if there is a compiler of C++."""

CARDS: dict[str, Backend] = {} if missing() else {"card": backends.get("gpu")}
"""A real one, where there is one: `python -m pytest -m gpu`."""

SUITE: dict[str, Any] = {**BACKENDS, "nx": ThroughNx()}
RUNNERS: dict[str, Any] = {**SUITE, **STAND_INS, **CARDS}

PATHS: dict[str, dict[str, Any]] = {  # small arrays do not take these by themselves
    "as shipped": {},
    "kernels forced": {"small": 0, "threads": 1},
    "two threads": {"small": 0, "threads": 2},
}


def dtypes_of(backend: str, op: str) -> list[str]:
    """Names of the dtypes that a backend claims for an op, in an order that tests can have."""
    return sorted(RUNNERS[backend].capabilities().get(op, ()))


def cases(ops: Iterable[str], runners: Iterable[str] = BACKENDS) -> list[tuple[str, str, str]]:
    """Backend, op and dtype, wherever there is a kernel."""
    return [
        (backend, op, name) for op in ops for backend in runners for name in dtypes_of(backend, op)
    ]


def can_say(backend: str, call: Call, dtype: np.dtype[Any]) -> bool:
    """Whether a runner has words for a call; a backend has them for all."""
    return backend != "nx" or says(call.op, call.attrs, call.specs(dtype))


def path(name: str) -> AbstractContextManager[Any]:
    return options(**PATHS[name])


def put(backend: str, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    """Host arrays on the device of a backend."""
    if backend in STAND_INS:  # in the strides and the memory that the test laid out
        return [x.view(DeviceArray) for x in arrays]
    if backend in CARDS:
        return [up(x) for x in arrays]
    return [RUNNERS[backend].to_device(x) for x in arrays]


def get(backend: str, result: Any) -> Any:
    """What a kernel returned, on the host; several results as a tuple."""
    if isinstance(result, tuple):
        return tuple(get(backend, x) for x in result)
    if backend in STAND_INS:
        assert type(result) is DeviceArray, "left the device"
        return result.view(np.ndarray)
    return down(result) if backend in CARDS else RUNNERS[backend].to_host(result)
