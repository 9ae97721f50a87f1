"""The type of numba that is a vector of numbers, one for each of several matrices, and its operators.

Imported when the first kernel that uses it is compiled; see values.py for the words that kernels use.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable

FUSED = ("contract",)  # a * b + c may be rounded once
Emit = Callable[..., Any]

ARITHMETIC = {
    operator.add: "fadd",
    operator.sub: "fsub",
    operator.mul: "fmul",
    operator.truediv: "fdiv",
}
COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
LOGIC = {operator.and_: "and_", operator.or_: "or_", operator.xor: "xor"}


class Lanes(types.Type):  # type: ignore[misc]
    """So many numbers of a dtype; of complex ones the real parts and the imaginary parts."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(f"lanes({dtype}, {count})")

    @property
    def is_complex(self) -> bool:
        return isinstance(self.dtype, types.Complex)

    @property
    def is_mask(self) -> bool:
        return bool(self.dtype == types.boolean)

    @property
    def real(self) -> Any:
        """The dtype of the parts."""
        return self.dtype.underlying_float if self.is_complex else self.dtype

    @property
    def parts(self) -> Lanes:
        return Lanes(self.real, self.count)

    @property
    def mask(self) -> Lanes:
        return Lanes(types.boolean, self.count)


def element(dtype: Any) -> Any:
    """LLVM's type of one number."""
    if dtype == types.boolean:
        return ir.IntType(1)
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def vector(kind: Lanes) -> Any:
    """LLVM's type of the real parts."""
    return ir.VectorType(element(kind.real), kind.count)


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        part = vector(fe_type)
        both = ir.LiteralStructType([part, part]) if fe_type.is_complex else part
        super().__init__(dmm, fe_type, both)


# ---- values ------------------------------------------------------------------------------------


def parts(builder: Any, value: Any) -> tuple[Any, Any]:
    """Real and imaginary parts; of real lanes no imaginary ones."""
    if isinstance(value.type, ir.VectorType):
        return value, None
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


def whole(builder: Any, real: Any, imaginary: Any = None) -> Any:
    """The inverse of `parts`."""
    if imaginary is None:
        return real
    empty = ir.Constant(ir.LiteralStructType([real.type, real.type]), ir.Undefined)
    return builder.insert_value(builder.insert_value(empty, real, 0), imaginary, 1)


def constant(kind: Any, value: float) -> Any:
    """A vector of one number."""
    return ir.Constant(kind, [value] * kind.count)


def filled(builder: Any, value: Any, kind: Any) -> Any:
    """A vector of one number that is known when the kernel runs."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, nothing, zeros)


def called(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """A call of one of LLVM's own functions of a vector."""
    kind = ir.FunctionType(result, [x.type for x in args])
    bits = 32 if isinstance(result.element, ir.FloatType) else 64
    full = f"llvm.{name}.v{result.count}f{bits}"
    known = builder.module.globals.get(full)
    return builder.call(known or ir.Function(builder.module, kind, full), args)


# ---- operators ---------------------------------------------------------------------------------


def register() -> None:
    """Make the operators known to numba; once for each process."""
    for function, instruction in ARITHMETIC.items():
        _arithmetic(function, instruction)
    for function, sign in COMPARISONS.items():
        _comparison(function, sign)
    for function, instruction in LOGIC.items():
        _logic(function, instruction)
    _negation()
    _inversion()


def _arithmetic(function: Callable[..., Any], instruction: str) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def of(context: Any) -> Callable[..., Any]:
        def typer(x: Any, y: Any) -> Any:
            if isinstance(x, Lanes) and isinstance(y, Lanes):
                return x if x.is_complex else y
            if isinstance(x, Lanes) and isinstance(y, (types.Float, types.Integer)):
                return x
            if isinstance(y, Lanes) and isinstance(x, (types.Float, types.Integer)):
                return y
            return None

        return typer

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        like = signature.return_type.parts
        x, y = (
            parts(builder, _as_lanes(context, builder, kind, value, like))
            for kind, value in zip(kinds, args, strict=True)
        )
        return combined(builder, instruction, x, y)

    for pair in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(function, *pair)(emit)


def _as_lanes(context: Any, builder: Any, kind: Any, value: Any, like: Lanes) -> Any:
    if isinstance(kind, Lanes):
        return value
    return filled(builder, context.cast(builder, value, kind, like.dtype), vector(like))


