"""Parts of pages: drawings, tables, and texts that are escaped."""

from armtriage import CombUCB1, FeedbackGraph, report, simulate
from armtriage.instances import random_bernoulli
from armtriage.report.html import Figure, document, drawing, inline_svg, table
from armtriage.simulation.comparison import Result


def test_drawings_keep_their_shape():
    svg = '<?xml version="1.0"?><svg><g transform="scale(0.0156)"><path d="M 1.23456 2 \nL 3.99999 4"/></g></svg>'
    assert inline_svg(svg, "f") == '<svg><g transform="scale(0.0156)"><path d="M 1.23 2 L 3.99 4"/></g></svg>'
    assert 'aria-label="a &quot;b&quot;"' in drawing(Figure(svg, 'a "b"'), 1)


def test_tables_mark_and_escape():
    text = table(["policy", "a<b"], [["x:y=1,z=2", "1\n<0 to 2>"], ["other", "2"]], [0], marks=[(1, 1)])
    assert "a&lt;b" in text
    assert '<tr class="best"><th scope="row">x:<wbr>y=1,<wbr>z=2</th>' in text
    assert "1 <small>&lt;0 to 2&gt;</small>" in text
    assert '<td class="best">2</td>' in text


def test_page_escapes_what_it_is_given():
    graph = FeedbackGraph.semi_bandit(2)
    trace = simulate(CombUCB1(graph, 1), random_bernoulli(graph, seed=1), horizon=1)
    section = report.Section("<i>", ["<script>"], [Result("<u>", CombUCB1(graph, 1), trace, 1.0)])
    text = report.page("<b>", "a & b", [section], "<p>")
    assert all(word not in text for word in ("<b>", "<i>", "<script>", "<u>", "a & b"))


def test_braces_in_a_title_are_text():
    text = document("{body} {name} %s", "lead", [], "")
    assert "<title>{body} {name} %s</title>" in text
    assert text.count("<h1>") == 1


def test_the_style_is_part_of_the_page():
    text = document("a", "b", [], "c")
    assert "prefers-color-scheme: dark" in text[text.index("<style>") : text.index("</style>")]
