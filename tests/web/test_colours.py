"""People with any common colour blindness can tell the colours of the page apart.

Colours are changed to what these people see (matrices of Machado, Oliveira and Fernandes, 2009, full severity) and are
compared in CIELAB, where a distance of 2.3 can just be noticed.
"""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from dray.drawing import colors
from dray.web.assets import ROOT

Vector = tuple[float, float, float]
VISION: dict[str, tuple[Vector, Vector, Vector]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_XYZ = ((0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8730))
LEAST = 14.0


def times(matrix: tuple[Vector, Vector, Vector], vector: Vector) -> Vector:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def linear(code: str) -> float:
    value = int(code, 16) / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def seen(colour: str, vision: str) -> Vector:
    """The colour in CIELAB, as somebody sees it."""
    light: Vector = (linear(colour[1:3]), linear(colour[3:5]), linear(colour[5:7]))
    red, green, blue = (min(1.0, max(0.0, each)) for each in times(VISION[vision], light))
    roots = [
        each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in times(TO_XYZ, (red, green, blue))
    ]
    return 116 * roots[1] - 16, 500 * (roots[0] - roots[1]), 200 * (roots[1] - roots[2])


def distance(first: Vector, second: Vector) -> float:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5


def colours_of(name: str) -> list[str]:
    text = (ROOT / "parts/colours.js").read_text()
    found = re.search(rf"const {name} = (.*?);", text, re.DOTALL)
    assert found
    return re.findall(r"#[0-9a-f]{6}", found[1])


def theme(number: int) -> list[str]:
    """The tokens of devices: 0 light, 1 and 2 dark."""
    tokens = re.findall(r"--device-(free|blocked|others): (#[0-9a-f]{6});", (ROOT / "style.css").read_text())
    return [colour for _, colour in tokens[3 * number : 3 * number + 3]]


TAINTED = "#d55e00"
PALETTES = {
    "map in the light theme": [*colours_of("CATEGORIES"), TAINTED, *theme(0)],
    "map in the dark theme": [*colours_of("CATEGORIES"), TAINTED, *theme(1)],
    "states": colours_of("STATES"),
}


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", PALETTES)
def test_colours_can_be_told_apart(palette: str, vision: str) -> None:
    close = [
        (first, second, round(found, 1))
        for first, second in combinations(PALETTES[palette], 2)
        if (found := distance(seen(first, vision), seen(second, vision))) < LEAST
    ]
    assert close == []


def test_drawings_of_commands_have_the_colours_of_the_page() -> None:
    assert colours_of("CATEGORIES") == list(colors.CATEGORIES)
    states = re.findall(r'(\w+): \{ colour: "(#[0-9a-f]{6})"', (ROOT / "parts/colours.js").read_text())
    assert dict(states) == {**colors.STATES, "unknown": dict(states)["unknown"]}


def test_both_ways_to_choose_the_dark_theme_give_the_same_colours() -> None:
    assert theme(1) == theme(2)
    assert len(theme(2)) == 3
