"""The documentation site: the Markdown pages as they stand in the repository, and the public docstrings.

The source folder of Sphinx is the root of the repository: a link from the README to `docs/`, or from a page
to `examples/`, then works on the site as on a code host.
"""

import logging
import os
import re
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring

import oplib
from oplib.builtin.public_functions.registry import FUNCTIONS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # of the notebooks

from docs.drawing.ops_pages import write_ops_pages  # noqa: E402  found by the line above
from docs.drawing.pictures import draw_pictures, follow_theme, set_tabs  # noqa: E402  as above


def find_linked_sources() -> list[str]:
    """Returns the Python files to which pages link; each gets a page that shows it."""
    found = [
        (page.parent / link).resolve().relative_to(ROOT).as_posix()
        for page in ROOT.glob("docs/**/*.md")
        for link in re.findall(r"\]\(([\w./]+\.py)\)", page.read_text())
    ]
    return sorted(set(found))


LINKED_SOURCES = find_linked_sources()

project = "oplib"
version = release = oplib.__version__
root_doc = "docs/index"
source_suffix = {".md": "myst-nb", ".py": "myst-nb"}
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "benchmarks/results/*.md", *LINKED_SOURCES]
exclude_patterns = [".*", "build", "dist", "out"]
extensions = [
    "myst_nb",  # with myst_parser
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxext.opengraph",
]
default_role = "code"  # docstrings name parameters in single backquotes
nitpicky = True  # a reference that leads nowhere is a warning, and fails the build
nitpick_ignore_regex = [("py:class", ".*")]  # annotations name private classes, and JAX's

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # `page.md#heading`, as on a code host

autodoc_typehints_format = "short"
autodoc_member_order = "groupwise"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # a field of a NamedTuple is a member, and described in the docstring of the class
napoleon_custom_sections = [("Gradient", "returns_style"), ("Source", "returns_style")]

nb_execution_mode = "force"  # a notebook is kept as text, without its results
nb_execution_raise_on_error = True
nb_execution_timeout = 60

FOREIGN = {
    "jax": "https://docs.jax.dev/en/latest/",
    "optax": "https://optax.readthedocs.io/en/latest/",
    "python": "https://docs.python.org/3/",
}


def fetch_inventories() -> dict[str, tuple[str, str]]:
    """Returns the inventories of foreign documentation that can be fetched.

    Sphinx would warn of one that it cannot load, and a warning fails the build. Without a network the
    names of foreign things are plain text.
    """
    found, folder = {}, Path(tempfile.mkdtemp())
    for name, address in FOREIGN.items():
        path = folder / f"{name}.inv"
        try:
            with urllib.request.urlopen(f"{address}objects.inv", timeout=5) as reply:
                data = reply.read()
        except OSError:
            break  # without a network each further address would take five seconds
        if data.startswith(b"# Sphinx inventory"):
            path.write_bytes(data)
            found[name] = (address, str(path))
    return found


intersphinx_mapping = fetch_inventories()

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ogp_site_url = os.environ.get("OPLIB_SITE_URL", "")
ogp_site_name = "oplib"
ogp_social_cards = {"enable": False}  # drawn by matplotlib, a file for each page
ogp_enable_meta_description = True

html_theme = "furo"
html_logo = "static/logo.svg"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["ops.js"]  # it does nothing on pages without the table of the ops
html_title = f"oplib {version}"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False

toc_object_entries_show_parents = "hide"

# The pages of the navigation, by caption. An index page has the pages to which it links below it.
NAVIGATION = {
    "Guide": [
        "Overview </README>",
        "use/index",
        "write_an_op/index",
        "gallery/index",
        "notebooks/index",
        "use/cheat_sheet",
    ],
    "Reference": ["The API <api/index>", "The built-in ops <ops/index>"],
    "Project": ["inside/*", "adr/index", "/CONTRIBUTING", "/CHANGELOG"],
}


def write_toctree(entries: list[str], *options: str) -> str:
    """Returns a table of contents."""
    return "\n".join(["", "", "```{toctree}", ":glob:", ":maxdepth: 1", *options, "", *entries, "```", ""])


def complete_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Appends the navigation to the pages that list others, and makes a Python file a page.

    The navigation does not stand in the pages themselves, since a code host would show it as a block.
    """
    source[0] = set_tabs(draw_pictures(source[0], f"{docname.rpartition('/')[2]}.md"))
    if docname.startswith("benchmarks/results/"):
        source[0] = f"---\norphan: true\n---\n{source[0]}"  # the README links to the newest ones
    elif docname == root_doc:
        for caption, entries in NAVIGATION.items():
            source[0] += write_toctree(entries, ":hidden:", f":caption: {caption}")
    elif docname.endswith("/index"):
        linked = dict.fromkeys(re.findall(r"\]\((\w+)\.md", source[0]))
        source[0] += write_toctree(list(linked), ":hidden:") if linked else write_toctree(["*"])
    elif f"{docname}.py" in LINKED_SOURCES:
        head = f"---\norphan: true\nnosearch: true\n---\n# `{docname}.py`\n"
        source[0] = f"{head}\n````python\n{source[0]}````\n"


def skip_member(app: Sphinx, what: str, name: str, thing: object, *rest: object) -> bool | None:
    """Leaves out built-in ops, which have a table, and fields of NamedTuples, which the class describes."""
    is_op = what == "module" and name in FUNCTIONS
    return True if is_op or type(thing).__name__ == "_tuplegetter" else None


def read_property(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Reads the docstring of a property as that of a method: napoleon expects a type before its colon.

    The empty comment before it has no colon, so that napoleon leaves the rest as it is.
    """
    if what == "property":
        lines[:] = ["..", "", *GoogleDocstring(lines, app.config, app, "method", name, thing).lines()]


def quote_overloads(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Writes the schemas in the docstring of a built-in op as code, since a star would begin emphasis."""
    if "Overloads:" in lines:
        start = lines.index("Overloads:") + 1
        lines[start - 1 :] = [
            "**Overloads**", "", *(f"* ``{line.strip()}``" for line in lines[start:] if line.strip())
        ]  # fmt: skip


def find_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element
) -> nodes.Element | None:
    """Resolves a reference by its last part: docstrings say ``ArgumentError``, annotations a private path."""
    target = node["reftarget"]
    is_foreign = node["reftype"] == "class" and "." in target and not target.startswith("oplib.")
    if node["refdomain"] != "py" or is_foreign:
        return None
    last = target.rpartition(".")[2]
    python = env.domains["py"]
    found = sorted((name for name in python.objects if name.rpartition(".")[2] == last), key=len)
    if not found:
        return None
    return python.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], found[0], node, text)


def write_pages(app: Sphinx) -> None:
    """Writes the pages that are made of the tables of the ops."""
    write_ops_pages(ROOT / "docs" / "ops")


def add_style(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Adds the style of pictures to the pages that have one."""
    if "oplib-graph" in context.get("body", ""):
        context["metatags"] = context.get("metatags", "") + follow_theme()


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("html-page-context", add_style)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", complete_page)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", read_property, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", quote_overloads, priority=400)
    for name in ("jax", "traitlets"):  # they log each step
        logging.getLogger(name).setLevel(logging.WARNING)
    app.connect("missing-reference", find_public_name)
