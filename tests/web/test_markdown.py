"""Markdown from anybody becomes text that neither acts nor loads."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from treadle.web import foreign

XSS = (Path(__file__).parent / "xss.txt").read_text().splitlines()
HARMLESS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code"),
    *("ul", "ol", "li", "strong", "em", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def is_harmless(tag, attrs):
    names = {"href", "rel", "target"} if tag == "a" else {"start"} if tag == "ol" else set()
    href = attrs.get("href", "http://")
    return tag in HARMLESS and set(attrs) <= names and href.startswith(("http", "mailto:"))


def test_there_are_enough_strings():
    assert len(set(XSS)) >= 100


@pytest.mark.parametrize("form", ["{}", "# {}", "- {}", "```\n{}\n```", "| a |\n|---|\n| {} |"])
def test_no_string_becomes_active(form):
    for text in XSS:
        elements = Elements(str(foreign.markdown_markup(form.format(text)))).found
        assert [item for item in elements if not is_harmless(*item)] == [], text


def test_all_strings_at_once_are_inactive():
    elements = Elements(str(foreign.markdown_markup("\n\n".join(XSS)))).found
    assert [item for item in elements if not is_harmless(*item)] == []


def test_links_open_elsewhere_and_know_nothing_of_us():
    text = str(foreign.markdown_markup("[x](https://example.invalid/a)"))
    assert 'rel="noopener noreferrer nofollow"' in text
    assert 'target="_blank"' in text


def test_links_into_this_page_are_no_links():
    assert "href" not in foreign.markdown_markup("[x](/runs/1/stop) [y](../z) [z](//host/x)")


def test_images_are_not_loaded():
    assert "<img" not in foreign.markdown_markup("![x](https://example.invalid/a.png)")


def test_tables_lists_and_code_are_rendered():
    text = foreign.markdown_markup("| a |\n|---|\n| b |\n\n- one\n\n```\n<x>\n```\n")
    assert "<td>b</td>" in text
    assert "<li>one</li>" in text
    assert "&lt;x&gt;" in text


def test_fields_at_the_top_are_shown_as_they_are():
    assert foreign.markdown_markup("---\nlane: done\n---\n# T\n").startswith(
        "<pre>lane: done</pre><h1>T"
    )


def test_a_very_long_text_is_not_parsed():
    assert foreign.markdown_markup("# x" * 200_000).startswith("<pre># x")
