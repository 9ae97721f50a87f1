"""Compiled kernels as files of the user's cache folder.

The file that a kernel is kept in depends on the sources of every kernel (a helper may be inlined into any of
them), on the versions of einloom and numba, on the package's name, and on the CPU. It is loaded without what
only compiling needs.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..._base.log import log
from ..._base.options import cache_dir


def private_folder(name: str) -> None:
    """Make a folder of kernels; refuse one that others can write, since code is loaded from it."""
    for folder in (cache_dir(), cache_dir() / name):  # mkdir gives its mode to no parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise OSError(
                f"{folder} belongs to others or can be written by them; make it mode 0700"
            )


def write_at_once(file: Path, content: bytes) -> None:
    """A file that has its name only when it is whole; where that fails, nothing is left of it."""
    draft = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        draft.write_bytes(content)
        os.replace(draft, file)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


class Uses(NamedTuple):
    """What a function that is kept needs, and who needs it.

    complete: gives it the names that it calls, before it is compiled.
    link: registers the addresses at which its code calls others, before it is loaded or compiled.
    may_be_inlined: whether other compiled functions may hold it.
    facts: what is kept of it for calls without numba (`bare`); such files are written beside numba's own, and
        anew where they are missing.
    """

    complete: Callable[[], None]
    link: Callable[[], None] = lambda: None
    may_be_inlined: bool = False
    facts: Callable[[Any], list[Any]] = lambda compiled: []


@cache
def disk_cache() -> type[Any]:
    """numba's own disk cache, but in our folder and stamped by all that a kernel depends on."""
    import uuid

    from numba.core import caching
    from numba.core.runtime import rtsys

    from . import entries
    from .bare import Facts

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def __init__(self, function: Callable[..., None]) -> None:
            self._py_file = function.__code__.co_filename
            self._name = f"{function.__module__}.{function.__qualname__}"
            self._stamp = stamp_of(function)

        def get_cache_path(self) -> str:
            return os.fspath(cache_dir() / "kernels")

        def get_source_stamp(self) -> str:
            return self._stamp

        def get_disambiguator(self) -> str:  # the name of a generated kernel is that of its text
            return self._stamp[:12]

        @classmethod
        def from_function(cls, function: Callable[..., None], file: str) -> Any:
            locator = cls(function)
            locator.ensure_cache_path()
            return locator

    class Impl(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)
        function: Callable[..., None]
        uses: Uses

        def reduce(self, compiled: Any) -> Any:
            """What is kept of a compiled function."""
            library, *rest = super().reduce(compiled)
            name, kind, (code, module) = library
            facts = self.uses.facts(compiled)
            entries.keep(self.function, facts, code)
            if not self.uses.may_be_inlined:
                library = name, kind, (code, names_of(module))
            return library, *rest, [tuple(one) for one in facts]

        def rebuild(self, context: Any, kept: Any) -> Any:
            """The compiled function, of what is kept of it."""
            *kept, facts = kept
            _, _, (code, _) = kept[0]
            entries.keep(self.function, [Facts(*one) for one in facts], code)
            compiled = super().rebuild(context, tuple(kept))
            if not self.uses.may_be_inlined:
                compiled.library._get_module_for_linking = self._refuse
            return compiled

        def _refuse(self) -> Any:
            raise RuntimeError(f"{self.filename_base} is kept without what others could inline")

    class Files(caching.IndexDataCacheFile):  # type: ignore[misc]
        """Code of each signature in a file of its own name, which stands before the index names it.

        numba numbers these files: two processes that compile other signatures of a kernel at the same time
        would write one file, and the index of one of them name the code of the other.
        """

        def save(self, key: Any, data: Any) -> None:
            name = self._data_name_pattern.replace("{number:d}", uuid.uuid4().hex)
            self._save_data(name, data)
            try:
                self._save_index({**self._load_index(), key: name})
            except OSError:
                os.unlink(self._data_path(name))  # no index names it
                raise

        # Where a machine lost power, a file may have its name and half of its bytes, or zeros. In an index
        # pickle comes upon that and raises anything; in machine code nobody would before it runs.

        def _load_index(self) -> Any:
            try:
                return super()._load_index()
            except OSError:
                raise
            except Exception as error:
                self._give_up(self._index_path, f"{type(error).__name__}: {error}")
                return {}

        def _save_data(self, name: str, data: Any) -> None:
            content = self._dump(data)
            with self._open_for_write(self._data_path(name)) as file:
                file.write(_sum_of(content) + content)

        def _load_data(self, name: str) -> Any:
            path = self._data_path(name)
            content = Path(path).read_bytes()
            if content[:4] != _sum_of(content[4:]):
                self._give_up(path, "its checksum is another")
                return None
            return pickle.loads(content[4:])

        def _give_up(self, path: str, why: str) -> None:
            log.warning("%s is damaged (%s): kernels are compiled again", path, why)
            with suppress(OSError):
                os.unlink(path)

    class DiskCache(caching.FunctionCache):  # type: ignore[misc]
        """Code is loaded without what only compiling needs.

        numba's own cache first imports all that it can compile and notes it in its context (`refresh`):
        a quarter of a second, of which machine code needs nothing but numba's counters of references.
        Who compiles refreshes the context anyway.
        """

        _impl_class = Impl

        def __init__(self, function: Callable[..., None], uses: Uses) -> None:
            super().__init__(function)
            self._impl.function, self._impl.uses = function, uses
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)
            self._uses = uses

        def load_overload(self, signature: Any, context: Any) -> Any:
            """The code for a signature; None where it is to be compiled, as what cannot be loaded is: it may
            name what this installation has not."""
            rtsys.initialize(context)
            self._uses.link()
            try:
                found = self._load_overload(signature, context)
            except MemoryError:
                raise
            except Exception as error:
                log.warning("a kept kernel cannot be loaded: %s: %s", type(error).__name__, error)
                found = None
            if found is None:
                self._uses.complete()
            return found

        def save_overload(self, signature: Any, data: Any) -> None:
            """Keep what was compiled, if there is room: it is here all the same."""
            try:
                self._save_overload(signature, data)
            except OSError as error:
                log.warning("a compiled kernel is not kept on disk: %s", error)

    return DiskCache


