"""A launch of a kernel within a CUDA graph, whose last argument is replaced from one launch of the graph to
the next (`cuGraphExecKernelNodeSetParams` of the driver; CuPy has no name for it)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ..._base.errors import Unsupported

KERNEL = 0  # CU_GRAPH_NODE_TYPE_KERNEL
POINTER, WORD = ctypes.c_void_p, ctypes.c_uint64


class _Launch(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("func", POINTER),
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("arguments", ctypes.POINTER(POINTER)),
        ("extra", POINTER),
        ("kern", POINTER),
        ("ctx", POINTER),
    ]


@cache
def _driver() -> Any:
    """What of the driver is called here.

    Raises:
        Unsupported: it is missing, or older than CUDA 12.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
        named = {
            "nodes": library.cuGraphGetNodes,
            "type_of": library.cuGraphNodeGetType,
            "launch_of": library.cuGraphKernelNodeGetParams_v2,
            "replace": library.cuGraphExecKernelNodeSetParams_v2,
        }
    except (OSError, AttributeError) as error:
        raise Unsupported(f"graphs: the driver cannot replace arguments ({error})") from None
    named["nodes"].argtypes = [POINTER, POINTER, POINTER]
    named["type_of"].argtypes = named["launch_of"].argtypes = [POINTER, POINTER]
    named["replace"].argtypes = [POINTER, POINTER, POINTER]
    return type("Driver", (), {name: staticmethod(call) for name, call in named.items()})


class Node:
    """The only launch of a function in a graph of CuPy. `put(words)` has the next launches of the graph take
    these numbers of 64 bits as the last argument; what is queued already keeps its own.

    Args:
        function: cupy.RawKernel, which takes a pointer and a struct of so many words.
        pointer: what the first argument stays to be; who keeps the node keeps the memory.
    """

    def __init__(self, graph: Any, function: Any, pointer: int, words: int) -> None:
        driver = self._driver = _driver()
        self._exec = graph.graphExec
        self._node, self._launch = _found(driver, graph.graph, int(function.kernel.ptr))
        self._pointer, self._words = POINTER(pointer), (WORD * words)()
        self._arguments = (POINTER * 2)(
            ctypes.addressof(self._pointer), ctypes.addressof(self._words)
        )
        self._launch.arguments = ctypes.cast(self._arguments, ctypes.POINTER(POINTER))
        self._launch.extra = None
        self._at = ctypes.byref(self._launch)

    def put(self, words: list[Any]) -> None:
        self._words[: len(words)] = words
        status = self._driver.replace(self._exec, self._node, self._at)
        if status:
            raise RuntimeError(f"cuGraphExecKernelNodeSetParams returned status {status}")


def _found(driver: Any, graph: int, function: int) -> tuple[int, _Launch]:
    count, kind, launch = ctypes.c_size_t(), ctypes.c_int(), _Launch()
    _checked(driver.nodes(graph, None, ctypes.byref(count)))
    nodes = (POINTER * count.value)()
    _checked(driver.nodes(graph, nodes, ctypes.byref(count)))
    for node in nodes:
        _checked(driver.type_of(node, ctypes.byref(kind)))
        if kind.value != KERNEL:
            continue
        _checked(driver.launch_of(node, ctypes.byref(launch)))
        if launch.func == function:
            return int(node or 0), launch
    raise Unsupported("graphs: a launch is not found in what was recorded")


def _checked(status: int) -> None:
    if status:
        raise Unsupported(f"graphs: the driver returned status {status}")
