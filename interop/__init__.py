"""Doors to other formats: ONNX graphs, and tensors as bytes."""

from importlib import import_module
from typing import Any

__all__ = ["onnx", "wire"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
