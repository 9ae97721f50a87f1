"""The front: numpy.einsum's signature and meaning, with a plan behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from .._base.caches import Cache, Quick
from .._base.errors import CallError, DTypeError
from .._base.options import Options, get_options
from ..backend.choice import check_together, elsewhere, placed, shown
from ..backend.cpu.jit import collected_later
from ..backend.door import as_ndarray, check_torch_out, is_torch
from ..backend.lent import returned
from ..backend.spec import LARGE, layout_of
from ..program.trace import traced_among
from .api import search
from .arguments import (
    Asked,
    conj_positions,
    hashable_path,
    memory_limit_bytes,
    memory_order,
    result_dtype,
    spec_of,
    split_call,
)
from .delivery import ONE, ZERO, as_torch, native
from .expression import Expression
from .first import first_result
from .in_line import InLine, in_line
from .lower import is_view
from .network import Network
from .notation import Notation, resolve
from .once import FewCalls, for_few_calls
from .plan import Plan
from .plan_cache import name_of

_EXPRESSIONS: Cache[Expression | InLine] = Cache(
    "expressions", 1024, weigh=lambda expression: expression.weight
)

_RECENT: Quick[tuple[Options, Callable[..., Any]]] = Quick("recent expressions", 1024)
"""By equation, for calls with nothing but plain arrays: the options under which it was compiled, and the last
expression for it, which tells itself whether it is for these shapes and dtypes."""
_FIRST: Quick[bool] = Quick("first calls", 4096)
"""Equations and shapes of arrays that were given once: the second call prepares an expression."""
MOST_AT_ONCE = 1000
"""Operands up to which no garbage is collected while a contraction is prepared: that makes many objects,
which would be looked through again and again. What cycles are among them wait for the next collection."""
# the defaults: arguments that are not given are these very objects
AUTO, KEEP, SAFE, NONE = "auto", "K", "safe", ()
MISSING: Any = object()
F = TypeVar("F", bound=Callable[..., Any])


def _remembering(front: F) -> F:
    """`front`, but an equation and plain arrays that were seen before go straight to what was compiled."""

    # the equation apart from the arrays: a slice of all operands would take a twentieth of a small call
    @wraps(front)
    def remembering(text: Any = MISSING, /, *arrays: Any, **keywords: Any) -> Any:
        if type(text) is str and not keywords:
            recent = _RECENT.items.get(text)
            if recent is not None and recent[0] is get_options():
                result = recent[1](*arrays)
                if result is not None:
                    _RECENT.hits += 1
                    return result
            _RECENT.misses += 1
            result = _first(text, arrays)
            if result is not None:
                return result
        if text is MISSING:
            return front(**keywords)
        return front(text, *arrays, **keywords)

    return cast(F, remembering)


@_remembering
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = "auto",
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
    memory_limit: int | float | str | None = None,
    alpha: Any = 1,
    beta: Any = 0,
    conj: Iterable[int] = (),
    embed_diagonal: bool = False,
    strip_exponent: bool = False,
) -> Any:
    """Einstein summation: out[o] = alpha * sum over the labels not in o of prod_i x_i[l_i] + beta * out.

    `einsum("ij,jk->ik", a, b)` or `einsum(a, [0, 1], b, [1, 2], [0, 2])`, with the whole meaning of
    numpy.einsum: implicit output, ellipsis, broadcasting of axes of size 1, traces and diagonals,
    views where nothing is computed. Beyond NumPy: labels may be any character that is no ASCII
    symbol, or any hashable value in interleaved form, and of any number; parentheses fix the order of
    contraction, as in "(ij,jk),kl->il". A call that is repeated has compiled kernels once they pay, after
    which its last bits may differ; those of `compile` are the same in all calls.

    Args:
        operands: subscripts and arrays, or arrays each followed by its labels.
        out: array of the result's shape that is filled and returned; it may overlap operands.
        optimize: "auto" (our planner); False: one step without intermediates; True, "greedy",
            "optimal", "dp"; a path; NumPy's (name, elements); any optimizer of opt_einsum.
        dtype: of computation and result; default: what the operands (and out) promote to. float16
            and bfloat16 are accumulated in float32.
        order: memory order of the result, "C", "F", "A" or "K".
        casting: which conversions of operands and result are allowed, as in numpy.einsum.
        memory_limit: bytes, "4GiB", or a fraction below 1 of what is available; the predicted peak
            must not exceed it, and where it would, labels are sliced.
        alpha, beta: factors of the result and of what `out` holds; out is not read when beta is 0.
        conj: positions of operands to conjugate.
        embed_diagonal: allow labels that repeat in the output; the result stands on their diagonal.
        strip_exponent: return (mantissa, exponent) with result = mantissa * 10**exponent, for results
            that over- or underflow; `out` takes the mantissa, alpha and beta are not for it.

    Returns:
        numpy.ndarray, or a NumPy scalar for a result without axes; torch tensors come back as torch.
        With strip_exponent a tuple of it and a float, a whole number: the largest absolute value of the
        mantissa (of complex numbers, of their parts) is from 1 to 10. For zeros it is 0.0. Where an
        element is infinite or not a number, so is the mantissa's, and its largest may be anything.

    Raises:
        SubscriptError, ShapeError, OptionError, PathError: bad input; each is a ValueError.
        DTypeError, ConversionError: what cannot be combined or read; each is a TypeError.
        MemoryLimitError: more memory than allowed or available is needed; it is a MemoryError.

    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> einsum("ij,kj->ik", a, a)
    array([[ 5., 14.],
           [14., 50.]])
    >>> einsum("i->ii", np.array([1, 2]), embed_diagonal=True)
    array([[1, 0],
           [0, 2]])
    >>> mantissa, exponent = einsum("i,i->", np.full(3, 1e200), np.full(3, 1e200), strip_exponent=True)
    >>> print(f"{mantissa:.3f}e{exponent:.0f}")
    3.000e400
    """
    is_plain = (
        out is None and optimize is AUTO and dtype is None and order is KEEP and casting is SAFE
        and memory_limit is None and alpha is ONE and beta is ZERO and conj is NONE
        and embed_diagonal is False and strip_exponent is False
        and bool(operands) and type(operands[0]) is str
    )  # fmt: skip
    key: Any = None
    optimize = "auto" if optimize is None else optimize
    if type(conj) is not tuple:
        conj = _as_positions(conj)
    asked = Asked(
        optimize, dtype, order, casting, memory_limit, conj, embed_diagonal, strip_exponent
    )
    if len(operands) > 1 and type(operands[0]) is str:
        arrays = operands[1:]
        # the fast way: plain arrays and an equation seen before
        key = _key(operands[0], arrays, out, asked)
        if key is not None:
            expression = _known(key, arrays)
            if expression is not None:
                if is_plain:
                    _remember(operands[0], expression)
                return expression.contract(arrays, out, alpha, beta)
    if is_torch(out):
        check_torch_out(out, "einsum")
        (target,) = shown("einsum(out=...)", (out,))
        if target is out:  # on the host
            shared = as_ndarray(out, "einsum(out=...)", 0)
            result = einsum(*operands, out=shared, alpha=alpha, beta=beta, **asked._asdict())
            return (out, result[1]) if strip_exponent else out
    else:
        target = out
    given, notation = split_call(operands, "einsum")
    if (traced := traced_among(given)) is not None:
        from .traced import traced_einsum  # loaded only where something is traced

        return traced_einsum(given, notation, traced, asked, out=out, alpha=alpha, beta=beta)
    backend, there = placed("einsum", given)
    if backend is not None:
        from .on_device import einsum_on  # loaded only where something lies on a device

        keep = partial(_keep_recent, operands[0]) if is_plain else None
        result = einsum_on(backend, there, notation, target, alpha, beta, asked, _planned, keep)
        return returned(backend, result, given, out)
    if target is not out and (backend := elsewhere("einsum(out=...)", (target,))) is not None:
        check_together("einsum", backend, given)  # a tensor on a card, and operands of the host
    checked = [as_ndarray(x, "einsum", k) for k, x in enumerate(given)]
    if out is not None and not isinstance(out, np.ndarray):
        raise DTypeError(f"einsum(out=...): out must be a numpy.ndarray, got {type(out).__name__}")
    expression = None
    if key is None:
        key = _key(notation, checked, out, asked._replace(optimize=hashable_path(optimize)))
        expression = _known(key, checked) if key is not None else None
    if expression is None:
        with collected_later() if _is_prepared_soon(optimize, len(checked)) else nullcontext():
            plan = _planned(notation, checked, out, asked)
            is_ours = name_of(optimize) is not None and not notation.groups
            expression = in_line(plan, is_ours) or for_few_calls(plan)
        if key is not None:
            _EXPRESSIONS.put(key, expression)
            if is_plain:
                _remember(operands[0], expression)
    is_given = is_view(expression.plan.network) and not strip_exponent
    if not all(x.dtype.isnative for x in checked) and not is_given:
        checked = [native(x) for x in checked]
    result = expression.contract(checked, out, alpha, beta)
    return as_torch(result) if out is None and any(map(is_torch, given)) else result


def _first(text: str, arrays: tuple[Any, ...]) -> Any:
    """The result of the first call with arrays of these shapes, where that takes little; else None."""
    shapes = []
    for x in arrays:
        if type(x) is not np.ndarray:
            return None
        shapes.append(x.shape)
    key = (text, *shapes)
    if key in _FIRST.items:
        _FIRST.hits += 1
        return None
    _FIRST.misses += 1
    _FIRST.put(key, True)
    return first_result(text, arrays)


def _known(key: Any, arrays: Any) -> Expression | InLine | None:
    """What was prepared for such a call; this one counts, where kernels come with one of them."""
    found = _EXPRESSIONS.get(key)
    if isinstance(found, FewCalls):
        found.calls += 1
        if found.calls >= found.limit:
            found = _EXPRESSIONS.replace(key, found, found.next(arrays))
    return found


def _keep_recent(text: str, fast: Callable[..., Any]) -> None:
    """For calls of this equation with arrays of a device."""
    _RECENT.put(text, (get_options(), fast))


def _remember(text: str, expression: Expression | InLine) -> None:
    if isinstance(expression, InLine) or not expression.has_fast:
        return
    now = get_options()

    def fast(*arrays: Any) -> Any:
        """Generated by the next call of these shapes and dtypes, for it and further ones."""
        if not expression._fits(arrays):
            return None
        made = cast(Callable[..., Any], expression.fast)
        if isinstance(expression, FewCalls) and not expression.is_settled:
            made = _counting(text, expression, made)
        _RECENT.put(text, (now, made))
        return made(*arrays)

    _RECENT.put(text, (now, fast))


def _counting(text: str, expression: FewCalls, made: Callable[..., Any]) -> Callable[..., Any]:
    """`made`, and its calls count; the last one goes the long way, which looks for what follows."""

    def counting(*arrays: Any) -> Any:
        if expression.calls + 1 >= expression.limit:
            _RECENT.items.pop(text, None)
            return None
        result = made(*arrays)
        if result is not None:
            expression.calls += 1
        return result

    return counting


def einsum_path(
    *operands: Any, optimize: Any = "greedy", memory_limit: int | float | str | None = None
) -> tuple[list[Any], str]:
    """The path that `einsum` would take, in NumPy's form, and the plan as text.

    `plan` and `compile` wait for a longer search among more than 50 tensors, since their results are kept.

    Returns:
        (["einsum_path", (0, 1), ...], table), the list being valid as `optimize=` here and in NumPy.

    >>> import numpy as np
    >>> a = np.ones((2, 8)); b = np.ones((8, 9)); c = np.ones((9, 2))
    >>> einsum_path("ij,jk,kl->il", a, b, c)[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    given, notation = split_call(operands, "einsum_path")
    specs = [spec_of(x, None, "einsum_path", k) for k, x in enumerate(given)]
    equation = resolve(notation, [len(spec.shape) for spec in specs], "einsum_path")
    network = Network.of(equation, [spec.shape for spec in specs], "einsum_path")
    dtypes = tuple(spec.dtype for spec in specs)
    found = search(
        network,
        equation.groups,
        dtypes=dtypes,
        dtype=result_dtype(dtypes, None, None, "safe", is_view(network), "einsum_path"),
        choice=optimize,
        memory_limit=memory_limit_bytes(memory_limit, "einsum_path"),
        call="einsum_path",
        waits=False,
    )
    return ["einsum_path", *found.path], str(found)


def _planned(notation: Notation, arrays: list[Any], out: Any, asked: Asked) -> Plan:
    equation = resolve(notation, [x.ndim for x in arrays], "einsum", asked.embed_diagonal)
    network = Network.of(equation, [x.shape for x in arrays], "einsum")
    view = is_view(network) and not asked.strip_exponent
    dtypes = tuple(x.dtype if view else x.dtype.newbyteorder("=") for x in arrays)
    out_dtype = None if out is None else out.dtype.newbyteorder("=")
    # NumPy's optimised einsum assigns into an `out` without axes whatever its dtype, and tests it
    any_out = out is not None and out.ndim == 0 and asked.optimize not in ("auto", None, False)
    return search(
        network,
        equation.groups,
        dtypes=dtypes,
        dtype=result_dtype(dtypes, asked.dtype, out_dtype, asked.casting, view, "einsum", any_out),
        choice=asked.optimize,
        memory_limit=memory_limit_bytes(asked.memory_limit, "einsum"),
        conj=conj_positions(asked.conj, len(arrays), "einsum"),
        order=_planned_order(memory_order(asked.order, "einsum"), out),
        layouts=tuple(map(layout_of, arrays)),
        strip_exponent=asked.strip_exponent,
        waits=False,
    )


def _planned_order(order: str, out: Any) -> str:
    """The order in which the result is best computed: that of `out`, where there is one."""
    if out is None or out.ndim < 2:
        return order
    return "C" if out.flags.c_contiguous else "F" if out.flags.f_contiguous else order


def _key(text: str | Notation, arrays: Any, out: Any, asked: Asked) -> Any:
    """What the expression depends on, or None where an argument cannot be a key."""
    settings = get_options()
    if type(asked.optimize) not in (str, bool, tuple):
        return None
    if isinstance(asked.memory_limit, float) or isinstance(settings.memory_limit, float):
        return None  # a fraction of what is available changes from call to call
    key = [text, *asked]
    key += (settings.small, settings.budget, settings.memory_limit, settings.engine)
    key += (settings.provider, settings.patience)
    key.append(settings.threads)  # products are shared out for a number of threads
    if out is not None:
        if type(out) is not np.ndarray:
            return None
        key += (out.dtype, out.ndim, _planned_order(asked.order, out))
    for x in arrays:
        if type(x) is not np.ndarray:
            return None
        given = x.dtype
        if not given.isnative:
            return None
        key += (x.shape, given)
        if not (x.nbytes < LARGE or x.flags.c_contiguous):
            key.append(layout_of(x))
    found = tuple(key)
    try:
        hash(found)
    except TypeError:
        return None
    return found


def _is_prepared_soon(optimize: Any, n_operands: int) -> bool:
    """Whether nothing runs but einloom's own planners, for as long as they take by themselves."""
    is_own = type(optimize) in (str, bool)
    return is_own and n_operands <= MOST_AT_ONCE and get_options().budget is None


def _as_positions(conj: Any) -> tuple[int, ...]:
    try:
        return tuple(conj)
    except TypeError:
        raise CallError(f"einsum(conj={conj!r:.60}): give positions of operands") from None


__all__ = ["CallError", "einsum", "einsum_path"]
