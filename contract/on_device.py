"""Contractions of arrays that lie on a device: the same plans, run by the device's backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from .._base.caches import Cache
from .._base.errors import OptionError, ShapeError
from .._base.options import get_options
from ..backend import get
from ..backend.choice import check_together
from ..backend.lent import overlap
from ..backend.protocol import Backend
from ..backend.spec import ArraySpec
from ..program.executable import Executable
from ..program.ranges import cut
from ..program.sliced import SlicedExecutable
from .arguments import Asked, hashable_path
from .delivery import ONE, ZERO, factors, in_order, order_of
from .expression import Expression
from .notation import Notation
from .plan import Plan

_EXPRESSIONS: Cache[Expression] = Cache("expressions on devices", 256)


def einsum_on(
    backend: Backend,
    given: Sequence[Any],
    notation: Notation,
    out: Any,
    alpha: Any,
    beta: Any,
    asked: Asked,
    planned: Callable[[Notation, list[Any], Any, Asked], Plan],
    keep: Callable[[Callable[..., Any]], None] | None = None,
) -> Any:
    """einsum of arrays of the backend's device; the result lies there, without axes too.

    A call with nothing but arrays hands the function of its expression to `keep`, when it comes again.
    """
    arrays = list(given)
    if out is not None:
        check_together("einsum(out=...)", backend, [out])
    key = _key(backend, arrays, notation, out, asked)
    expression = None if key is None else _EXPRESSIONS.get(key)
    if expression is not None and out is None and alpha is ONE and beta is ZERO:
        fast = expression.fast
        result = None if fast is None else fast(*arrays)
        if result is not None:
            if keep is not None and fast is not None:
                keep(fast)
            return result
    if expression is None:
        expression = Expression(planned(notation, arrays, out, asked), backend=backend)
        if key is not None:
            _EXPRESSIONS.put(key, expression)
    return expression.contract(arrays, out, alpha, beta)


def _key(backend: Backend, arrays: list[Any], notation: Notation, out: Any, asked: Asked) -> Any:
    """What the expression depends on, the options too; None where an argument cannot be a key."""
    settings = get_options()
    asked = asked._replace(optimize=hashable_path(asked.optimize))
    if type(asked.optimize) not in (str, bool, tuple):
        return None  # a planner of the user's is asked each time
    if isinstance(asked.memory_limit, float) or isinstance(settings.memory_limit, float):
        return None  # a fraction of what is available changes from call to call
    specs = tuple((x.dtype, x.shape, x.strides) for x in arrays)
    of_out = None if out is None else (out.dtype, out.strides)
    key = (backend, notation, specs, of_out, asked, settings)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def slices_on(
    expression: Expression,
    arrays: Sequence[Any],
    names: Sequence[str] | None,
    slices_per_task: int | None,
) -> Any:
    """All slices in ranges, which cards take in turn; what each adds up is brought to the first, in order.

    A card queues its range and waits for nothing, so all of them compute at the same time. The bits are those
    of one card: they depend on the ranges alone. Of arrays of the host a card gets the piece that a slice
    reads while it computes the slice before: then this thread waits for copies, and several cards compute
    side by side only where one range ends and the next begins.
    """
    from . import slices  # it loads concurrent.futures

    plan, lead = expression.plan, expression._executable
    request = slices.Request.of(None, slices_per_task, None, 2, None, None)
    if names is not None and (
        isinstance(names, str) or not isinstance(names, Sequence) or not names
    ):
        raise OptionError(
            f"run_slices(devices={names!r:.60}): give names of GPUs, that of the expression first"
        )
    backends = [expression.backend] if names is None else [get(name) for name in names]
    own = expression.backend
    if not backends or backends[0].device != own.device or {x.name for x in backends} != {own.name}:
        raise OptionError(
            f"run_slices(devices={names!r:.60}): give names of GPUs, that of the expression first"
        )
    if not isinstance(lead, SlicedExecutable):
        return expression(*map(own.to_device, arrays))
    crew = [
        expression if one.device == expression.backend.device
        else Expression(plan, expression.constants, one)
        for one in backends
    ]  # fmt: skip
    prepared: list[Any] = []
    try:
        for one, backend in zip(crew, backends, strict=True):
            prepared.append(fed(one, backend, arrays))
        total = _added_up(crew, prepared, lead, slices, request, order_of(plan.order, arrays))
    finally:
        for one in prepared:
            if callable(one):
                one.close()
    home, found = backends[0], total.result()
    if not plan.strip_exponent:
        return found
    mantissa, exponent = found
    return mantissa, float(home.to_host(exponent))


def _added_up(
    crew: Sequence[Expression],
    prepared: Sequence[Any],
    lead: SlicedExecutable,
    slices: Any,
    request: Any,
    order: str,
) -> Any:
    """The sum of all ranges, on the first card."""
    plan, home = crew[0].plan, cast(Any, crew[0].backend)
    total = crew[0]._executable.total(order)  # type: ignore[union-attr]
    part = lead.program.slots[lead.program.outputs[0]].nbytes
    size = request.slices_per_task or slices.slices_per_task(plan, lead, part)
    ranges = list(cut(lead.n_parts, lead.each_part, size))
    for first in range(0, len(ranges), len(crew)):
        turn = zip(crew, prepared, ranges[first : first + len(crew)], strict=False)
        made = [
            one._executable.partial(operands, *span)  # type: ignore[union-attr]
            for one, operands, span in turn
        ]
        for partial in made:
            total.add(replace(partial, values=home.to_device(partial.values)))
    return total


def fed(expression: Expression, backend: Any, arrays: Sequence[Any]) -> Any:
    """What slices of an expression take on its card: arrays, or of what lies on the host a function that
    uploads for each slice what it reads."""
    executable = cast(SlicedExecutable, expression._executable)
    on_host = {k: x for k, x in enumerate(arrays) if backend.placement(x) == "cpu"}
    places = {k: one for k, one in executable.places().items() if k in on_host}
    whole = [None if k in places else backend.to_device(x) for k, x in enumerate(arrays)]
    operands = executable.prepared([*whole, *expression._held])
    if not places:
        return operands
    pieces = {place: (on_host[k], axes) for k, (place, axes) in places.items()}
    return backend.uploads(operands, pieces, executable.indices)


def deliver_on(
    executable: Executable, plan: Plan, operands: Sequence[Any], out: Any, alpha: Any, beta: Any
) -> Any:
    """alpha * result + beta * out; with strip_exponent (mantissa, exponent), which waits for the device."""
    backend = executable.backend
    alpha, beta = factors(plan, alpha, beta)
    if plan.strip_exponent and (alpha != 1 or beta != 0):
        raise OptionError("einsum(strip_exponent=True): nothing is scaled or added to")
    if out is None and beta != 0:
        raise OptionError("einsum(beta=...): beta scales `out`; give out= as well, or leave beta 0")
    shape = tuple(plan.network.extents[label] for label in plan.network.output_axes)
    if out is not None and out.shape != shape:
        raise ShapeError(
            f"einsum(out=...): out has shape {out.shape}, the result has shape {shape}"
        )
    found = executable(*operands)
    result, exponent = found if plan.strip_exponent else (found, None)
    if out is not None:
        if executable.is_view and overlap(out, result):
            result = backend.apply("copy", {}, result)
        result = backend.assign(out, result, alpha, beta)
    elif alpha != 1:
        target = backend.empty(ArraySpec(result.dtype, result.shape))
        result = backend.assign(target, result, alpha)
    if out is None and plan.order != "K" and not executable.is_view:
        result = in_order(backend, result, order_of(plan.order, operands))
    if out is None and any(result is x for x in operands):
        result = result.view()
    if exponent is None:
        return result
    return result, float(backend.to_host(exponent))
