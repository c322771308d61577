"""Bars are valid SVG: their parts lie within the scale, one after the other, and texts are escaped."""

from xml.etree import ElementTree

from dray.drawing import svg
from dray.drawing.bars import WIDTH, Bar, BarChart
from dray.drawing.colors import CATEGORIES

_SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart):
    box = chart.box()
    return ElementTree.fromstring(svg.document(box.width, box.height, [box.at(0, 0)]))


def test_parts_follow_each_other_within_the_scale():
    picture = drawn(BarChart("h", ["used", "idle"], [Bar("a", [2, 6], "8.00"), Bar("b", [1, 0], "1.00")]))
    bars = [each for each in picture.iter(f"{_SVG}rect") if each.get("height") == "14"]
    parts = [each for each in bars if each.get("fill") in CATEGORIES]
    (first, second, short, empty) = [(float(each.get("x")), float(each.get("width"))) for each in parts]
    assert first[0] + first[1] == second[0]
    assert second[0] + second[1] <= WIDTH
    assert second[1] == 3 * first[1] == 6 * short[1]
    assert empty[1] == 0


def test_labels_are_escaped_and_long_ones_are_whole_in_the_title():
    name = "<script>" + "x" * 80
    picture = drawn(BarChart("a & b", ["used"], [Bar(name, [1], "1")]))
    texts = [each.text for each in picture.iter(f"{_SVG}text")]
    assert "a & b" in texts
    assert name not in texts
    assert name in [each.text for each in picture.iter(f"{_SVG}title")]


def test_a_chart_without_bars_can_be_drawn():
    assert drawn(BarChart("t", ["used"], [])) is not None
    assert drawn(BarChart("t", ["used"], [Bar("a", [0], "0")])) is not None
