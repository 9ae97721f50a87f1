"""Which kernels the backend launches: a list of the beginnings of their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.backend.gpu.emulator import RawKernel


@contextmanager
def launches() -> Iterator[list[str]]:
    """What is launched inside the block, in order."""
    names: list[str] = []
    real = RawKernel.__call__

    def call(self: RawKernel, *arguments: Any, **keywords: Any) -> None:
        names.append(self.name.rpartition("_")[0])
        real(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RawKernel, "__call__", call)
        yield names
