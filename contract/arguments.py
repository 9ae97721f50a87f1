"""What the arguments of einsum, plan and compile mean: operands, dtypes, limits; checked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import CallError, DTypeError, OptionError, SubscriptError
from .._base.memory import available_bytes
from .._base.numbers import parse_bytes
from .._base.options import check_memory_limit, get_options
from ..backend.spec import ArraySpec, compute_dtype, dtype_from_name, is_lowprec, layout_of
from ..program.trace import Traced
from .notation import Notation, interleaved, parse

DType = np.dtype[Any]
FLOAT64 = np.dtype(np.float64)
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def split_call(arguments: Sequence[Any], call: str) -> tuple[list[Any], Notation]:
    """Operands and notation of a call in string or interleaved form."""
    if not arguments or (isinstance(arguments[0], str) and len(arguments) == 1):
        raise SubscriptError(
            f'{call}: give subscripts and operands, as in {call}("ij,jk->ik", a, b)'
        )
    if isinstance(arguments[0], str):
        return list(arguments[1:]), parse(arguments[0], call)
    return interleaved(arguments, call)


class Asked(NamedTuple):
    """What a call asks for beside its operands, `out` and factors: arguments of `einsum`, by their names."""

    optimize: Any
    dtype: Any
    order: str
    casting: str
    memory_limit: Any
    conj: tuple[int, ...]
    embed_diagonal: bool
    strip_exponent: bool


def hashable_path(optimize: Any) -> Any:
    """`optimize` as it may be part of a key: a path in tuples, anything else as it is."""
    if isinstance(optimize, list):
        try:
            return tuple(tuple(step) if not isinstance(step, str) else step for step in optimize)
        except TypeError:
            return optimize
    return optimize


def are_shapes(operands: Sequence[Any]) -> bool:
    """Whether all are shapes, tuples of integers >= 0."""
    if set(map(type, operands)) != {tuple}:
        return False
    flat = list(chain(*operands))
    return set(map(type, flat)) <= {int} and min(flat, default=0) >= 0


def spec_of(operand: Any, dtype: DType | None, call: str, position: int) -> ArraySpec:
    """Dtype and shape of an operand, or of a shape given as a tuple (float64 unless `dtype`)."""
    if isinstance(operand, tuple):
        if set(map(type, operand)) <= {int} and min(operand, default=0) >= 0:
            return ArraySpec(dtype or FLOAT64, operand)
        if any(isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 0 for n in operand):
            raise CallError(
                f"{call}: operand {position} is the tuple {operand!r:.60}; a tuple is a shape, "
                f"integers >= 0"
            )
        return ArraySpec(dtype or FLOAT64, tuple(int(n) for n in operand))
    if isinstance(operand, Traced):
        return ArraySpec(operand.dtype, operand.session.example(operand.shape))
    if not hasattr(operand, "shape") or not hasattr(operand, "dtype"):
        operand = np.asarray(operand)
    try:
        given = np.dtype(operand.dtype)
    except TypeError:  # torch has dtypes of its own, by the same names
        given = dtype_from_name(str(operand.dtype).rpartition(".")[2])
    layout = layout_of(operand) if isinstance(operand, np.ndarray) else None
    return ArraySpec(given, tuple(operand.shape), layout)


def result_dtype(
    dtypes: Sequence[DType],
    dtype: Any,
    out: DType | None,
    casting: str,
    is_view: bool,
    call: str,
    any_out: bool = False,
) -> DType:
    """The dtype of computation and result: `dtype`, else what operands and `out` promote to.

    any_out: `out` takes the result whatever its dtype.
    """
    target = as_dtype(dtype, call)
    if casting not in CASTINGS:
        raise OptionError(f"{call}(casting={casting!r}): give one of {', '.join(CASTINGS)}")
    if is_view and out is None and (target is None or target == dtypes[0]):
        return dtypes[0]  # a view computes nothing: any dtype will do
    first = dtypes[0]
    is_one = target is None and out is None and dtypes.count(first) == len(dtypes)
    if is_one and first.isnative and is_number(first):
        return first
    for position, given in enumerate(dtypes):
        if not is_number(given):
            raise DTypeError(
                f"{call}: operand {position} has dtype {given}, which cannot be multiplied and added; "
                f"convert it to numbers first"
            )
    if target is None:
        try:
            target = np.result_type(*dtypes, *([] if out is None else [out]))
        except TypeError as error:
            listed = ", ".join(dict.fromkeys(map(str, dtypes)))
            raise DTypeError(
                f"{call}: operands of dtypes {listed} have no common dtype ({error}); convert them, or "
                f"pass dtype="
            ) from None
    elif not is_number(target):
        raise DTypeError(f"{call}(dtype={dtype!r}): {target} cannot be multiplied and added")
    target = target.newbyteorder("=")
    remedy = 'pass casting="unsafe"' if call == "einsum" else "convert it (x.astype)"
    for position, given in enumerate(dtypes):
        if not np.can_cast(given, target, casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"{call}: operand {position} has dtype {given}, which casting={casting!r} does not let "
                f"become {target}; {remedy}, or pass another dtype="
            )
    if out is not None and not any_out and not np.can_cast(target, out, casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"{call}: the result has dtype {target}, which casting={casting!r} does not let become "
            f'the dtype {out} of out; pass casting="unsafe", or an out of another dtype'
        )
    return target


def memory_limit_bytes(limit: Any, call: str) -> int | None:
    """A memory limit in bytes: the argument, else the option; None where neither limits."""
    check_memory_limit(limit, call)
    if limit is None:
        limit = get_options().memory_limit
    if limit is None:
        return None
    if isinstance(limit, str):
        return parse_bytes(limit)
    if limit < 1:
        available = available_bytes()
        if available is None:
            raise OptionError(
                f"{call}(memory_limit={limit!r}): this system does not tell how much memory is "
                f"available; give bytes instead of a fraction"
            )
        return int(limit * available)
    return int(limit)


def conj_positions(conj: Iterable[int], n: int, call: str) -> frozenset[int]:
    """The operands to conjugate; negative positions count from the end."""
    return _positions(conj, n, "conj", call)


def constant_positions(constants: Iterable[int], n: int, call: str) -> frozenset[int]:
    """The operands that stay the same from call to call."""
    return _positions(constants, n, "constants", call)


def memory_order(order: Any, call: str) -> str:
    """NumPy's order argument: C, F, A or K."""
    if order is None:
        return "K"
    if isinstance(order, str) and order.upper() in ("C", "F", "A", "K"):
        return order.upper()
    raise OptionError(f"{call}(order={order!r}): give one of 'C', 'F', 'A', 'K'")


