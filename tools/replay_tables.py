"""Writes the tables and plots of docs/replay.md anew: `python tools/replay_tables.py all|traces|power|mig|fill`.

Every row is one call of `dray replay`, which this prints. Results are kept as JSON in --results and not played again
while they are there. --traces is a folder with the files of Alibaba's cluster-trace-gpu-v2023; variants whose file is
not there are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mig_bound import accepted_at_most, placements_of

from dray.drawing import svg
from dray.drawing.charts import Chart, Series

PUBLISHED = {
    "default": (93.08, 95.39),
    "gpushare40": (91.69, 94.15),
    "gpushare100": (85.01, 86.90),
    "multigpu20": (93.93, 95.65),
    "multigpu50": (95.74, 97.18),
    "gpuspec33": (93.09, 94.55),
    "cpu200": (92.40, 95.05),
    "multigpu30": (94.72, 96.46),
    "multigpu40": (95.23, 96.99),
    "gpushare60": (89.36, 91.40),
    "gpushare80": (87.01, 89.30),
    "gpuspec10": (93.30, 94.95),
    "gpuspec20": (93.30, 94.84),
    "gpuspec25": (93.23, 94.74),
    "cpu050": (93.79, 95.21),
    "cpu100": (93.44, 95.35),
    "cpu250": (91.45, 93.41),
}
"""BestFit and FGD at 130 %, means of ten seeds, from "Beware of Fragmentation" (USENIX ATC 2023) and its artifact."""
PLOTTED = ("default", "gpushare40", "gpushare100", "multigpu20", "multigpu50", "gpuspec33", "cpu200")
AS_REQUESTS_ARRIVE = {
    "BestFit (published)": [(90, 89.99), (100, 92.86), (110, 92.94), (120, 93.00), (130, 93.08)],
    "FGD (published)": [(90, 89.98), (100, 95.23), (110, 95.30), (120, 95.35), (130, 95.39)],
}
MIG_FLEETS = {"A100": "p4de.24xlarge:mig=4", "H100": "p5.48xlarge:mig=4"}
MIG_MIXES = {"all profiles": "all", "small and large": "1g.10gb=1,4g.40gb=1"}
LOADS = (85, 100, 110)
TASKS = 1500
ONE_GPU_EACH = "a2-ultragpu-1g:mig=100"
MIXES = {
    "alike": "all",
    "mostly small": "1g.10gb=30,1g.20gb=25,2g.20gb=20,3g.40gb=10,4g.40gb=10,7g.80gb=5",
    "mostly large": "1g.10gb=5,1g.20gb=10,2g.20gb=10,3g.40gb=20,4g.40gb=25,7g.80gb=30",
    "small and whole": "1g.10gb=30,1g.20gb=15,2g.20gb=5,3g.40gb=5,4g.40gb=15,7g.80gb=30",
}
ALLOCATIONS = (10, 20, 30, 40, 50, 60, 69)
DOCS = Path("docs")
PAGE = DOCS / "replay.md"


def played(results: Path, name: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """The runs of `dray replay` with these arguments."""
    file = results / f"{name}.json"
    if not file.exists():
        print("dray replay", shlex.join(arguments), file=sys.stderr, flush=True)
        command = [sys.executable, "-c", "from dray.cli import main; main()", "replay", *arguments, "-o", "json"]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        results.mkdir(parents=True, exist_ok=True)
        file.write_bytes(found)
    runs: list[dict[str, Any]] = json.loads(file.read_bytes())["runs"]
    return runs


def of_policy(runs: Sequence[dict[str, Any]], policy: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["policy"] == policy]


def traces(folder: Path, results: Path, seeds: int) -> Iterator[str]:
    yield "| Tasks | BestFit | FGD | `pack` | Deviation | Seeds | Above FGD |\n|---|---|---|---|---|---|---|"
    curves = []
    for name, (best_fit, fgd) in PUBLISHED.items():
        if not Path(_openb(folder, name)[0]).exists():
            print(f"{name}: left out, {_openb(folder, name)[0]} not found", file=sys.stderr)
            continue
        arguments = [*_openb(folder, name), "--policy", "pack", "--seeds", str(seeds), *_jobs()]
        runs = played(results, f"{name}.pack", arguments)
        percents = [run["allocatedPercent"] for run in runs]
        deviation = f"{stdev(percents):.2f}" if len(percents) > 1 else "-"
        yield (
            f"| {name} | {best_fit:.2f} | {fgd:.2f} | {mean(percents):.2f} | "
            f"{deviation} | {len(runs)} | {mean(percents) - fgd:+.2f} |"
        )
        if name not in PLOTTED:
            continue
        label = f"{name}: {mean(percents):.2f} %"
        curves.append(Series(label, [(x, y) for x, y in runs[0]["curve"] if x >= 80]))
    published = [Series(name, points) for name, points in AS_REQUESTS_ARRIVE.items()]
    default = Series(f"pack, {curves[0].label}", curves[0].points)
    charts = (
        Chart("Default trace: allocated GPUs in percent", "requested GPUs in percent", [*published, default], 100, 80),
        Chart("Seven variants under pack: allocated GPUs in percent", "requested GPUs in percent", curves, 100, 80),
    )
    _draw("replay-traces.svg", charts)


def _openb(folder: Path, name: str) -> list[str]:
    nodes = folder / "openb_node_list_gpu_node.csv.gz"
    return [str(folder / f"openb_pod_list_{name}.csv.gz"), "--nodes", str(nodes)]


def power(folder: Path, results: Path) -> Iterator[str]:
    policies = ("kubernetes", "pack", "pack,power")
    chosen = [argument for policy in policies for argument in ("--policy", policy)]
    runs = played(results, "power", [*_openb(folder, "default"), *chosen, "--load", "75"])
    yield "| GPUs allocated | " + " | ".join(f"`{policy}`" for policy in policies) + " |\n|---|---|---|---|"
    for percent in ALLOCATIONS:
        watts = [watts_at(of_policy(runs, policy)[0], percent) for policy in policies]
        cells = [f"{each / 1000:.0f} kW ({100 * (each / watts[0] - 1):+.1f} %)" for each in watts[1:]]
        yield f"| {percent} % | {watts[0] / 1000:.0f} kW | {' | '.join(cells)} |"
    series = [
        Series(run["policy"], [(y, watts / 1000) for (_, y), (_, watts) in zip(*_curves(run), strict=True)])
        for run in runs
    ]
    _draw("replay-power.svg", [Chart("Power in kW", "allocated GPUs in percent", series)])


def _curves(run: dict[str, Any]) -> tuple[list[list[float]], list[list[float]]]:
    return run["curve"], run["wattsCurve"]


def watts_at(run: dict[str, Any], percent: float) -> float:
    """The watts when so many GPUs were allocated, between the two nearest points of the curve."""
    before: tuple[float, float] | None = None
    for (_, allocated), (_, watts) in zip(*_curves(run), strict=True):
        if allocated >= percent:
            if before is None or allocated == before[0]:
                return watts
            return before[1] + (watts - before[1]) * (percent - before[0]) / (allocated - before[0])
        before = allocated, watts
    raise SystemExit(f"{run['policy']} never allocates {percent} %")


def bound(fleet: str, mix: str, load: float) -> float:
    """How many percent can be accepted at most, however partitions are placed or moved."""
    from dray.cli.fleet_choice import chosen_fleet
    from dray.drivers.devices.names import CPU, NIC
    from dray.planning.fleet_scene import fleet_objects
    from dray.replay.device_units import WHOLE, published_devices
    from dray.replay.random_profiles import mix_of
    from dray.replay.workload_files import profile_request

    slices = fleet_objects(chosen_fleet((fleet,), None).machines)["ResourceSlice"]
    published = published_devices(slices)
    weights = mix_of(mix, published)
    units = sum(weight * profile_request(profile, published)[0] for profile, weight in weights.items())
    gpus = len({device.physical for name, device in published.items() if name[0] not in (CPU, NIC)})
    running = {profile: load / 100 * WHOLE * gpus * weight / units for profile, weight in weights.items()}
    return accepted_at_most(running, placements_of(slices), gpus)


def mig(results: Path, seeds: int) -> Iterator[str]:
    yield (
        "| GPUs | Profiles | Load | first-fit | `pack` | More accepted | Possible at most | "
        "Whole GPUs free | Fragmented |\n|---|---|---|---|---|---|---|---|---|"
    )
    for title, mix in MIG_MIXES.items():
        for model, fleet in MIG_FLEETS.items():
            for load in LOADS:
                drawn = ["--random-profiles", mix, "--load", str(load), "--tasks", str(TASKS), "--seeds", str(seeds)]
                policies = ["--policy", "first-fit", "--policy", "pack"]
                name = f"mig-{model}-{title.replace(' ', '-')}-{load}"
                runs = played(results, name, ["--fleet", fleet, *drawn, *policies, *_jobs()])
                cells = _mig_cells(of_policy(runs, "first-fit"), of_policy(runs, "pack"), bound(fleet, mix, load))
                yield f"| {model} | {title} | {load} % | {cells} |"


def _mig_cells(first: Sequence[dict[str, Any]], pack: Sequence[dict[str, Any]], limit: float) -> str:
    accepted = [_accepted(runs) for runs in (first, pack)]
    whole, fragmented = (
        [mean(run[member] for run in runs) for runs in (first, pack)] for member in ("wholeFree", "fragmentedPercent")
    )
    return (
        f"{accepted[0]:.1f} % | {accepted[1]:.1f} % | {_more(accepted[1], accepted[0])} | "
        f"{_more(limit, accepted[0])} | {whole[0]:.2f} → {whole[1]:.2f} "
        f"({100 * (whole[1] / whole[0] - 1):+.0f} %) | {fragmented[0]:.0f} % → {fragmented[1]:.0f} %"
    )


def fill(results: Path, seeds: int) -> Iterator[str]:
    yield "| Profiles | Load | first-fit | spread | `pack` | More than first-fit | More than the mean of both |"
    yield "|---|---|---|---|---|---|---|"
    for title, mix in MIXES.items():
        for load in LOADS:
            drawn = ["--random-profiles", mix, "--fill", "--load", str(load), "--seeds", str(seeds)]
            name = f"fill-{title.replace(' ', '-')}-{load}"
            runs = played(results, name, ["--fleet", ONE_GPU_EACH, *drawn, *_three(), *_jobs()])
            first, spread, pack = (_accepted(of_policy(runs, policy)) for policy in ("first-fit", "spread", "pack"))
            shares = " | ".join(f"{each:.1f} %" for each in (first, spread, pack))
            gains = " | ".join(_more(pack, other) for other in (first, (first + spread) / 2))
            yield f"| {title} | {load} % | {shares} | {gains} |"


def _three() -> list[str]:
    return ["--policy", "first-fit", "--policy", "spread", "--policy", "pack"]


def _jobs() -> list[str]:
    return ["--jobs", str(os.cpu_count() or 1)]


def _more(percent: float, other: float) -> str:
    return f"{100 * (percent / other - 1):+.1f} %"


def _accepted(runs: Sequence[dict[str, Any]]) -> float:
    """The placed part of the workloads, in percent."""
    shares: list[float] = [100 * run["placed"] / (run["placed"] + run["refused"]) for run in runs]
    return mean(shares)


def _draw(name: str, charts: Sequence[Chart]) -> None:
    boxes = [chart.box() for chart in charts]
    parts = [box.at(8, 8 + number * (box.height + 8)) for number, box in enumerate(boxes)]
    picture = svg.document(boxes[0].width + 16, sum(box.height + 8 for box in boxes) + 8, parts)
    (DOCS / name).write_text(picture)


def put(lines: Sequence[str]) -> None:
    """Replaces the table of the page that has the same first line."""
    page = PAGE.read_text().splitlines()
    start = page.index(lines[0])
    end = next(number for number in range(start, len(page)) if not page[number].startswith("|"))
    page[start:end] = lines
    PAGE.write_text("\n".join([*page, ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("all", "traces", "power", "mig", "fill"))
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces/openb"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/replays"))
    asked = parser.parse_args()
    tables: dict[str, Callable[[], Iterator[str]]] = {
        "traces": partial(traces, asked.traces, asked.results, asked.seeds),
        "power": partial(power, asked.traces, asked.results),
        "mig": partial(mig, asked.results, asked.seeds),
        "fill": partial(fill, asked.results, asked.seeds),
    }
    for table in tables if asked.table == "all" else [asked.table]:
        lines: list[str] = []
        for line in tables[table]():
            print(line, flush=True)
            lines += line.splitlines()
        put(lines)


if __name__ == "__main__":
    main()
