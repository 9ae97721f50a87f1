"""Entries of compiled kernels: functions around them that need no numba to be called (`bare`).

numba makes two functions around each that it compiles, one that Python calls and one that C calls. A
kernel's entry takes the place of the second. What a kernel asks of numba's runtime is memory for arrays of
its own: for entries there is another that takes it from malloc.

All this leans on numba's inside. Where a version of numba is not as this expects, kernels have no entries
and are called by numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..._base.log import log
from . import bare

MEMORY = """
declare ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @abort()

define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %line = zext i32 %align to i64
  %head = add i64 %line, 48
  %all = add i64 %size, %head
  %block = call ptr @malloc(i64 %all)
  %none = icmp eq ptr %block, null
  br i1 %none, label %without, label %with
without:
  ret ptr null
with:
  %start = ptrtoint ptr %block to i64
  %end = add i64 %start, %head
  %over = urem i64 %end, %line
  %place = sub i64 %end, %over
  %data = inttoptr i64 %place to ptr
  call void @begin(ptr %block, ptr null, ptr null, ptr %data)
  ret ptr %block
}

define ptr @NRT_MemInfo_new_varsize_dtor(i64 %size, ptr %destroy) {
  %data = call ptr @malloc(i64 %size)
  %block = call ptr @malloc(i64 48)
  %no_data = icmp eq ptr %data, null
  %no_block = icmp eq ptr %block, null
  %none = or i1 %no_data, %no_block
  br i1 %none, label %without, label %with
without:
  call void @free(ptr %data)
  call void @free(ptr %block)
  ret ptr null
with:
  call void @begin(ptr %block, ptr %block, ptr %destroy, ptr %data)
  ret ptr %block
}

define ptr @NRT_MemInfo_varsize_realloc(ptr %block, i64 %size) {
  %slot = getelementptr ptr, ptr %block, i64 3
  %old = load ptr, ptr %slot
  %data = call ptr @realloc(ptr %old, i64 %size)
  %none = icmp eq ptr %data, null
  br i1 %none, label %without, label %with
without:
  ret ptr null
with:
  store ptr %data, ptr %slot
  ret ptr %data
}

define internal void @begin(ptr %block, ptr %apart, ptr %destroy, ptr %data) {
  store i64 1, ptr %block
  %second = getelementptr ptr, ptr %block, i64 1
  store ptr %apart, ptr %second
  %third = getelementptr ptr, ptr %block, i64 2
  store ptr %destroy, ptr %third
  %fourth = getelementptr ptr, ptr %block, i64 3
  store ptr %data, ptr %fourth
  ret void
}

define void @NRT_MemInfo_call_dtor(ptr %block) {
  %second = getelementptr ptr, ptr %block, i64 1
  %apart = load ptr, ptr %second
  %third = getelementptr ptr, ptr %block, i64 2
  %destroy = load ptr, ptr %third
  %fourth = getelementptr ptr, ptr %block, i64 3
  %data = load ptr, ptr %fourth
  %no_contents = icmp eq ptr %destroy, null
  br i1 %no_contents, label %empty, label %full
full:
  call void %destroy(ptr %data, i64 0, ptr null)
  br label %empty
empty:
  %is_one = icmp eq ptr %apart, null
  br i1 %is_one, label %end, label %two
two:
  call void @free(ptr %data)
  br label %end
end:
  call void @free(ptr %block)
  ret void
}
"""
"""Blocks begin as numba's do: a count of references, two words that nothing but this reads, a pointer to the
data. The two words: whether the data lie in a block of their own, and what destroys them."""

GIVEN = (
    "NRT_MemInfo_alloc_aligned", "NRT_MemInfo_new_varsize_dtor", "NRT_MemInfo_varsize_realloc",
    "NRT_MemInfo_call_dtor",
)  # fmt: skip
OUTSIDE = (
    "NRT_adapt_ndarray_from_python", "NRT_Free", "numba_unpickle", "numba_do_raise",
    "numba_runtime_build_excinfo_struct",
)  # fmt: skip
"""What the function that Python calls needs of numba; entries call none of it."""
MATHEMATICS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "cbrt", "hypot", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    "tgamma", "lgamma", "fmod", "fma", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "ldexp",
    "frexp", "copysign",
)  # fmt: skip
LIBRARY = {
    "malloc", "free", "memcpy", "memmove", "memset", "sched_yield",
    *MATHEMATICS, *(f"{x}f" for x in MATHEMATICS),
}  # fmt: skip
"""What code may ask of C's own library, which every process has."""
RESULTS = ("none", "bool", "int64", "float64")


