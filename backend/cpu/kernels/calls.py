"""Calls of routines that are known by their address when a kernel runs.

An address is another one in every process: as an argument it leaves what is kept on disk as it is.
"""

from __future__ import annotations

from typing import Any

MOST = 28  # arguments


def call_routine() -> Any:
    """call_routine(address, count, pointers, table, at): the Fortran routine there, with so many arguments:
    the pointers of numbers table[at], table[at + 1], ..., where `table` is read as flat."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .vectors import _data

    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()

    @intrinsic  # type: ignore[untyped-decorator]
    def call_routine(
        typing: Any, address: Any, count: Any, pointers: Any, table: Any, at: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            known, numbers = (_data(context, builder, signature.args[k], args[k]) for k in (2, 3))
            end = builder.append_basic_block("called")
            switch = builder.switch(args[1], end)
            for n in range(1, MOST + 1):
                block = builder.append_basic_block(f"with_{n}")
                switch.add_case(ir.Constant(word, n), block)
                builder.position_at_end(block)
                values = []
                for k in range(n):
                    place = builder.gep(numbers, (builder.add(args[4], ir.Constant(word, k)),))
                    value = builder.load(builder.gep(known, (builder.load(place),)))
                    values.append(builder.inttoptr(value, pointer))
                kind = ir.FunctionType(ir.VoidType(), [pointer] * n)
                builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        i = types.int64
        return types.void(i, i, pointers, table, i), emit

    return call_routine