def combined(builder: Any, instruction: str, x: Any, y: Any) -> Any:
    """x and y by one of the four operations, each given by its parts."""
    (a, b), (c, d) = x, y

    def emit(name: str, u: Any, v: Any) -> Any:
        return getattr(builder, name)(u, v, flags=FUSED)

    if b is None and d is None:
        return emit(instruction, a, c)
    if instruction in ("fadd", "fsub"):
        if b is None:
            b = constant(a.type, 0.0)
        low = b if d is None else emit(instruction, b, d)
        return whole(builder, emit(instruction, a, c), low)
    if d is None:  # complex by real
        return whole(builder, emit(instruction, a, c), emit(instruction, b, c))
    if instruction == "fdiv":
        return _divided(builder, a, b, c, d)
    if b is None:  # real times complex
        return whole(builder, emit("fmul", a, c), emit("fmul", a, d))
    real = emit("fsub", emit("fmul", a, c), emit("fmul", b, d))
    return whole(builder, real, emit("fadd", emit("fmul", a, d), emit("fmul", b, c)))


def _divided(builder: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """(a + bi) / (c + di), the divisor scaled by its larger part so that its square does not overflow."""
    if b is None:
        b = constant(a.type, 0.0)
    largest = called(builder, "maxnum", a.type, absolute(builder, c), absolute(builder, d))
    c, d = builder.fdiv(c, largest), builder.fdiv(d, largest)

    def dot(u: Any, v: Any, w: Any, x: Any, name: str) -> Any:
        left, right = builder.fmul(u, v, flags=FUSED), builder.fmul(w, x, flags=FUSED)
        return getattr(builder, name)(left, right, flags=FUSED)

    norm = dot(c, c, d, d, "fadd")
    x, y = dot(a, c, b, d, "fadd"), dot(b, c, a, d, "fsub")
    return whole(
        builder,
        builder.fdiv(builder.fdiv(x, norm), largest),
        builder.fdiv(builder.fdiv(y, norm), largest),
    )


def absolute(builder: Any, x: Any) -> Any:
    return called(builder, "fabs", x.type, x)


def _comparison(function: Callable[..., Any], sign: str) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def of(context: Any) -> Callable[..., Any]:
        def typer(x: Any, y: Any) -> Any:
            for one, other in ((x, y), (y, x)):
                if isinstance(one, Lanes) and isinstance(
                    other, (Lanes, types.Float, types.Integer)
                ):
                    return one.mask
            return None

        return typer

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        like = next(kind for kind in signature.args if isinstance(kind, Lanes)).parts
        x, y = (
            parts(builder, _as_lanes(context, builder, kind, value, like))
            for kind, value in zip(signature.args, args, strict=True)
        )
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        same = compare(sign, x[0], y[0])
        if x[1] is None and y[1] is None:
            return same
        zero = constant(x[0].type, 0.0)
        low = compare(sign, x[1] if x[1] is not None else zero, y[1] if y[1] is not None else zero)
        return (builder.or_ if sign == "!=" else builder.and_)(same, low)

    for pair in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(function, *pair)(emit)


def _logic(function: Callable[..., Any], instruction: str) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def of(context: Any) -> Callable[..., Any]:
        def typer(x: Any, y: Any) -> Any:
            both = isinstance(x, Lanes) and isinstance(y, Lanes)
            return x if both and x.is_mask and y.is_mask else None

        return typer

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    lower_builtin(function, Lanes, Lanes)(emit)


def _negation() -> None:
    @type_callable(operator.neg)  # type: ignore[untyped-decorator]
    def of(context: Any) -> Callable[..., Any]:
        return lambda x: x if isinstance(x, Lanes) else None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = parts(builder, args[0])
        return whole(builder, builder.fneg(a), None if b is None else builder.fneg(b))

    lower_builtin(operator.neg, Lanes)(emit)


def _inversion() -> None:
    @type_callable(operator.invert)  # type: ignore[untyped-decorator]
    def of(context: Any) -> Callable[..., Any]:
        return lambda x: x if isinstance(x, Lanes) and x.is_mask else None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.not_(args[0])

    lower_builtin(operator.invert, Lanes)(emit)