@contextmanager
def given_up(what: str) -> Iterator[None]:
    """What fails in it is done without: a kernel is none the worse for it."""
    try:
        yield
    except Exception as error:
        log.warning(
            "%s for calls without numba is not made: %s: %s", what, type(error).__name__, error
        )


def facts_of(compiled: Any, is_apart: bool) -> list[bare.Facts]:
    """What is to be known of a compiled function to call it without numba: by its entry, at its address."""
    function, signature = compiled.fndesc, compiled.signature
    found: list[bare.Facts] = []
    with given_up("a file"):
        module = compiled.library._final_module
        calls, outside = _foreign(module) if bare.is_possible() else ([], None)
        if outside is None or not _has_known_blocks():
            return found
        if _symbol(function) in {x.name for x in module.functions}:
            letters, runtime = letters_of(signature.args), _runtime(outside)
            found.append(bare.Facts(letters, _symbol(function), calls, runtime))
        if is_apart:
            runtime, symbol = _runtime(outside), function.llvm_func_name
            found.append(bare.Facts(bare.APART, symbol, calls, runtime))
    return found


def keep(function: Any, facts: list[bare.Facts], code: bytes) -> None:
    """Keep code for calls without numba; where it is kept already, nothing happens."""
    with given_up("a file"):
        for one in facts:
            bare.keep(function, one, code)


def letters_of(types_: Any) -> str:
    """What stands for numba's types of arguments, "" where no entry takes them; see `bare.letters_of`."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    scalars = {types.int64: "q", types.float64: "d", types.boolean: "?"}
    letters = []
    for kind in types_:
        if type(kind) is types.Array and kind.layout == "C" and kind.aligned:
            dtype = as_dtype(kind.dtype)
            if dtype.kind not in bare.NUMBERS:
                return ""
            letters.append(bare.array_letters(dtype, kind.ndim, kind.mutable))
        elif kind in scalars:
            letters.append(scalars[kind])
        else:
            return ""
    return " ".join(letters)


def _symbol(function: Any) -> str:
    """The entry's; another one than numba's function for C would have."""
    return f"entry.{function.llvm_func_name}"


def _foreign(module: Any) -> tuple[list[str], tuple[str, ...] | None]:
    """Functions set apart that its code names, and what it names of numba's; None where that is more than
    what there is a substitute for."""
    values = [*module.functions, *module.global_variables]
    names = {x.name for x in values if x.is_declaration and not x.name.startswith("llvm.")}
    ours = sorted(x for x in names if x.startswith(f"{__name__.partition('.')[0]}."))
    process = ctypes.CDLL(None)
    known = {
        x for x in names if (x in LIBRARY or x.startswith(("Py", "_Py"))) and hasattr(process, x)
    }
    others = names - known - {*ours}
    return ours, tuple(sorted(others)) if others <= {*OUTSIDE, *GIVEN} else None


@cache
def _has_known_blocks() -> bool:
    """Whether numba's blocks of memory have their data where `MEMORY` puts it."""
    from numba.core.runtime import nrtdynmod

    elements = [str(x) for x in nrtdynmod._meminfo_struct_type.elements]
    return elements[0] == "i64" and elements[3] == "i8*" and elements[1] == elements[2] == "i8*"


