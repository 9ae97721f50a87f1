"""Trees that were found before, of networks that differ in names and order alone.

A planner that has a name is asked once for each problem. In memory there are two levels. The first knows
networks as they stand, but for the names of labels. The second knows networks by their
canonical form (`canonical`), unless a search costs less than that: a tree found for a form is translated to
the network at hand. Forms are compared as wholes, so that two networks share a tree only where one
relabelling takes the first to the second.

The planner itself is given the form, not the network. So the tree depends on the problem alone, never on
what was asked before or on whether it was kept.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .._base.caches import Cache, CacheInfo, register
from .._base.errors import FileFormatError
from .._base.log import log
from .._base.options import cache_dir, get_options
from ..program.serial import read_document
from .canonical import Canonical, Form, canonical
from .cost import total_cost
from .network import Network
from .plan import Plan
from .planners import PLANNERS, Candidate, Planner, Problem
from .planners.few import SQUARED, few_of
from .planners.portfolio import soon, worth
from .tree import ContractionTree

FORMAT, VERSION = "einloom.tree", 1
CANONICAL = 20_000  # tensors up to which there is a form; of few the best tree is found sooner
CHEAP = 300  # tensors up to which a form is as cheap as any search
LONG = 1.0  # seconds of search beside which the form of a larger one is
MOST_BYTES = 256 << 20  # of all files
MOST_BYTES_EACH = MOST_BYTES // 8
ROUNDS = 64  # files that a process writes from one look at the size of the folder to the next


def _weight(found: Candidate | _Outcome) -> int:
    return 1 + found.tree.n // 16


_AS_GIVEN: Cache[Candidate] = Cache("trees", 4096, _weight)
_BY_FORM: Cache[Candidate] = Cache("trees by form", 4096, _weight)


def remembering(planner: Planner, choice: Any) -> Planner:
    """`planner`, asked only for what is not known yet; as it is where `choice` gives it no name.

    Paths, optimizers of other libraries and functions may answer otherwise the next time: they are asked
    each time.
    """
    name = name_of(choice)
    if name is None:
        return planner

    def remembered(network: Network, problem: Problem) -> Candidate:
        if len(network.terms) < 3:
            return planner(network, problem)
        if get_options().plan_cache == "off":
            return searched(network, problem)
        key = (planner, problem, _folder(), network.carried, network.extents, network.open)
        found = _AS_GIVEN.get(key)
        if found is None:
            found = searched(network, problem)
            if found.complete:
                _AS_GIVEN.put(key, found)
        return found

    def searched(network: Network, problem: Problem) -> Candidate:
        is_sooner = name == "auto" and _may_be_soon(network, problem)
        if is_sooner and (found := soon(network, problem)) is not None:
            return found
        if _pays(name, network, problem):
            return _by_form(planner, name, network, problem)
        return planner(network, problem)

    return remembered


def _may_be_soon(network: Network, problem: Problem) -> bool:
    """Whether the search may take no longer than the form."""
    if problem.waits or problem.budget is not None or problem.seconds is not None:
        return False
    return few_of(problem) < len(network.terms) <= CHEAP


def _pays(name: str, network: Network, problem: Problem) -> bool:
    """Whether a form costs little beside a search: about three greedy runs, in large networks."""
    n = len(network.terms)
    few = few_of(problem) if name == "auto" else SQUARED
    if n <= CHEAP or n > CANONICAL:
        return few < n <= CHEAP
    if problem.budget is not None or problem.seconds is not None or name != "auto":
        return name not in ("greedy", "elimination")
    cost = total_cost(network, PLANNERS["greedy"](network, problem).tree).cost
    return worth(problem, math.log2(max(1, cost))) > LONG


def name_of(choice: Any) -> str | None:
    """The planner's name, where `choice` means one of ours that there is something to search for."""
    if choice is None or choice is True:
        return "auto" if choice is None else "greedy"
    return choice if isinstance(choice, str) and choice in PLANNERS else None


def _folder() -> Path | None:
    """Where trees are kept as files, if they are."""
    return cache_dir() / "plans" if get_options().plan_cache == "disk" else None


