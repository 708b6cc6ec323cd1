"""Render markdown that anybody wrote: text, links and tables, nothing that acts or loads."""

from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from treadle.text import block

_MAX = 256 * 1024
_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code"),
    *("ul", "ol", "li", "strong", "em", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
# Whoever wrote the text must not point into this page, whose addresses mean actions and files.
_SCHEMES = ("http://", "https://", "mailto:")

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_PARSER.disable(["image", "html_block", "html_inline"])
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes={"a": {"href"}, "ol": {"start"}},
    attribute_filter=lambda tag, name, value: _kept(name, value),
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


@lru_cache(maxsize=64)
def render(text: str) -> Markup:
    """Return markup for a text; one that is very long stays as it is written."""
    text = block(text)
    if len(text) > _MAX:
        return Markup("<pre>%s</pre>") % escape(text)
    fields, body = _split(text)
    head = Markup("<pre>%s</pre>") % escape(fields) if fields else Markup("")
    return head + Markup(_CLEANER.clean(_PARSER.render(body)))


def _split(text: str) -> tuple[str, str]:
    """Take the fields at the top of a file off, which markdown would take for a heading."""
    if not text.startswith("---\n"):
        return "", text
    fields, end, body = text[4:].partition("\n---\n")
    return (fields, body) if end else ("", text)


def _kept(name: str, value: str) -> str | None:
    return value if name != "href" or value.lower().startswith(_SCHEMES) else None