def _sum_of(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")


@cache
def no_cache() -> type[Any]:
    """What stands for the cache where no file can be kept: all is compiled."""
    from numba.core import caching

    class NoCache(caching.NullCache):  # type: ignore[misc]
        def __init__(self, uses: Uses) -> None:
            self._uses = uses

        def load_overload(self, signature: Any, context: Any) -> None:
            """Nothing: it is to be compiled."""
            self._uses.link()
            self._uses.complete()

    return NoCache


def names_of(module: bytes) -> bytes:
    """LLVM's module with the same names, and nothing behind them.

    numba keeps the whole module beside the machine code, for functions into which this one is inlined. Of
    one that is called from Python, or at its address, it asks for nothing but what names there are: to read
    the module of a large kernel takes thirty times as long as to load its code.
    """
    from llvmlite import binding

    def names(values: Any) -> list[str]:
        """Each byte in the form that LLVM reads whatever it is."""
        defined = [x.name.encode() for x in values if not x.is_declaration]
        return ["".join(f"\\{byte:02X}" for byte in name) for name in defined]

    whole = binding.parse_bitcode(module)
    lines = [f'target triple = "{whole.triple}"', f'target datalayout = "{whole.data_layout}"']
    lines += [f'define void @"{name}"() {{ ret void }}' for name in names(whole.functions)]
    lines += [f'@"{name}" = global i8 0' for name in names(whole.global_variables)]
    kept: bytes = binding.parse_assembly("\n".join(lines)).as_bitcode()
    return kept


def stamp_of(function: Callable[..., Any]) -> str:
    """What its code depends on, and that of whatever may be inlined into it."""
    if function.__module__.startswith(__name__.rpartition(".")[0]):
        return _stamp(None)
    return _stamp(Path(function.__code__.co_filename).parent)


@cache
def _stamp(beside: Path | None) -> str:
    """The same as it was when the first kernel was asked for: sources are read once in a process."""
    return source_stamp(beside)


PACKAGE = __name__.removesuffix(".backend.cpu.kernel_files")
COMPILE = ("jit.py", "apart.py", "bare.py", "entries.py", Path(__file__).name)


def source_stamp(beside: Path | None = None) -> str:
    """What compiled kernels depend on: their sources, those of what compiles and keeps them, einloom, numba,
    llvmlite, and what numba is told by variables of the environment.

    And those of another folder. The package's name is in it, since what is kept names modules: a copy under
    another name has files of its own. The CPU is in numba's own key.
    """
    import hashlib

    versions = f"{PACKAGE} {_version()} {_release('numba')} {_release('llvmlite')} {_settings()}"
    digest = hashlib.sha256(versions.encode())
    here = Path(__file__)
    for file in sorted(
        [
            *map(here.with_name, COMPILE),
            *(here.parent / "kernels").rglob("*.py"),
            *(beside.glob("*.py") if beside else ()),
        ]
    ):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


HARMLESS = re.compile(
    r"NUMBA_(NUM_THREADS|THREADING_.*|CACHE_.*|WARNINGS|DISABLE_PERFORMANCE_WARNINGS)"
)


def _settings() -> list[tuple[str, str]]:
    """Variables of the environment that numba reads, but for those that change no code."""
    names = [x for x in os.environ if x.startswith("NUMBA_") and not HARMLESS.fullmatch(x)]
    return [(name, os.environ[name]) for name in sorted(names)]


def _release(package: str) -> str:
    """Which version of a package is installed; a large one is not imported to be asked."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        with suppress(OSError):
            return Path(spec.origin).with_name("_version.py").read_text(encoding="utf-8")
    return str(import_module(package).__version__)


def _version() -> str:
    return str(import_module(PACKAGE).__version__)