def _by_form(planner: Planner, name: str, network: Network, problem: Problem) -> Candidate:
    numbered = canonical(network)
    form, folder = numbered.form, _folder()
    if get_options().plan_cache == "off":
        return translated(planner(form.network(), problem), numbered)
    # by folder, so that what memory knows already is written to a folder that was named later
    key = (planner, problem, folder, form)
    found = _BY_FORM.get(key)
    if found is None:
        question = None if folder is None else _question(name, problem, form)
        if folder is None or question is None:
            found = planner(form.network(), problem)
        else:
            found = _FILES.read(folder, question)
            if found is None:
                found = planner(form.network(), problem)
                if found.complete:
                    _FILES.write(folder, question, found)
        if found.complete:
            _BY_FORM.put(key, found)
    return translated(found, numbered)


def translated(found: Candidate, numbered: Canonical) -> Candidate:
    """What was found for a form, for the network that `numbered` numbers by it.

    >>> numbered = canonical(Network(["ab", "bc", "cd"], "ad", {"a": 2, "b": 3, "c": 4, "d": 5}))
    >>> numbered.tensors
    (1, 0, 2)
    >>> translated(Candidate(ContractionTree(3, ((0, 1), (3, 2))), "greedy"), numbered).tree.ssa_path
    ((1, 0), (3, 2))
    """
    tensors, n = numbered.tensors, found.tree.n
    steps = tuple(tuple(tensors[x] if x < n else x for x in step) for step in found.tree.ssa_path)
    changes: dict[str, Any] = {"tree": ContractionTree(n, steps)}
    if sliced := getattr(found, "sliced", ()):
        changes["sliced"] = tuple(sorted(numbered.labels[x] for x in sliced))
    return replace(found, **changes)


# Within a memory limit ------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """What a memory limit makes of a plan."""

    tree: ContractionTree
    planner: str
    proof: str | None
    sliced: tuple[int, ...]


_MET: Cache[_Outcome] = Cache("plans within a limit", 1024, _weight)


def met_once(first: Plan, asked: tuple[Hashable, ...], search: Callable[[], Plan]) -> Plan:
    """`search()`, the plan that meets the memory limit of `first`: once for plans equal but for names.

    `asked` is what the search depends on beside the plan and the options. A peak depends on dtypes,
    layouts and the order of axes too, so these plans are known as they stand, not by a canonical form.
    """
    # of options what a GPU does is no part
    options, net = replace(get_options(), graphs=True), first.network
    if options.plan_cache == "off":
        return search()
    rest = tuple(getattr(first, field.name) for field in fields(first) if field.name != "network")
    key = (net.terms, net.shapes, net.output_axes, net.extents, rest, asked, options)
    found = _MET.get(key)
    if found is not None:
        return replace(first, **found._asdict())
    plan = search()
    _MET.put(key, _Outcome(plan.tree, plan.planner, plan.proof, plan.sliced))
    return plan


# On disk ------------------------------------------------------------------------------------------


class _Question(NamedTuple):
    """All that an answer depends on, as JSON, and the name of the file that has the answer."""

    file: str
    asked: dict[str, Any]
    form: Form


def _question(name: str, problem: Problem, form: Form) -> _Question | None:
    """None where something of it cannot be written."""
    import hashlib

    arguments = {field.name: getattr(problem, field.name) for field in fields(problem)}
    if any(type(x) not in (type(None), bool, int, float, str) for x in arguments.values()):
        return None
    labels = [[list(label.holders), label.size, label.open] for label in form.labels]
    asked = {"planner": name, "problem": arguments, "tensors": form.tensors, "labels": labels}
    try:
        text = json.dumps(asked)
    except ValueError:  # an integer of thousands of digits
        return None
    return _Question(f"{hashlib.sha256(text.encode()).hexdigest()}.json", asked, form)


