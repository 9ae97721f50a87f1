"""What all tests share: a seeded generator, and caches that stay out of the tree."""

from __future__ import annotations

import gc
import os
import tempfile
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

# Before einloom or hypothesis look for a place of their own; removed when the tests end.
SCRATCH = tempfile.TemporaryDirectory(prefix="einloom-tests-", ignore_cleanup_errors=True)
os.environ.setdefault("EINLOOM_CACHE_DIR", os.path.join(SCRATCH.name, "cache"))
os.environ.setdefault("EINLOOM_PATIENCE", "0")  # tests of kernels are of kernels
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(SCRATCH.name, "hypothesis"))

from hypothesis import settings  # noqa: E402 (it reads the environment)

settings.register_profile("einloom", database=None, deadline=None, derandomize=True)
settings.load_profile("einloom")

from einloom._base.caches import clear_caches  # noqa: E402
from einloom._base.options import PATIENCE, SMALL, options  # noqa: E402
from einloom.backend import cost_model  # noqa: E402 (so does this)

# which engine is chosen is tested as on a processor that nothing is known of
cost_model.KNOWN.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        default="1/1",
        help="K/N: the K-th of N parts of the tests, by their names",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """By names, and not each third: parameters that come in threes are in all parts."""
    number, _, parts = config.getoption("--part").partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise pytest.UsageError(f"--part {number}/{parts}: give K/N with K from 1 to N")
    if int(parts) == 1:
        return
    kept = [x for x in items if zlib.crc32(x.nodeid.encode()) % int(parts) == int(number) - 1]
    config.hook.pytest_deselected(items=[x for x in items if x not in set(kept)])
    items[:] = kept


def pytest_collection_finish() -> None:
    """The tens of thousands of cases stay: without this every collection of garbage looks at all of them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    SCRATCH.cleanup()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of this test: the same in every run, others in every test."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def usual_options() -> Iterator[None]:
    """Patience as users have it, and nothing in a cache: first calls are first calls."""
    with options(patience=PATIENCE, small=SMALL):
        clear_caches()
        yield
        clear_caches()
