"""Doors to other formats: ONNX graphs, text of StableHLO, and tensors as bytes."""

from importlib import import_module
from typing import Any

__all__ = ["onnx", "stablehlo", "wire"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "stablehlo":
        return import_module(".hlo", __name__).stablehlo
    return import_module(f".{name}", __name__)