class Files:
    """Trees as JSON, a file for each question, in the folder `plans` of the user's cache folder.

    Files are written whole, under a name of their own, and then renamed: whoever reads sees an old file or a
    new one, in this process or another. What is read is checked as if a stranger had written it: it
    must be the answer to this very question, its steps a tree, its cost the cost of that tree.
    """

    def __init__(self) -> None:
        self.hits = self.misses = self.written = self.bytes = 0
        register("trees on disk (bytes)", self)

    def info(self) -> CacheInfo:
        """Hits and misses of this process; the size of the folder when this process last looked."""
        return CacheInfo(self.hits, self.misses, MOST_BYTES, min(self.bytes, MOST_BYTES))

    def clear(self) -> None:
        """Forget the counters; files stay, as compiled kernels do."""
        self.hits = self.misses = self.written = self.bytes = 0

    def read(self, folder: Path, question: _Question) -> Candidate | None:
        """The answer on disk; None where there is none that can be used."""
        found, file = None, folder / question.file
        try:
            if file.stat().st_size > MOST_BYTES_EACH:
                raise FileFormatError("it is too large")
            found = _answer(file.read_text(encoding="utf-8"), question)
            with suppress(OSError):
                os.utime(file)  # the files used last stay
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            log.warning("%s is no plan that can be used (%s); it is searched anew", file, error)
        self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
        return found

    def write(self, folder: Path, question: _Question, found: Candidate) -> None:
        """Keep an answer; where that cannot be done a warning is all that happens."""
        file = folder / question.file
        draft = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            text = json.dumps(_document(question, found))
            if len(text) > MOST_BYTES_EACH:
                return
            for one in (folder.parent, folder):  # mkdir gives its mode to no parent
                one.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(text, encoding="utf-8")
            draft.replace(file)
            if self.written % ROUNDS == 0:
                self.bytes = _shrunk(folder, MOST_BYTES)
            self.written += 1
        except (OSError, ValueError) as error:  # ValueError: integers too long for JSON
            log.warning("plans are not kept on disk: %s", error)
            with suppress(OSError):
                draft.unlink()


_FILES = Files()


def _document(question: _Question, found: Candidate) -> dict[str, Any]:
    sliced = list(getattr(found, "sliced", ()))
    return {
        "format": FORMAT,
        "version": VERSION,
        "einloom": _einloom(),
        **question.asked,
        "ssa_path": found.tree.ssa_path,
        "found_by": found.planner,
        "proof": found.proof,
        "sliced": sliced,
        "cost": total_cost(question.form.network(), found.tree, sliced).cost,
    }


def _answer(text: str, question: _Question) -> Candidate:
    """The candidate of a document; an error where it does not answer what was asked."""
    data, form = read_document(text, FORMAT, VERSION), question.form
    if data["version"] != VERSION or data["einloom"] != _einloom():
        raise FileFormatError(f"it was written by einloom {data['einloom']!r:.40}")
    if any(data[name] != value for name, value in question.asked.items()):
        raise FileFormatError("it is about another problem")
    steps = tuple(tuple(map(_int, step)) for step in data["ssa_path"])
    sliced = tuple(map(_int, data["sliced"]))
    if len(set(sliced)) != len(sliced) or not all(0 <= x < len(form.labels) for x in sliced):
        raise FileFormatError("it slices what is no label")
    tree = ContractionTree(form.tensors, steps)
    if total_cost(form.network(), tree, sliced).cost != data["cost"]:
        raise FileFormatError("its tree has another cost than it says")
    if not isinstance(data["found_by"], str) or data["proof"] not in (None, "optimal"):
        raise FileFormatError("it does not say who found it")
    more: dict[str, Any] = {"sliced": sliced} if sliced else {}
    return Candidate(tree, data["found_by"], data["proof"], **more)


def _int(value: Any) -> int:
    if type(value) is not int:
        raise FileFormatError(f"{value!r:.40} is no integer")
    return value


def _shrunk(folder: Path, most: int) -> int:
    """Remove the files used longest ago until the rest has at most so many bytes, which are returned."""
    entries = sorted(_entries(folder), key=lambda entry: entry[0], reverse=True)
    total = 0
    for _, size, path in entries:
        if total + size > most:
            with suppress(OSError):  # another process was faster
                os.unlink(path)
        else:
            total += size
    return total


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Time of last use, size and path of each file of ours; drafts that a killed process left too."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".json", ".tmp")):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, status.st_size, entry.path


def _einloom() -> str:
    package = __name__.partition(".")[0]  # by name: an import would reach up to the facade
    return str(import_module(package).__version__)


__all__ = ["Files", "met_once", "remembering", "translated"]
