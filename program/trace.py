"""A function of arrays as a template: run once on values that record what is done to them.

A `Traced` value is a slot of a template under construction. Arithmetic on it appends instructions;
what would need its numbers (a comparison, float(x), iteration, numpy.asarray) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .._base.errors import CallError, ConversionError, DTypeError, OptionError, ShapeError
from ..backend.dims import DimExpr, Size, as_size, differ, dim, names_of
from ..backend.spec import ArraySpec, Axes, Shape, dtype_from_name, dtype_name
from .builder import Builder
from .ir import Program
from .template import ProgramTemplate

_SPEC = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*")


def trace(
    fn: Callable[..., Any], *specs: Any, sizes: Mapping[str, int] | None = None, dtype: Any = None
) -> ProgramTemplate:
    """Record what `fn` does with arrays of these shapes, as a template: fn(x) = template.bind(...)(x).

    `fn` is called once, with values that stand for arrays. `einsum`, `tensordot`, `ncon` and
    `transpose` of einloom, `+ - * / ** @`, `abs` and `.T` append to the program. Python around them
    runs as it is.

    Args:
        fn: returns one such value, or a tuple or list of them.
        specs: for each argument a string as programs print it, "float64[n,3]"; or a shape, a tuple
            of integers and names; or an array, looked at for shape and dtype only.
        sizes: for every name a size of which contractions are planned; the template is right for
            any, and good for sizes like these.
        dtype: of shapes; default float64.

    Returns:
        ProgramTemplate: `bind(shapes)` gives the program for arrays of these shapes.

    Raises:
        CallError, OptionError: an argument has no meaning, or a result is no value of this trace.
        ShapeError: shapes do not fit each other, whatever the sizes of names.

    >>> template = trace(lambda x, w: abs(x @ w) + 1, "float64[n,3]", "float64[3,m]")
    >>> print(template.bind([(2, 3), (3, 5)]))
    program(%0: float64[2,3], %1: float64[3,5])
      %2 = matmul(%0, %1)  # float64[2,5], 80 B
      %3 = absolute(%2)  # float64[2,5], 80 B
      %4 = constant() [dtype='float64', value=1]  # float64[], 8 B
      %5 = broadcast_in_dim(%4) [axes=(), shape=(2,5)]  # float64[2,5], view
      %6 = add(%3, %5)  # float64[2,5], 80 B
      return %6
    """
    if not callable(fn):
        raise CallError(
            f"trace: fn is a {type(fn).__name__}, no function to record; the sum of a diagonal is "
            f"einloom.functions.trace, or einloom.linalg.trace for the last two axes"
        )
    given = [_spec(spec, dtype, k) for k, spec in enumerate(specs)]
    session = Session(_examples(sizes))
    arguments = [session.input(spec) for spec in given]
    try:
        result = fn(*arguments)
        several = result if isinstance(result, (tuple, list)) else (result,)
        return session.build.template(*(session.slot(x, "trace: a result") for x in several))
    finally:
        session.ended = True


class Session:
    """One call of `trace`: the builder that its values share, and sizes to plan for."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.build, self.sizes, self.ended = Builder(), sizes, False

    def input(self, spec: ArraySpec) -> Traced:
        return Traced(self, self.build.input(spec.dtype, spec.shape))

    def slot(self, x: Any, what: str) -> int:
        """The slot of a value of this trace; others have no meaning here."""
        if not isinstance(x, Traced):
            raise CallError(
                f"{what} is a {type(x).__name__}, no traced value; an array that the program needs "
                f"must be an argument"
            )
        if self.ended or x.session is not self:
            raise CallError(f"{what} is a value of another trace; it has a meaning only in its own")
        return x.slot

    def example(self, shape: Shape) -> Shape:
        """Integers to plan for in place of names: >= 2, so that none is taken for an axis of size 1."""
        names = {name for n in shape for name in names_of(n)}
        missing = sorted(names - self.sizes.keys())
        if missing:
            said = ", ".join(f'"{name}": 100' for name in missing)
            raise OptionError(
                f"trace: {', '.join(missing)} has no size to plan for; pass sizes={{{said}}}, say"
            )
        return tuple(max(2, n.evaluate(self.sizes)) if isinstance(n, DimExpr) else n for n in shape)

    def record(self, program: Program, operands: Sequence[Traced]) -> tuple[Traced, ...]:
        """Append the instructions of a program whose attributes name no size; its results."""
        slots = dict(zip(program.inputs, (self.slot(x, "einsum") for x in operands), strict=True))
        for ins in program.instructions:
            mapped = (slots[slot] for slot in ins.inputs)
            made = self.build.several(ins.op, *mapped, **ins.attrs)
            slots.update(zip(ins.outputs, made, strict=True))
        return tuple(Traced(self, slots[slot]) for slot in program.outputs)

    def op(self, op: str, *operands: Traced, **attrs: Any) -> Traced:
        slots = (self.slot(x, op) for x in operands)
        return Traced(self, self.build(op, *slots, **attrs))

    def convert(self, x: Traced, dtype: np.dtype[Any]) -> Traced:
        return Traced(self, self.build.convert(self.slot(x, "convert"), dtype))

    def broadcast(self, x: Traced, shape: Shape) -> Traced:
        """x with further axes in front and axes of size 1 repeated, as NumPy broadcasts."""
        if x.shape == shape:
            return x
        axes = tuple(range(len(shape) - x.ndim, len(shape)))
        return self.op("broadcast_in_dim", x, shape=shape, axes=axes)

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Traced:
        return self.op("constant", value=value, dtype=dtype_name(dtype))


