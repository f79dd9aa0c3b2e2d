"""Pages of HTML: one file without network, in light and dark, for reports and tables."""

from __future__ import annotations

import html

STYLE = """
:root { color-scheme: light dark; --back: #f7f8fc; --card: #fff; --line: #e2e5ef; --text: #1c2030;
  --soft: #667085; --main: #5b57d6; --good: #0f8a5f; --good-back: #e7f7f0; --bad: #d92d20; --bad-back: #fef0ef;
  --warm: #b8740a; --cell: #f0f2f8; }
@media (prefers-color-scheme: dark) { :root { --back: #12141c; --card: #1b1e2a; --line: #2c3142; --text: #e8eaf2;
  --soft: #98a1b5; --main: #9a97ff; --good: #4cc38a; --good-back: #16352a; --bad: #ff6b5e; --bad-back: #3c1d1b;
  --warm: #e0a94a; --cell: #242838; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 28px; background: var(--back); color: var(--text);
  font: 14px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0; } h1 b { color: var(--main); }
h2 { font-size: 16px; margin: 0 0 8px; }
code, .mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12px; }
.soft { color: var(--soft); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px; }
.cards > .card { flex: 1 1 160px; } .cards strong { display: block; font-size: 22px; }
.scroll { overflow-x: auto; padding: 0; }
table { border-collapse: collapse; width: 100%; }
th { font-weight: 500; color: var(--soft); font-size: 12px; padding: 8px 6px; vertical-align: bottom; }
td { border-top: 1px solid var(--line); padding: 7px 6px; text-align: center; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 16px; }
td:first-child .mono { display: block; max-width: 380px; overflow: hidden; text-overflow: ellipsis; }
.registered, .derived { color: var(--main); } .host { color: var(--warm); } .missing { color: var(--soft); }
.refused, .fail { background: var(--bad); color: #fff; border-radius: 5px; padding: 1px 7px; font-size: 12px; }
.pass { background: var(--good-back); color: var(--good); border-radius: 5px; padding: 1px 7px; font-size: 12px; }
.good { color: var(--good); } .bad { color: var(--bad); }
.failure { border-color: var(--bad); flex: 1 1 420px; min-width: 0; }
.note { background: var(--cell); border-radius: 8px; padding: 10px 14px; }
.maps { display: flex; flex-wrap: wrap; gap: 20px; margin: 10px 0; } .maps figure { margin: 0; }
.maps figcaption { color: var(--soft); font-size: 12px; margin-bottom: 4px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
"""


def escape(value: object) -> str:
    """Returns a value as text in which no character is markup."""
    return html.escape(str(value))


def make_page(title: str, body: str) -> str:
    """Returns a whole page.

    Args:
        title: the title, as plain text.
        body: the content, as HTML.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