def _positions(positions: Iterable[int], n: int, name: str, call: str) -> frozenset[int]:
    try:
        found = [int(p.__index__()) for p in positions]
    except (TypeError, AttributeError):
        raise CallError(f"{call}({name}={positions!r:.60}): give positions of operands") from None
    for position in found:
        if not -n <= position < n:
            raise OptionError(f"{call}({name}=...): there is no operand {position} among {n}")
    return frozenset([position % n for position in found])


def as_dtype(dtype: Any, call: str) -> DType | None:
    """A user's dtype argument, or None."""
    if dtype is None:
        return None
    try:
        return dtype_from_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError as error:
        reason = f" ({error})" if isinstance(error, DTypeError) else ""
        raise DTypeError(f"{call}(dtype={dtype!r:.60}): this is no dtype{reason}") from None


def exponent_flag(strip_exponent: Any, dtype: DType, call: str) -> bool:
    """`strip_exponent`, refused where results of `dtype` have no exponent."""
    if type(strip_exponent) is not bool:
        raise OptionError(f"{call}(strip_exponent={strip_exponent!r:.60}): give True or False")
    if strip_exponent and not has_exponent(dtype):
        raise DTypeError(
            f"{call}(strip_exponent=True): the result has dtype {dtype}, which has no exponent to keep "
            f'apart; pass dtype="float64", or another floating or complex one'
        )
    return strip_exponent


def has_exponent(dtype: DType) -> bool:
    """Whether numbers of this dtype are computed as floating or complex ones."""
    return compute_dtype(dtype).kind in "fc"


def is_number(dtype: DType) -> bool:
    return dtype.kind in "biufcO" or is_lowprec(dtype)
