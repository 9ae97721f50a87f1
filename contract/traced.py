"""einsum of traced values: planned for the sizes that the trace gives, recorded for any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._base.errors import CallError, OptionError
from ..program.trace import Traced
from .api import search
from .arguments import Asked, conj_positions, memory_limit_bytes, memory_order, result_dtype
from .delivery import as_factor, is_given
from .lower import is_view, lower
from .network import Network
from .notation import Notation, resolve


def traced_einsum(
    given: Sequence[Any],
    notation: Notation,
    first: Traced,
    asked: Asked,
    *,
    out: Any,
    alpha: Any,
    beta: Any,
) -> Traced:
    """Append the instructions of an einsum to the trace of its operands."""
    if asked.strip_exponent:
        raise CallError(
            "einsum(strip_exponent=True): inside trace exponents cannot be kept apart; call it "
            "outside, with arrays"
        )
    session = first.session
    for position, x in enumerate(given):
        session.slot(x, f"einsum: operand {position}")
    if out is not None or is_given(beta, 0):
        raise CallError("einsum(out=..., beta=...): a traced value cannot be written into")
    if memory_order(asked.order, "einsum") in "CF":
        raise OptionError(
            f"einsum(order={asked.order!r}): inside trace the result has no order in memory"
        )
    equation = resolve(notation, [x.ndim for x in given], "einsum", asked.embed_diagonal)
    network = Network.of(equation, [session.example(x.shape) for x in given], "einsum")
    dtypes = tuple(x.dtype for x in given)
    found = search(
        network,
        equation.groups,
        dtypes=dtypes,
        dtype=result_dtype(dtypes, asked.dtype, None, asked.casting, is_view(network), "einsum"),
        choice=asked.optimize,
        memory_limit=memory_limit_bytes(asked.memory_limit, "einsum"),
        conj=conj_positions(asked.conj, len(given), "einsum"),
    )
    if len(given) > 1 and 0 in network.extents:  # the one case in which `lower` writes sizes
        sizes = _sizes(network, given)
        zero = session.constant(0, found.dtype)
        shape = tuple(sizes[label] for label in network.output_axes)
        result = session.op("copy", session.broadcast(zero, shape))
    else:
        program = lower(network, found.tree, dtypes, found.dtype, found.conj)
        (result,) = session.record(program, given)
    factor = as_factor(alpha, found.dtype, "alpha")
    if not is_given(factor, 1):
        return result
    number = session.constant(getattr(factor, "item", lambda: factor)(), found.dtype)
    return session.op("multiply", result, session.broadcast(number, result.shape))


def _sizes(network: Network, given: Sequence[Traced]) -> dict[int, Any]:
    """The size of every label, names included; an axis of size 1 may stand for a larger one."""
    sizes: dict[int, Any] = {}
    for term, shape, x in zip(network.terms, network.shapes, given, strict=True):
        for label, n, size in zip(term, shape, x.shape, strict=True):
            if n == network.extents[label]:
                sizes.setdefault(label, size)
    return sizes