@cache
def _runtime(outside: tuple[str, ...]) -> bytes:
    """The object with what stands for numba's runtime."""
    from llvmlite import binding

    text = MEMORY + "".join(
        f"define void @{name}() {{\n  call void @abort()\n  unreachable\n}}\n"
        for name in outside
        if name not in GIVEN
    )
    image: bytes = bare.target_machine().emit_object(binding.parse_assembly(text))
    return image


@cache
def how() -> dict[str, Any]:
    """How numba's decorator is told to make entries."""
    with given_up("a compiler"):
        return {"pipeline_class": _compiler()}
    return {}


def _compiler() -> type[Any]:
    """numba's compiler, which makes an entry where it would make a function for C."""
    from numba.core import compiler, lowering
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import BaseNativeLowering, NativeLowering

    class Lower(lowering.Lower):  # type: ignore[misc]
        def create_cfunc_wrapper(self) -> None:
            """The entry, if there can be one."""
            if letters_of(self.fndesc.argtypes) and str(self.fndesc.restype) in RESULTS:
                with given_up("an entry"):
                    self.library.add_ir_module(_entry(self.context, self.fndesc))

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(BaseNativeLowering):  # type: ignore[misc]
        _name = "native lowering with an entry"

        @property
        def lowering_class(self) -> type[Any]:
            return Lower

    class Compiler(compiler.CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            """That of nopython mode."""
            passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            mine = compiler.PassManager("nopython with an entry")
            for one, name in passes.passes:
                mine.add_pass(Lowering if one is NativeLowering else one, name)
            mine.finalize()
            return [mine]

    return Compiler


def _entry(context: Any, function: Any) -> Any:
    """entry(arguments, expected): what the function returns for a tuple of arguments; expected[0] where one
    is of another kind; no object, and an error, where memory ran out. The interpreter's lock is held but
    while the function itself runs. That raises nothing but what numba does where there is no memory: no
    kernel has a statement that raises.
    """
    from llvmlite import ir
    from numba import types

    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    module = context.create_module("entry")
    convention = context.call_conv
    kind = convention.get_function_type(function.restype, function.argtypes)
    inner = ir.Function(module, kind, function.llvm_func_name)
    outer = ir.FunctionType(word, [word, word.as_pointer()])
    entry = ir.Function(module, outer, _symbol(function))
    builder = ir.IRBuilder(entry.append_basic_block())
    python = _Python(module, builder)
    given, expected = entry.args
    n = len(function.argtypes)

    def expectation(k: int) -> Any:
        return builder.load(builder.gep(expected, [ir.Constant(word, k)]))

    refused, none = expectation(0), expectation(1)
    python.go_on_if([(python.field(given, bare.LENGTH), ir.Constant(word, n))], refused)
    objects = [python.field(given, bare.ITEMS + 8 * k) for k in range(n)]
    python.go_on_if(
        [(python.field(x, bare.TYPE), expectation(2 + k)) for k, x in enumerate(objects)], refused
    )
    arrays = [(x, t) for x, t in zip(objects, function.argtypes, strict=True) if _is_array(t)]
    python.go_on_if(
        [
            pair
            for k, (x, type_) in enumerate(arrays)
            for pair in python.facts(x, type_, expectation(2 + n + k))
        ],
        refused,
    )
    values = [
        _array(context, python, t, x) if _is_array(t) else python.number(x, t, refused)
        for x, t in zip(objects, function.argtypes, strict=True)
    ]
    state = python.call("PyEval_SaveThread", pointer)
    status, result = convention.call_function(
        builder, inner, function.restype, function.argtypes, values, attrs=("noinline",)
    )
    python.call("PyEval_RestoreThread", ir.VoidType(), state)
    with builder.if_then(status.is_error, likely=False):
        python.call("PyErr_NoMemory", pointer)
        builder.ret(ir.Constant(word, 0))
    if function.restype == types.none:
        python.call("Py_IncRef", ir.VoidType(), none)
        builder.ret(none)
    else:
        name = {types.boolean: "PyBool_FromLong", types.int64: "PyLong_FromLongLong"}
        if function.restype == types.boolean:
            result = builder.zext(result, word)
        make = name.get(function.restype, "PyFloat_FromDouble")
        builder.ret(python.call(make, word, result))
    return module


def _is_array(type_: Any) -> bool:
    from numba import types

    return isinstance(type_, types.Array)


class _Python:
    """Code that looks into objects of Python and calls its C interface; objects are words."""

    def __init__(self, module: Any, builder: Any) -> None:
        self.module, self.builder = module, builder

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        from llvmlite import ir
        from numba.core import cgutils

        kind = ir.FunctionType(result, [x.type for x in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), arguments)

    def field(self, object_: Any, place: int, bits: int = 64) -> Any:
        """What an object holds there."""
        from llvmlite import ir

        address = self.builder.add(object_, ir.Constant(ir.IntType(64), place))
        return self.builder.load(self.builder.inttoptr(address, ir.IntType(bits).as_pointer()))

    def go_on_if(self, equal: Sequence[tuple[Any, Any]], refused: Any) -> None:
        """Return `refused` unless both of each pair are equal."""
        from llvmlite import ir

        fits = ir.Constant(ir.IntType(1), 1)
        for x, y in equal:
            fits = self.builder.and_(fits, self.builder.icmp_unsigned("==", x, y))
        with self.builder.if_then(self.builder.not_(fits), likely=False):
            self.refuse(refused)

    def refuse(self, refused: Any) -> None:
        from llvmlite import ir

        self.call("Py_IncRef", ir.VoidType(), refused)
        self.builder.ret(refused)

    def facts(self, array: Any, type_: Any, dtype: Any) -> list[tuple[Any, Any]]:
        """What must be equal for an array to be of numba's type."""
        from llvmlite import ir

        half = ir.IntType(32)
        needed = ir.Constant(half, bare.CONTIGUOUS | (bare.WRITEABLE if type_.mutable else 0))
        return [
            (self.field(array, bare.DTYPE), dtype),
            (self.builder.and_(self.field(array, bare.FLAGS, 32), needed), needed),
            (self.field(array, bare.NDIM, 32), ir.Constant(half, type_.ndim)),
        ]

    def number(self, object_: Any, type_: Any, refused: Any) -> Any:
        """The value of an integer, a float or a truth value; an integer of more than 64 bits is refused."""
        from llvmlite import ir
        from numba import types

        word = ir.IntType(64)
        if type_ == types.float64:
            return self.call("PyFloat_AsDouble", ir.DoubleType(), object_)
        value = self.call("PyLong_AsLongLong", word, object_)
        if type_ == types.boolean:
            return self.builder.icmp_unsigned("!=", value, ir.Constant(word, 0))
        is_odd = self.builder.icmp_unsigned("==", value, ir.Constant(word, -1))
        with self.builder.if_then(is_odd, likely=False):
            error = self.call("PyErr_Occurred", word)
            failed = self.builder.icmp_unsigned("!=", error, ir.Constant(word, 0))
            with self.builder.if_then(failed, likely=False):
                self.call("PyErr_Clear", ir.VoidType())
                self.refuse(refused)
        return value


def _array(context: Any, python: _Python, type_: Any, given: Any) -> Any:
    """numba's array, of Python's."""
    from llvmlite import ir
    from numba.np.arrayobj import populate_array

    builder, word = python.builder, ir.IntType(64)

    def numbers(place: int) -> list[Any]:
        first = builder.inttoptr(python.field(given, place), word.as_pointer())
        return [builder.load(builder.gep(first, [ir.Constant(word, k)])) for k in range(type_.ndim)]

    array = context.make_array(type_)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(python.field(given, bare.DATA), array.data.type),
        shape=numbers(bare.SHAPE),
        strides=numbers(bare.STRIDES),
        itemsize=context.get_abi_sizeof(context.get_data_type(type_.dtype)),
        meminfo=None,
    )
    return array._getvalue()
