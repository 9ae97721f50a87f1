"""Plan, compile and run tensor contractions.

    einloom.einsum("ij,jk,kl->il", a, b, c)      numpy.einsum's meaning, with a plan behind it
    einloom.plan("ij,jk,kl->il", a, b, c)        the plan: a table, a path, a cost
    einloom.compile("ij,jk,kl->il", a, b, c)     an Expression to call many times

Names are loaded on first use, so that `import einloom` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; `_HOME` says the same at run time
    from . import fft as fft
    from . import functions as functions
    from . import linalg as linalg
    from . import random as random
    from ._base.caches import cache_info, clear_caches
    from ._base.errors import (
        CallError,
        ClosedError,
        ConversionError,
        DeviceError,
        DTypeError,
        EinloomError,
        ExtensionError,
        FileFormatError,
        IndexRangeError,
        LinAlgError,
        MatrixShapeError,
        MemoryLimitError,
        MergeError,
        NodeError,
        OptionError,
        OrderError,
        PathError,
        ProgramError,
        ShapeError,
        SubscriptError,
        Unsupported,
        WorkerLostError,
    )
    from ._base.options import get_options, options, set_num_threads, set_options
    from .backend.cpu.warm import warmup
    from .backend.devices import device
    from .contract.api import compile, plan
    from .contract.einsum import einsum, einsum_path
    from .contract.expression import Expression
    from .contract.gemm_batch import gemm_batch
    from .contract.network import Network
    from .contract.plan import Plan
    from .contract.plan_set import ExpressionSet, PlanSet, compile_set, plan_set
    from .contract.plan_sizes import SizedPlan, plan_sizes
    from .contract.sugar import ncon, tensordot, transpose
    from .contract.tuning import tune
    from .functions.diagonals import diagonal
    from .functions.exponentials import log_softmax, logsumexp, softmax
    from .functions.kronecker import block_diag, kron
    from .functions.scans import cummax, cummin, cumprod, cumsum
    from .program.code import Code
    from .program.context import Context
    from .program.nodes import Node
    from .program.template import ProgramTemplate
    from .program.trace import trace
    from .program.transfers import device_to_device

__version__ = "0.1.0.dev0"

_HOME = {
    "_base.caches": ("cache_info", "clear_caches"),
    "_base.errors": (
        "CallError",
        "ClosedError",
        "ConversionError",
        "DTypeError",
        "DeviceError",
        "EinloomError",
        "ExtensionError",
        "FileFormatError",
        "IndexRangeError",
        "LinAlgError",
        "MatrixShapeError",
        "MemoryLimitError",
        "MergeError",
        "NodeError",
        "OptionError",
        "OrderError",
        "PathError",
        "ProgramError",
        "ShapeError",
        "SubscriptError",
        "Unsupported",
        "WorkerLostError",
    ),
    "_base.options": ("get_options", "options", "set_num_threads", "set_options"),
    "backend.cpu.warm": ("warmup",),
    "backend.devices": ("device",),
    "contract.api": ("compile", "plan"),
    "contract.einsum": ("einsum", "einsum_path"),
    "contract.expression": ("Expression",),
    "contract.gemm_batch": ("gemm_batch",),
    "contract.network": ("Network",),
    "contract.plan": ("Plan",),
    "contract.plan_set": ("ExpressionSet", "PlanSet", "compile_set", "plan_set"),
    "contract.plan_sizes": ("SizedPlan", "plan_sizes"),
    "contract.sugar": ("ncon", "tensordot", "transpose"),
    "contract.tuning": ("tune",),
    "functions.diagonals": ("diagonal",),
    "functions.exponentials": ("log_softmax", "logsumexp", "softmax"),
    "functions.kronecker": ("block_diag", "kron"),
    "functions.scans": ("cummax", "cummin", "cumprod", "cumsum"),
    "program.code": ("Code",),
    "program.context": ("Context",),
    "program.nodes": ("Node",),
    "program.template": ("ProgramTemplate",),
    "program.trace": ("trace",),
    "program.transfers": ("device_to_device",),
}
_ROOMS = ("fft", "functions", "interop", "linalg", "random")
"""Packages of their own that an attribute of einloom names."""

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "CallError",
    "ClosedError",
    "Code",
    "Context",
    "ConversionError",
    "DTypeError",
    "DeviceError",
    "EinloomError",
    "Expression",
    "ExpressionSet",
    "ExtensionError",
    "FileFormatError",
    "IndexRangeError",
    "LinAlgError",
    "MatrixShapeError",
    "MemoryLimitError",
    "MergeError",
    "Network",
    "Node",
    "NodeError",
    "OptionError",
    "OrderError",
    "PathError",
    "Plan",
    "PlanSet",
    "ProgramError",
    "ProgramTemplate",
    "ShapeError",
    "SizedPlan",
    "SubscriptError",
    "Unsupported",
    "WorkerLostError",
    "block_diag",
    "cache_info",
    "clear_caches",
    "compile",
    "compile_set",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "device",
    "device_to_device",
    "diagonal",
    "einsum",
    "einsum_path",
    "gemm_batch",
    "get_options",
    "kron",
    "log_softmax",
    "logsumexp",
    "ncon",
    "options",
    "plan",
    "plan_set",
    "plan_sizes",
    "set_num_threads",
    "set_options",
    "softmax",
    "tensordot",
    "trace",
    "transpose",
    "tune",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'einloom' has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
