"""Which peers are installed, set to as many threads as einloom uses; None for one that is not."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from einloom._base.options import num_threads


@cache
def torch() -> Any:
    """The module torch, or None."""
    module = _installed("torch")
    if module is not None:
        module.set_num_threads(num_threads())
    return module


@cache
def numexpr() -> Any:
    """The module numexpr, or None."""
    module = _installed("numexpr")
    if module is not None:
        module.set_num_threads(num_threads())
    return module


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
