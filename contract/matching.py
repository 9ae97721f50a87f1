"""Which tensor of a network is which of another, that was made from it by a small edit.

By the names of labels, or, where labels were renamed, by position: as long as tensors agree from the first
on, and from the last on, under one renaming. What labels are called then tells the rest: a tensor is the one
that has the same labels, else one that shares most of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from .network import Network
from .notation import Label

MANY = 64  # holders of a label beyond which it tells nothing


def matchings(old: Network, new: Network) -> Iterator[dict[int, int]]:
    """For each way to tell, tensors of `old` and those of `new` that they are.

    >>> old = Network(["ab", "bc", "cd"], "ad", {"a": 2, "b": 3, "c": 4, "d": 5})
    >>> new = Network(["ab", "bx", "xc", "cd"], "ad", {"a": 2, "b": 3, "x": 7, "c": 4, "d": 5})
    >>> next(matchings(old, new))
    {0: 0, 2: 3, 1: 1}
    """
    if old.terms == new.terms:
        yield {k: k for k in range(len(old.terms))}
        return
    names = dict(zip(old.labels, old.labels, strict=True))
    yield _by_labels(old.inputs, new.inputs, names, {})
    known, renamed = _by_position(old.inputs, new.inputs)
    if any(a != b for a, b in renamed.items()):
        yield _by_labels(old.inputs, new.inputs, renamed, known)


def _by_position(
    old: Sequence[tuple[Label, ...]], new: Sequence[tuple[Label, ...]]
) -> tuple[dict[int, int], dict[Label, Label]]:
    """Tensors that agree under one renaming, from both ends, and the renaming."""
    there: dict[Label, Label] = {}
    back: dict[Label, Label] = {}
    found: dict[int, int] = {}
    taken: set[int] = set()
    for pairs in (zip(range(len(old)), range(len(new)), strict=False),
                  zip(range(len(old) - 1, -1, -1), range(len(new) - 1, -1, -1), strict=False)):  # fmt: skip
        for a, b in pairs:
            if a in found or b in taken or len(old[a]) != len(new[b]):
                break
            if not _agree(old[a], new[b], there, back):
                break
            found[a] = b
            taken.add(b)
    return found, there


def _agree(
    a: tuple[Label, ...], b: tuple[Label, ...], there: dict[Label, Label], back: dict[Label, Label]
) -> bool:
    """Whether b is a under the renaming, which grows by it."""
    ours, theirs = dict(zip(a, b, strict=True)), dict(zip(b, a, strict=True))
    if any(ours[x] != y for x, y in zip(a, b, strict=True)) or len(ours) != len(theirs):
        return False
    if any(there.get(x, y) != y or back.get(y, x) != x for x, y in ours.items()):
        return False
    there.update(ours)
    back.update(theirs)
    return True


def _by_labels(
    old: Sequence[tuple[Label, ...]],
    new: Sequence[tuple[Label, ...]],
    names: Mapping[Label, Label],
    known: Mapping[int, int],
) -> dict[int, int]:
    """Tensors of the same labels, in order; then pairs that share most of them."""
    found, taken = dict(known), set(known.values())
    told = [frozenset(names[x] for x in term if x in names) for term in old]
    given = [frozenset(term) for term in new]
    alike: dict[frozenset[Label], list[int]] = defaultdict(list)
    for b in range(len(new) - 1, -1, -1):
        if b not in taken:
            alike[given[b]].append(b)
    for a in range(len(old)):
        if a not in found and alike.get(told[a]):
            found[a] = alike[told[a]].pop()
            taken.add(found[a])
    holders: dict[Label, list[int]] = defaultdict(list)
    for b, labels in enumerate(given):
        if b not in taken:
            for label in labels:
                holders[label].append(b)
    pairs: set[tuple[float, int, int, int]] = set()
    for a in range(len(old)):
        if a in found:
            continue
        for label in told[a]:
            if len(holders[label]) <= MANY:
                for b in holders[label]:
                    share = len(told[a] & given[b]) / len(told[a] | given[b])
                    pairs.add((-share, abs(a - b), a, b))
    for _, _, a, b in sorted(pairs):
        if a not in found and b not in taken:
            found[a] = b
            taken.add(b)
    return found
