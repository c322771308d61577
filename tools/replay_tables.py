"""Writes the tables and plots of docs/replay.md anew: `python tools/replay_tables.py traces|mig|power [TRACES]`.

Every row is one call of `dray replay`, which this prints. Results are kept as JSON in --results and not played again
while they are there. TRACES is a folder with the files of Alibaba's cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from statistics import mean, stdev
from typing import Any

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
}
"""BestFit and FGD at 130 %, means of ten seeds, from "Beware of Fragmentation" (USENIX ATC 2023)."""
AS_REQUESTS_ARRIVE = {
    "BestFit (published)": [(90, 89.99), (100, 92.86), (110, 92.94), (120, 93.00), (130, 93.08)],
    "FGD (published)": [(90, 89.98), (100, 95.23), (110, 95.30), (120, 95.35), (130, 95.39)],
}
MIG_FLEETS = {"A100": "p4de.24xlarge:mig=4", "H100": "p5.48xlarge:mig=4"}
MIG_MIXES = {"all profiles": "all", "small and large": "1g.10gb=1,4g.40gb=1"}
LOADS = (85, 100, 110)
TASKS = 1500
ALLOCATIONS = (10, 20, 30, 40, 50, 60, 69)
DOCS = Path("docs")


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
    yield "| Tasks | BestFit | FGD | `pack` | Deviation | Above FGD |\n|---|---|---|---|---|---|"
    curves = []
    for name, (best_fit, fgd) in PUBLISHED.items():
        jobs = str(os.cpu_count() or 1)
        arguments = [*_openb(folder, name), "--policy", "pack", "--seeds", str(seeds), "--jobs", jobs]
        runs = played(results, f"{name}.pack", arguments)
        percents = [run["allocatedPercent"] for run in runs]
        yield (
            f"| {name} | {best_fit:.2f} | {fgd:.2f} | {mean(percents):.2f} | "
            f"{stdev(percents) if len(percents) > 1 else 0:.2f} | {mean(percents) - fgd:+.2f} |"
        )
        label = f"{name}: {mean(percents):.2f} %"
        curves.append(Series(label, [(x, y) for x, y in runs[0]["curve"] if x >= 80]))
    published = [Series(name, points) for name, points in AS_REQUESTS_ARRIVE.items()]
    default = Series(f"pack, {curves[0].label}", curves[0].points)
    charts = (
        Chart("Default trace: allocated GPUs in percent", "requested GPUs in percent", [*published, default], 100, 80),
        Chart("All variants under pack: allocated GPUs in percent", "requested GPUs in percent", curves, 100, 80),
    )
    _draw("replay-traces.svg", charts)


def _openb(folder: Path, name: str) -> list[str]:
    nodes = folder / "openb_node_list_gpu_node.csv.gz"
    return [str(folder / f"openb_pod_list_{name}.csv.gz"), "--nodes", str(nodes)]


def power(folder: Path, results: Path) -> Iterator[str]:
    policies = ("kubernetes", "pack", "pack,power")
    chosen = [argument for policy in policies for argument in ("--policy", policy)]
    runs = played(results, "power", [*_openb(folder, "default"), *chosen, "--load", "75"])
    yield "| GPUs allocated | " + " | ".join(f"`{policy}`" for policy in policies) + " |\n|---" + "|---" * 3 + "|"
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


def movable(fleet: str, mix: str, load: float, seeds: int) -> float:
    """How many percent would be accepted if the running partitions could be moved at any time, without other limits
    than the memory of all GPUs and the number of partitions of one profile that they can have."""
    from dray.cli.fleet_choice import chosen_fleet
    from dray.drivers.devices.names import CPU, NIC
    from dray.planning.fleet_scene import fleet_objects
    from dray.replay.device_units import WHOLE, published_devices
    from dray.replay.random_profiles import mix_of, random_workloads

    published = published_devices(fleet_objects(chosen_fleet((fleet,), None).machines)["ResourceSlice"])
    drivers = frozenset(name[0] for name in published) - {CPU, NIC}
    room = WHOLE * len({device.physical for name, device in published.items() if name[0] in drivers})
    places = Counter((device.physical, device.attributes.get("profile", "")) for device in published.values())
    most: Counter[str] = Counter()
    for (_, profile), number in places.items():
        most[profile] += number
    accepted = []
    for seed in range(1, seeds + 1):
        workloads = random_workloads(mix_of(mix, published), published, drivers, number=TASKS, load=load, seed=seed)
        ends: list[tuple[float, str, int]] = []
        used, running, placed = 0, Counter[str](), 0
        for each in workloads:
            while ends and ends[0][0] <= each.created:
                _, profile, units = heappop(ends)
                used, running[profile] = used - units, running[profile] - 1
            if used + each.units <= room and running[each.size] < most[each.size]:
                used, running[each.size], placed = used + each.units, running[each.size] + 1, placed + 1
                heappush(ends, (each.created + (each.seconds or 0), each.size, each.units))
        accepted.append(100 * placed / len(workloads))
    return mean(accepted)


def mig(results: Path, seeds: int) -> Iterator[str]:
    yield "| GPUs | Profiles | Load | first-fit | `pack` | Movable | More accepted | Whole GPUs free | Fragmented |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for title, mix in MIG_MIXES.items():
        for model, fleet in MIG_FLEETS.items():
            for load in LOADS:
                name = f"mig-{model}-{title.replace(' ', '-')}-{load}"
                policies = ["--policy", "first-fit", "--policy", "pack"]
                drawn = ["--random-profiles", mix, "--load", str(load), "--tasks", str(TASKS), "--seeds", str(seeds)]
                jobs = ["--jobs", str(os.cpu_count() or 1)]
                runs = played(results, name, ["--fleet", fleet, *drawn, *policies, *jobs])
                limit = movable(fleet, mix, load, seeds)
                yield _mig_row(model, title, load, of_policy(runs, "first-fit"), of_policy(runs, "pack"), limit)


def _mig_row(
    model: str,
    title: str,
    load: int,
    first: Sequence[dict[str, Any]],
    pack: Sequence[dict[str, Any]],
    limit: float,
) -> str:
    accepted = [mean(100 * run["placed"] / (run["placed"] + run["refused"]) for run in runs) for runs in (first, pack)]
    whole = [mean(run["wholeFree"] for run in runs) for runs in (first, pack)]
    fragmented = [mean(run["fragmentedPercent"] for run in runs) for runs in (first, pack)]
    return (
        f"| {model} | {title} | {load} % | {accepted[0]:.1f} % | {accepted[1]:.1f} % | {limit:.1f} % | "
        f"{100 * (accepted[1] / accepted[0] - 1):+.1f} % | {whole[0]:.2f} → {whole[1]:.2f} "
        f"({100 * (whole[1] / whole[0] - 1):+.0f} %) | {fragmented[0]:.0f} % → {fragmented[1]:.0f} % |"
    )


def _draw(name: str, charts: Sequence[Chart]) -> None:
    boxes = [chart.box() for chart in charts]
    parts = [box.at(8, 8 + number * (box.height + 8)) for number, box in enumerate(boxes)]
    picture = svg.document(boxes[0].width + 16, sum(box.height + 8 for box in boxes) + 8, parts)
    (DOCS / name).write_text(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("traces", "mig", "power"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("../shared/traces/openb"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/replays"))
    asked = parser.parse_args()
    if asked.table == "traces":
        lines = traces(asked.folder, asked.results, asked.seeds)
    elif asked.table == "power":
        lines = power(asked.folder, asked.results)
    else:
        lines = mig(asked.results, asked.seeds)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
