"""The backends that the conformance tests run: one line each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.protocol import Backend

BACKENDS: dict[str, Backend] = {
    "cpu": cpu(),
}

PATHS: dict[str, dict[str, Any]] = {  # small arrays do not take these by themselves
    "as shipped": {},
    "kernels forced": {"small": 0, "threads": 1},
    "two threads": {"small": 0, "threads": 2},
}


def dtypes_of(backend: str, op: str) -> list[str]:
    """Names of the dtypes that a backend claims for an op, in an order that tests can have."""
    return sorted(BACKENDS[backend].capabilities().get(op, ()))


def cases(ops: Iterable[str]) -> list[tuple[str, str, str]]:
    """Backend, op and dtype, wherever there is a kernel."""
    return [
        (backend, op, name) for op in ops for backend in BACKENDS for name in dtypes_of(backend, op)
    ]


def path(name: str) -> AbstractContextManager[Any]:
    return options(**PATHS[name])


def put(backend: str, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    """Host arrays on the device of a backend."""
    return [BACKENDS[backend].to_device(x) for x in arrays]


def get(backend: str, result: Any) -> Any:
    """What a kernel returned, on the host; several results as a tuple."""
    if isinstance(result, tuple):
        return tuple(BACKENDS[backend].to_host(x) for x in result)
    return BACKENDS[backend].to_host(result)
