"""Graphs of ONNX as programs, and backends with ONNX's ops."""

from .backend import LATER, Completion, OnnxBackend
from .model import CompiledModel, OnnxModel, load
from .ops import NODES

OPS = (*NODES, "Constant")
"""The ops that a graph may have."""

__all__ = ["LATER", "OPS", "CompiledModel", "Completion", "OnnxBackend", "OnnxModel", "load"]
