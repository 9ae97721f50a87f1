"""Finished ranges of a run in slices, in a folder: a run that was killed goes on from there.

Each range is one file, written whole or not at all. It tells of which plan and which operands it is, and a
digest of all that it holds: what does not agree with its digest is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base.errors import OptionError
from .._base.log import log
from ..backend.spec import dtype_from_name, dtype_name
from ..program.ranges import Partial

FORMAT, VERSION = "einloom.slices", 1
SUFFIX = ".slices"
FOLD = 8
"""Ranges of one part of the result after which their files are replaced by one with their sum."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Digests of the plan and of the operands, and at most how many slices a range has."""

    plan: str
    operands: str
    slices_per_task: int

    @classmethod
    def of(cls, plan: str, operands: Iterable[Any], slices_per_task: int) -> Identity:
        state = hashlib.blake2b(digest_size=16)
        for x in operands:
            state.update(f"{dtype_name(x.dtype)}{x.shape}".encode())
            state.update(_bytes_of(x))
        told = hashlib.blake2b(plan.encode(), digest_size=16).hexdigest()
        return cls(told, state.hexdigest(), slices_per_task)


class Checkpoint:
    """The ranges in `folder`, which is made where there is none: those of another identity are refused."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder, self.identity = folder, identity
        self._longest: dict[int, int] = {}  # start: stop
        self._spans: set[tuple[int, int]] = set()  # of all files
        self._part, self._pieces = -1, 0  # where a part begins, and how many files its sum is of
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                f"run_slices(checkpoint={str(folder)!r}): this folder cannot be made ({error.strerror}); "
                f"give another path"
            ) from None
        for path in folder.glob("*.part"):
            path.unlink(missing_ok=True)  # begun by a run that was killed
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            self._find(path)

    def stop_of(self, start: int) -> int | None:
        """The end of the longest range that begins there, None if there is none."""
        return self._longest.get(start)

    def read(self, start: int, stop: int) -> Partial:
        partial = self._read(self._path(start, stop))
        if partial is None:
            raise OptionError(
                f"run_slices(checkpoint={str(self.folder)!r}): the file of slices {start} to {stop - 1} was "
                f"changed since the run began; run again"
            )
        return partial

    def add(self, partial: Partial) -> None:
        """Keep a range; after a crash at any time it is there, or it is not."""
        values = np.ascontiguousarray(partial.values)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "plan": self.identity.plan,
            "operands": self.identity.operands,
            "slices_per_task": self.identity.slices_per_task,
            "start": partial.start,
            "stop": partial.stop,
            "exponent": partial.exponent,
            "dtype": dtype_name(values.dtype),
            "shape": values.shape,
        }
        path = self._path(partial.start, partial.stop)
        beside = path.with_suffix(f".{os.getpid()}.part")
        try:
            with open(beside, "wb") as file:
                line, data = json.dumps(head).encode(), _bytes_of(values)
                file.write(_digest(line, data) + b" " + line + b"\n")
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self._sync()
        self._spans.add((partial.start, partial.stop))

    def fold(self, latest: Partial, whole: bool) -> None:
        """A piece of a part was added to the result, `latest` is the part so far: one file with that sum
        takes the place of several. `whole`: nothing more will be added to the part."""
        if latest.start != self._part:
            self._part, self._pieces = latest.start, 0
        self._pieces += 1
        if self._pieces < (2 if whole else FOLD):
            return
        self.add(latest)
        sum_of = latest.start, latest.stop
        within = {x for x in self._spans if x[0] >= latest.start and x[1] <= latest.stop}
        for span in within - {sum_of}:
            self._path(*span).unlink(missing_ok=True)
            self._spans.remove(span)
        self._pieces = 1

    def _find(self, path: Path) -> None:
        """Enter a file that can be trusted; refuse one of another run."""
        partial = self._read(path)
        if partial is not None:
            start, stop = partial.start, partial.stop
            self._spans.add((start, stop))
            self._longest[start] = max(stop, self._longest.get(start, 0))

    def _read(self, path: Path) -> Partial | None:
        try:
            with open(path, "rb") as file:
                digest, _, line = file.readline().rstrip(b"\n").partition(b" ")
                data = np.frombuffer(file.read(), np.uint8)
            if _digest(line, data) != digest:
                raise ValueError("its digest is another")
            head = json.loads(line)
            values = data.view(dtype_from_name(head["dtype"])).reshape(head["shape"])
            found = Identity(head["plan"], head["operands"], head["slices_per_task"])
            partial = Partial(head["start"], head["stop"], values, head["exponent"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("run_slices: %s is not used: %s", path, error)
            return None
        self._check(found, head["version"])
        return partial

    def _check(self, found: Identity, version: int) -> None:
        mine, what = self.identity, ""
        if version != VERSION:
            what = f"in a format of version {version}, this einloom reads {VERSION}"
        elif found.plan != mine.plan:
            what = "of another plan"
        elif found.operands != mine.operands:
            what = "of the same plan with other operands"
        elif found.slices_per_task != mine.slices_per_task:
            what = f"cut with slices_per_task={found.slices_per_task}, not {mine.slices_per_task}"
        if what:
            raise OptionError(
                f"run_slices(checkpoint={str(self.folder)!r}): this folder holds ranges {what}; "
                f"give another folder, or remove this one"
            )

    def _path(self, start: int, stop: int) -> Path:
        return self.folder / f"{start}-{stop}{SUFFIX}"

    def _sync(self) -> None:
        """A name in a folder outlives a crash of the system once the folder is written."""
        with suppress(OSError):  # not every system opens folders
            number = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def _digest(head: bytes, data: Any) -> bytes:
    state = hashlib.blake2b(head, digest_size=16)
    state.update(data)
    return state.hexdigest().encode()


def _bytes_of(x: Any) -> Any:
    """The elements of an array as bytes, in row-major order."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)
