"""Labels of any hashable kind as short text on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..._base.numbers import format_count
from ..network import Network
from ..notation import Label

LONGEST = 16  # characters of one name
CUT = "…"


class Names:
    """How a network's labels are written: "ijk" if all names are single characters, else "left,x,right".

    >>> names = Names(Network([("i", "bond 1")], (), {"i": 2, "bond 1": 3}))
    >>> names.term([0, 1]), names.term([0, 1], 4), names.term([])
    ("i,'bond 1'", 'i,…', 'scalar')
    """

    def __init__(self, network: Network) -> None:
        self._names = [label_text(label) for label in network.labels]
        self._between = "" if all(len(name) == 1 for name in self._names) else ","

    def __getitem__(self, label: int) -> str:
        return self._names[label]

    def term(self, labels: Iterable[int], width: int | None = None) -> str:
        """The labels of one tensor, as many as `width` characters hold; else their number."""
        return self._joined([self._names[label] for label in labels], width) or "scalar"

    def listed(self, labels: Sequence[int], most: int = 8) -> str:
        """Names between commas, the first few of many."""
        named = ", ".join(self._names[label] for label in labels[:most])
        return named + (f" and {len(labels) - most} more" if len(labels) > most else "")

    def _joined(self, names: list[str], width: int | None) -> str:
        whole = self._between.join(names)
        if width is None or len(whole) <= width:
            return whole
        shown = ""
        for name in names:
            if len(shown) + len(name) + len(self._between) + len(CUT) > width:
                break
            shown += name + self._between
        number = f"{len(names)} labels"
        return shown + CUT if shown else number if len(number) <= width else CUT


def label_text(label: Label) -> str:
    r"""A label as views show it: strings as they are where that is clear, of others what Python prints.

    >>> label_text("i"), label_text(("bond", 1)), label_text("two words"), label_text("\n")
    ('i', "('bond', 1)", "'two words'", "'\\n'")
    >>> label_text(("...", 2)), label_text("a" * 30)
    ('...2', 'aaaaaaaaaaaaaaa…')
    """
    if type(label) is tuple and len(label) == 2 and label[0] == "...":  # an axis of an ellipsis
        text = f"...{label[1]}"
    elif isinstance(label, str) and label.isprintable() and label and not set(label) & set(" ,"):
        text = label
    else:
        text = one_line(repr(label))
    return shortened(text, LONGEST)


def one_line(text: str) -> str:
    """Without what moves a cursor, turns the direction of writing, or has no encoding."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in text)


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + CUT


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "step"), counted(20, "step")
    ('1 step', '20 steps')
    """
    return f"{format_count(number)} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.257), percent(0.0001), percent(0.0), percent(1.0)
    ('25.7%', '<0.1%', '0%', '100%')
    """
    if share in (0, 1):
        return f"{share:.0%}"
    return "<0.1%" if share < 0.0005 else f"{share:.1%}"
