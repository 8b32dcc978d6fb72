"""Configuration of the site (Sphinx). Its sources are made by prepare.py, in build/docs/source."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["TACIT_ROOT"])
BUILD = Path(os.environ["TACIT_DOCS_BUILD"])
sys.path.insert(0, str(ROOT / "docs/site"))

import references  # noqa: E402

import tacit  # noqa: E402

# The applications are attributes of tacit, not files of these names: autodoc imports by name.
for _name in references.MODULES:
    sys.modules.setdefault(f"tacit.{_name}", getattr(tacit, _name))

project = "Tacit"
author = "The Tacit authors"
copyright = "The Tacit authors, Apache-2.0"
version = release = re.search(r"project\(tacit VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]  # type: ignore[index]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "breathe",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/*.md5", "gallery/*.json"]
root_doc = "index"
highlight_language = "none"  # a block without a language is one of commands

# Pages
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
pygments_style, pygments_dark_style = "friendly", "github-dark"

# Python
default_role = "literal"  # docstrings write names of parameters as `name`
autosummary_generate = False
autodoc_typehints = "none"  # the docstrings describe parameters
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
add_module_names = False

# C++
breathe_projects = {"tacit": str(BUILD / "doxygen/xml")}
breathe_default_project = "tacit"
cpp_id_attributes = ["TACIT_HD"]

# Gallery: each example is run, and can be downloaded as a script and as a notebook
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples/python")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "download_all_examples": True,
    "show_signature": False,
}

# What it looks like
html_theme = "furo"
html_title = f"Tacit {release}"
html_static_path = [str(ROOT / "docs/site/static")]
html_css_files = ["tacit.css"]
html_js_files = [("tacit.js", {"defer": "defer"})]
html_theme_options: dict[str, Any] = {
    "light_css_variables": {"color-brand-primary": "#0b6e63", "color-brand-content": "#0b6e63"},
    "dark_css_variables": {"color-brand-primary": "#5fd0c0", "color-brand-content": "#5fd0c0"},
}
html_domain_indices = False  # of modules; the side lists them
html_show_sphinx = False
html_show_sourcelink = False
copybutton_selector = "div:not(.printed) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

suppress_warnings = [
    "config.cache",  # sphinx-gallery's configuration has functions, which cannot be pickled
    "ref.python",  # types of parameters are words of docstrings, some of which are names of several attributes
    "duplicate_declaration.cpp",  # each header declares the namespace tacit
    "duplicate_declaration.c",  # a macro that is defined for one list and defined again for the next
]


def no_substitutions(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In docstrings |b - A x| is a norm, for reStructuredText a substitution."""
    if any(line.lstrip().startswith("+-") for line in lines):
        return  # a table
    for index, line in enumerate(lines):
        parts = re.split(r"(``.*?``|`[^`]*`)", line)
        lines[index] = "".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts))


def links_to_pages(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings name pages by their files."""
    for index, line in enumerate(lines):
        lines[index] = re.sub(r"(?<![`/\w])docs/([\w-]+/[\w-]+)\.md\b(?!`)", r":doc:`/\1`", line)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", links_to_pages, priority=5)
    app.connect("autodoc-process-docstring", no_substitutions, priority=10)  # before napoleon
