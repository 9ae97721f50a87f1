"""Compiled functions that others call by their address, so that none is compiled into another.

What a compiled function calls numba links into it, with all that this calls in turn, and LLVM optimises
everything anew: of functions that call each other five deep the lowest are optimised five times, wherever
they are called. A function that is set apart is compiled once, for the types that its annotations say. Its
callers know a symbol, which stands for its address in this process: so they are kept on disk as they are,
and `symbol_of` has the function compiled or loaded before any of them.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])


def apart(function: F) -> F:
    """Mark a function that is compiled apart from those that call it (decorator); it runs as it stands.

    Annotations say the types: int, float, bool, MutableSequence[int] or [float] for contiguous arrays,
    list[tuple[...]] and NamedTuples of these.
    """
    function.apart = True  # type: ignore[attr-defined]
    return function


def is_apart(function: Callable[..., Any]) -> bool:
    return getattr(function, "apart", False)


def symbol_of(function: Callable[..., Any], dispatcher: Any) -> str:
    """What stands for the address of the code of `dispatcher`, compiled or loaded."""
    from llvmlite import binding

    arguments, result = signature_of(function)
    dispatcher.compile(arguments)
    found = dispatcher.overloads[arguments]
    assert found.signature.return_type == result, f"{function.__name__}: not as annotated"
    symbol = f"{function.__module__}.{function.__qualname__}"
    binding.add_symbol(symbol, found.library.get_pointer_to_function(found.fndesc.llvm_func_name))
    return symbol


def call_of(function: Callable[..., Any], symbol: str) -> Any:
    """What compiled functions call instead: the code at its address."""
    return _call(symbol, *signature_of(function))


def with_types(function: Callable[..., Any], dispatcher: Any) -> None:
    """Compile a function for the types that it is annotated with, whatever callers seem to give.

    While types of a caller are inferred a variable may pass for a constant, and for each of these numba
    would compile a variant that is never called.
    """
    hints = get_type_hints(function)
    if Any in hints.values():
        return
    arguments, _ = signature_of(function)
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda given, named: template(arguments, {})


def signature_of(function: Callable[..., Any]) -> tuple[tuple[Any, ...], Any]:
    """numba's types of arguments and result."""
    hints = get_type_hints(function)
    result = type_of(hints.pop("return"))
    return tuple(type_of(hint) for hint in hints.values()), result


def type_of(hint: Any) -> Any:
    """numba's type for an annotation."""
    from numba import types

    plain = {int: types.int64, float: types.float64, bool: types.boolean, NoneType: types.none}
    if hint in plain:
        return plain[hint]
    inner = get_args(hint)
    if get_origin(hint) is MutableSequence:
        return types.Array(plain[inner[0]], 1, "C")
    if get_origin(hint) is list:
        return types.List(type_of(inner[0]))
    if get_origin(hint) is tuple:
        return types.Tuple([type_of(one) for one in inner])
    fields = [type_of(one) for one in get_type_hints(hint).values()]
    if len(set(fields)) == 1:
        return types.NamedUniTuple(fields[0], len(fields), hint)
    return types.NamedTuple(fields, hint)


def _call(symbol: str, arguments: tuple[Any, ...], result: Any) -> Any:
    """A call in numba's own convention, errors and references included."""
    from inspect import Parameter, Signature

    from numba.core import cgutils
    from numba.extending import intrinsic

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(signature.return_type, signature.args)
        function = cgutils.get_or_insert_function(builder.module, kind, symbol)
        status, value = convention.call_function(
            builder, function, signature.return_type, signature.args, args
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    def typed(typing: Any, *given: Any) -> Any:
        return result(*arguments), emit

    names = ["typing", *(f"x{k}" for k in range(len(arguments)))]
    typed.__signature__ = Signature(  # type: ignore[attr-defined]  # numba takes no *arguments
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return intrinsic(typed)
