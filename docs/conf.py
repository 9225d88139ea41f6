"""How Sphinx makes the site of these pages: `scripts/docs`."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from unacorda._version import __version__  # noqa: E402

project = "unacorda"
author = "The unacorda authors"
copyright = "The unacorda authors, Apache-2.0"  # noqa: A001
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "accessible",
    "code_tables",
    "pages_of_files",
    "references",
]
exclude_patterns = ["_templates", "_extensions", "_made"]
nitpicky = True
suppress_warnings = ["mystnb.unknown_mime_type"]

# Text in docstrings is read as it is written for a terminal: `code`, *words*, no cross-references.
default_role = "literal"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
autosummary_generate = True
autosummary_imported_members = True
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
numpydoc_class_members_toctree = False
templates_path = ["_templates"]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "unacorda"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
