"""Sphinx configuration: `python -m sphinx -W -b html docs docs/_build` builds the pages."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("einloom") is None:  # a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import einloom

project = "einloom"
author = "the einloom authors"
version = release = einloom.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore = [
    ("py:class", "numpy.linalg.LinAlgError")
]  # a base of ours; no inventory is fetched

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say in words what is expected
autodoc_preserve_defaults = True
default_role = "code"  # `name` in docstrings
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False

html_theme = "alabaster"
html_theme_options = {"description": "Plans, compiles and runs tensor contractions."}
html_copy_source = False
