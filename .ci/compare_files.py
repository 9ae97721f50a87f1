"""Wheel and sdist hold exactly what the tree says: `compare_files.py WHEEL SDIST`."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import PurePosixPath

ROOMS = ("backend", "program", "contract", "linalg", "fft", "functions", "interop", "examples")


def expected(tracked: list[str]) -> tuple[set[str], set[str]]:
    """Names in the wheel (below einloom/) and in the sdist, from the files that git tracks."""
    links = {f"src/einloom/{room}" for room in ROOMS}
    wheel = set()
    for name in tracked:
        if name in links:
            continue
        top, *rest = PurePosixPath(name).parts
        if name.startswith("src/einloom/"):
            wheel.add(name.removeprefix("src/"))
        elif top in ROOMS and rest:
            wheel.add(f"einloom/{name}")
    return wheel, {name for name in tracked if name not in links}


def difference(title: str, got: set[str], wanted: set[str]) -> bool:
    for sign, names in (("missing", wanted - got), ("unexpected", got - wanted)):
        for name in sorted(names):
            print(f"{title}: {sign} {name}")
    print(f"{title}: {len(got)} files, {len(wanted)} expected")
    return got != wanted


def main(wheel_path: str, sdist_path: str) -> int:
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    wheel, sdist = expected(listing.stdout.split("\n")[:-1])
    with zipfile.ZipFile(wheel_path) as archive:
        got = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist_path) as archive:
        names = [member.name for member in archive.getmembers() if not member.isdir()]
        got_sdist = {name.partition("/")[2] for name in names} - {"PKG-INFO"}
    wrong = difference("wheel", got, wheel)
    return int(difference("sdist", got_sdist, sdist) or wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
