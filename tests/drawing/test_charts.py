"""Charts are valid SVG, with every line within the frame and texts escaped."""

from xml.etree import ElementTree

import pytest

from dray.drawing import svg
from dray.drawing.charts import HEIGHT, WIDTH, Chart, Series

_SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart):
    box = chart.box()
    return ElementTree.fromstring(svg.document(box.width, box.height, [box.at(0, 0)]))


def test_lines_stay_within_the_frame_and_labels_are_escaped():
    picture = drawn(Chart("a < b", "x", [Series("p & q", [(0, 0), (5, 180), (10, 90)])], top=100))
    texts = [each.text for each in picture.iter(f"{_SVG}text")]
    assert {"a < b", "x", "p & q", "100"} <= set(texts)
    line = list(picture.iter(f"{_SVG}polyline"))[-1]
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


@pytest.mark.parametrize(("most", "end"), [(0, "1"), (7, "10"), (30, "50"), (120, "200")])
def test_the_scale_ends_at_a_round_number(most, end):
    texts = [each.text for each in drawn(Chart("t", "x", [Series("s", [(0, most)])])).iter(f"{_SVG}text")]
    assert end in texts


def test_a_chart_without_points_can_be_drawn():
    assert drawn(Chart("t", "x", [])) is not None
