"""Waiting for another thread's number to change, without the interpreter's lock."""

from __future__ import annotations

from typing import Any

from ..jit import kernel

# put here before a kernel is compiled; see vectors.py
fresh: Any = None
relax: Any = None


@kernel
def watch(number: Any, seen: int, looks: int, after: int) -> bool:
    """Look until number[0] is not `seen`, at most so many times; then rest for as long as `after` looks.

    The rest lets the thread that changed the number give up the interpreter's lock first: whoever asks
    for it while it is held goes to sleep, and to be woken takes longer than all of this.
    """
    for _ in range(looks):
        if fresh(number) != seen:
            for _ in range(after):
                relax()
            return True
        relax()
    return False
