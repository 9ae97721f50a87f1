"""Text of a kernel: the files of source/ that it needs, and an entry filled in from a template."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from string import Template


@cache
def file(name: str) -> str:
    """One file of source/."""
    found = resources.files(__package__) / "source" / f"{name}.cuh"
    return found.read_text(encoding="utf-8")


def fill(template: str, **values: object) -> str:
    """$name becomes its value; of several lines, each is indented as the first.

    >>> print(fill("{\\n    $body\\n}", body="int a;\\nint b;"))
    {
        int a;
        int b;
    }
    """
    lines = []
    for line in template.strip("\n").split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        filled = Template(line).substitute(values)
        lines.append(filled.replace("\n", "\n" + indent))
    return "\n".join(lines)


def unit(files: tuple[str, ...], prefix: str, entry: str, **values: object) -> tuple[str, str]:
    """Source and name of an entry, whose template says $name where its own name belongs.

    The name ends in a digest of the text: two texts of one program never share it.
    """
    body = fill(entry, name="$name", **values)
    digest = hashlib.sha256(body.encode()).hexdigest()[:12]
    name = f"{prefix}_{digest}"
    body = body.replace("$name", name)
    return "\n".join([*(file(one) for one in files), body, ""]), name