class Traced:
    """What stands for an array inside `trace`: dtype, shape and the slot that will hold it."""

    __slots__ = ("session", "slot")
    __array_ufunc__ = None  # so that array + traced asks us, who refuse it

    def __init__(self, session: Session, slot: int) -> None:
        self.session, self.slot = session, slot

    @property
    def spec(self) -> ArraySpec:
        return self.session.build.spec(self.slot)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def T(self) -> Traced:  # noqa: N802
        """The axes in reverse order."""
        return self.permuted(tuple(range(self.ndim - 1, -1, -1)))

    def permuted(self, perm: Axes) -> Traced:
        slot = self.session.slot(self, "transpose")
        return Traced(self.session, self.session.build.transpose(slot, perm))

    def __add__(self, other: Any) -> Traced:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Traced:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Traced:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Traced:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Traced:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Traced:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _binary("divide", other, self)

    def __pow__(self, other: Any) -> Traced:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Traced:
        return _binary("power", other, self)

    def __matmul__(self, other: Any) -> Traced:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Traced:
        return _matmul(other, self)

    def __neg__(self) -> Traced:
        return self.session.op("negate", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return self.session.op("absolute", self)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConversionError(f"{self!r} has no numbers yet: it stands for an array inside trace")

    def _no_numbers(self, *args: Any) -> NoReturn:
        raise ConversionError(
            f"{self!r} has no numbers yet: inside trace a value cannot be compared, tested, iterated "
            f"over, indexed or turned into a number"
        )

    __bool__ = __int__ = __float__ = __complex__ = __index__ = _no_numbers
    __iter__ = __len__ = __getitem__ = __contains__ = _no_numbers
    __lt__ = __le__ = __gt__ = __ge__ = _no_numbers
    __eq__ = __ne__ = _no_numbers
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<traced {self.spec}>"


def traced_among(values: Sequence[Any]) -> Traced | None:
    """The first traced value, if there is one."""
    return next((x for x in values if isinstance(x, Traced)), None)


def traced_extension(family: str, attrs: Mapping[str, Any], *values: Traced) -> tuple[Traced, ...]:
    """Append one call of an extension family to the trace of its operands; its results.

    >>> from einloom.program.extension import register_family, unregister_family
    >>> _ = register_family("docs.twice.v1", lambda attrs, inputs: inputs * 2)
    >>> print(trace(lambda x: traced_extension("docs.twice.v1", {}, x), "float64[n]"))
    template(%0: float64[n])
      %1, %2 = extension:docs.twice.v1(%0)  # float64[n], float64[n], 16*n B
      return %1, %2
    >>> unregister_family("docs.twice.v1")
    """
    session = values[0].session
    slots = [session.slot(x, f"{family}: operand {k}") for k, x in enumerate(values)]
    return tuple(Traced(session, slot) for slot in session.build.extension(family, *slots, **attrs))


# ---- arithmetic ----------------------------------------------------------------------------------


def _binary(op: str, x: Any, y: Any) -> Traced:
    session: Session = (x if isinstance(x, Traced) else y).session
    for value in (x, y):
        if isinstance(value, Traced):
            session.slot(value, op)
        elif not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
            raise CallError(
                f"{op}: a traced value and a {type(value).__name__} do not go together; an array that "
                f"the program needs must be an argument of the traced function"
            )
    dtype = _promoted(op, x, y)
    shape = broadcast_shape(op, *(value.shape for value in (x, y) if isinstance(value, Traced)))
    operands = []
    for value in (x, y):
        if isinstance(value, Traced):
            value = session.convert(value, dtype)
        else:
            value = session.constant(np.asarray(value).item(), dtype)
        operands.append(session.broadcast(value, shape))
    return session.op(op, *operands)


def _promoted(op: str, x: Any, y: Any) -> np.dtype[Any]:
    """NumPy's dtype: of two traced values, or of one and a number, which is weak if Python's own."""
    kinds = [value.dtype if isinstance(value, Traced) else value for value in (x, y)]
    try:
        dtype: np.dtype[Any] = np.result_type(*kinds)
    except TypeError as error:
        raise DTypeError(f"{op}: {error}") from None
    if op == "divide" and dtype.kind in "biu":
        return np.dtype(np.float64)
    return dtype


def broadcast_shape(op: str, *shapes: Shape) -> Shape:
    """The shape that these broadcast to; a size known later is not taken for 1."""
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    found: list[Size] = []
    for sizes in zip(*padded, strict=True):
        size: Size = 1
        for n in sizes:
            if type(n) is int and n == 1:
                continue
            if not (type(size) is int and size == 1) and differ(size, n):
                raise ShapeError(f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast")
            size = n if type(size) is int and size == 1 else size
        found.append(size)
    return tuple(found)


def _matmul(x: Any, y: Any) -> Traced:
    """numpy.matmul: the last two axes, the others broadcast; a vector is a row or a column."""
    session: Session = (x if isinstance(x, Traced) else y).session
    for value in (x, y):
        session.slot(value, "matmul: an operand")
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: operands of shapes {x.shape} and {y.shape} need an axis; use *")
    dtype = _promoted("matmul", x, y)
    a, b = session.convert(x, dtype), session.convert(y, dtype)
    a = session.op("expand_dims", a, axes=(0,)) if x.ndim == 1 else a
    b = session.op("expand_dims", b, axes=(1,)) if y.ndim == 1 else b
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    a = session.broadcast(a, (*batch, *a.shape[-2:]))
    b = session.broadcast(b, (*batch, *b.shape[-2:]))
    out = session.op("matmul", a, b)
    axes = (out.ndim - 2,) * (x.ndim == 1) + (out.ndim - 1,) * (y.ndim == 1)
    return session.op("squeeze", out, axes=axes) if axes else out


# ---- arguments -----------------------------------------------------------------------------------


def _spec(spec: Any, dtype: Any, position: int) -> ArraySpec:
    """Dtype and shape of an argument, from any of the forms in which it may be told."""
    call = f"trace: argument {position}"
    if isinstance(spec, str):
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise OptionError(f'{call} is {spec!r:.60}; write dtype and shape as in "float64[n,3]"')
        parts = [part.strip() for part in match[2].split(",") if match[2].strip()]
        sizes: Any = tuple(int(part) if part.isdecimal() else dim(part) for part in parts)
        return ArraySpec(dtype_from_name(match[1]), sizes)
    if isinstance(spec, (tuple, list)):
        shape = tuple(as_size(n) for n in spec)
        if any(type(n) is int and n < 0 for n in shape):
            raise ShapeError(f"{call} has the shape {shape}; sizes are >= 0")
        return ArraySpec(np.dtype(np.float64 if dtype is None else dtype), shape)
    if isinstance(spec, ArraySpec):
        return spec
    if not hasattr(spec, "shape") or not hasattr(spec, "dtype"):
        raise CallError(
            f'{call} is a {type(spec).__name__}; give "float64[n,3]", a shape, or an array'
        )
    return ArraySpec(np.dtype(spec.dtype).newbyteorder("="), tuple(spec.shape))


def _examples(sizes: Mapping[str, int] | None) -> dict[str, int]:
    found = dict(sizes or {})
    for name, n in found.items():
        dim(name)
        if type(n) is not int or n < 0:
            raise OptionError(f"trace(sizes=...): {name} = {n!r}; give an integer >= 0")
    return found
