"""Plan, compile and run tensor contractions.

    einloom.einsum("ij,jk,kl->il", a, b, c)      numpy.einsum's meaning, with a plan behind it
    einloom.plan("ij,jk,kl->il", a, b, c)        the plan: a table, a path, a cost
    einloom.compile("ij,jk,kl->il", a, b, c)     an Expression to call many times
"""

from ._base.caches import cache_info, clear_caches
from ._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    EinloomError,
    ExtensionError,
    FileFormatError,
    MemoryLimitError,
    OptionError,
    PathError,
    ProgramError,
    ShapeError,
    SubscriptError,
    Unsupported,
)
from ._base.options import get_options, options, set_num_threads, set_options
from .contract.api import compile, plan
from .contract.einsum import einsum, einsum_path
from .contract.expression import Expression
from .contract.network import Network
from .contract.plan import Plan
from .contract.sugar import ncon, tensordot, transpose

__version__ = "0.1.0.dev0"

__all__ = [
    "CallError",
    "ConversionError",
    "DTypeError",
    "EinloomError",
    "Expression",
    "ExtensionError",
    "FileFormatError",
    "MemoryLimitError",
    "Network",
    "OptionError",
    "PathError",
    "Plan",
    "ProgramError",
    "ShapeError",
    "SubscriptError",
    "Unsupported",
    "cache_info",
    "clear_caches",
    "compile",
    "einsum",
    "einsum_path",
    "get_options",
    "ncon",
    "options",
    "plan",
    "set_num_threads",
    "set_options",
    "tensordot",
    "transpose",
]
