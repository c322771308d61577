"""Reports of runs: rows for people, a document for programs, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any, Final
from xml.sax.saxutils import escape

from dray.replay.simulation import Run, wait_figures

VERSION: Final = "dray.replay/v1"
"""The version of the document. Members may be added to it."""
_WIDTH, _HEIGHT, _MARGIN = 720, 420, 56
_COLORS: Final = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#b91c1c", "#0f766e")


def by_policy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(run)
    return found


def rows(runs: Sequence[Run], *, timed: bool) -> Iterator[list[str]]:
    """A line of titles, then a line for each policy."""
    titles = ["POLICY", "RUNS", "ALLOCATED", "DEVIATION", "PLACED", "REFUSED", "GPU POWER"]
    yield [*titles, "MEDIAN WAIT", "95 % WAIT"] if timed else titles
    for policy, group in by_policy(runs).items():
        percents = [run.percent for run in group]
        row = [
            policy,
            str(len(group)),
            f"{mean(percents):.2f} %",
            f"{stdev(percents):.2f}" if len(group) > 1 else "-",
            f"{mean(run.placed for run in group):.0f}",
            f"{mean(run.refused.total() for run in group):.0f}",
            f"{mean(run.watts for run in group) / 1000:.1f} kW",
        ]
        if timed:
            median, most = wait_figures([seconds for run in group for waits in run.waits.values() for seconds in waits])
            row += [f"{median:.0f} s", f"{most:.0f} s"]
        yield row


def document(runs: Sequence[Run], *, timed: bool) -> dict[str, Any]:
    return {"version": VERSION, "virtualTime": timed, "runs": [_run(run, timed) for run in runs]}


def _run(run: Run, timed: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "policy": run.policy,
        "seed": run.seed,
        "allocatedPercent": round(run.percent, 4),
        "requestedPercent": round(100 * run.requested / run.units, 4) if run.units else 0,
        "watts": round(run.watts),
        "placed": run.placed,
        "refused": run.refused.total(),
        "refusedByGpus": dict(sorted(run.refused.items(), key=lambda item: float(item[0]))),
        "curve": [[round(x, 3), round(y, 3)] for x, y in run.curve],
    }
    if timed:
        median, most = run.waiting
        sizes = {size: wait_figures(run.waits[size]) for size in sorted(run.waits, key=float)}
        found["waitSeconds"] = {"median": median, "p95": most}
        found["waitSecondsByGpus"] = {size: {"median": low, "p95": high} for size, (low, high) in sizes.items()}
    return found


def plot(runs: Sequence[Run], *, timed: bool) -> str:
    """The curve of the first run of each policy, as SVG."""
    first = {policy: group[0] for policy, group in by_policy(runs).items()}
    most_x = max((x for run in first.values() for x, _ in run.curve), default=1) or 1
    least_x = min((x for run in first.values() for x, _ in run.curve), default=0) if timed else 0
    inner_width, inner_height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def place(x: float, y: float) -> str:
        across = _MARGIN + inner_width * (x - least_x) / max(most_x - least_x, 1e-9)
        return f"{across:.1f},{_HEIGHT - _MARGIN - inner_height * y / 100:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        left, right = place(least_x, percent), place(most_x, percent)
        height = left.split(",")[1]
        parts.append(f'<polyline points="{left} {right}" stroke="#ddd" fill="none"/>')
        parts.append(f'<text x="{_MARGIN - 8}" y="{height}" text-anchor="end">{percent} %</text>')
    title = "time" if timed else f"requested GPUs (up to {most_x:.0f} %)"
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 16}" text-anchor="middle">{title}</text>')
    parts.append(f'<text x="{_MARGIN}" y="24">allocated GPUs</text>')
    for number, (policy, run) in enumerate(first.items()):
        color = _COLORS[number % len(_COLORS)]
        points = " ".join(place(x, y) for x, y in run.curve)
        parts.append(f'<polyline points="{points}" stroke="{color}" stroke-width="2" fill="none"/>')
        label = escape(f"{policy}: {run.percent:.2f} %")
        across, down = _WIDTH - _MARGIN, _HEIGHT - _MARGIN - 16 * (len(first) - number)
        parts.append(f'<text x="{across}" y="{down}" text-anchor="end" fill="{color}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
