"""Writes the tables and plots of docs/replay.md anew: `python tools/replay_tables.py traces|mig|fill|power [TRACES]`.

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
from dray.replay.device_units import WHOLE
from dray.replay.random_profiles import WARM_UP
from dray.replay.workloads import Workload

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
KEPT = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0)
"""GPUs that stay free of large partitions."""
_HALF = 0.45 * WHOLE
"""A partition with half of the memory counts a little less than half."""
FILL_FLEET = "a2-ultragpu-1g:mig=100"
FILL_MIXES = {
    "alike": "all",
    "mostly small": "1g.10gb=30,1g.20gb=25,2g.20gb=20,3g.40gb=10,4g.40gb=10,7g.80gb=5",
    "mostly large": "1g.10gb=5,1g.20gb=10,2g.20gb=10,3g.40gb=20,4g.40gb=25,7g.80gb=30",
    "small and whole": "1g.10gb=30,1g.20gb=15,2g.20gb=5,3g.40gb=5,4g.40gb=15,7g.80gb=30",
}
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
    """How many percent are accepted if the running partitions can be moved at any time, without other limits than the
    memory of all GPUs and the number of partitions of one profile that they can have. Partitions of at least half a
    GPU are refused while less than some GPUs are free: so many that most is accepted."""
    from dray.cli.fleet_choice import chosen_fleet
    from dray.drivers.devices.names import CPU, NIC
    from dray.planning.fleet_scene import fleet_objects
    from dray.replay.device_units import published_devices
    from dray.replay.random_profiles import mix_of, random_workloads

    published = published_devices(fleet_objects(chosen_fleet((fleet,), None).machines)["ResourceSlice"])
    drivers = frozenset(name[0] for name in published) - {CPU, NIC}
    room = WHOLE * len({device.physical for name, device in published.items() if name[0] in drivers})
    most = Counter(device.attributes.get("profile", "") for device in published.values())
    drawn = [
        random_workloads(mix_of(mix, published), published, drivers, number=TASKS, load=load, seed=seed)
        for seed in range(1, seeds + 1)
    ]
    return max(mean(_moved(workloads, room, most, int(kept * WHOLE)) for workloads in drawn) for kept in KEPT)


def _moved(workloads: Sequence[Workload], room: int, most: Counter[str], kept: int) -> float:
    """How many percent are accepted; `kept` units are left to partitions of less than half a GPU."""
    ends: list[tuple[float, str, int]] = []
    used, running, placed = 0, Counter[str](), 0
    for each in workloads:
        while ends and ends[0][0] <= each.created:
            _, profile, units = heappop(ends)
            used, running[profile] = used - units, running[profile] - 1
        free = room - used - (kept if each.units > _HALF else 0)
        if each.units <= free and running[each.size] < most[each.size]:
            used, running[each.size] = used + each.units, running[each.size] + 1
            placed += each.created >= workloads[0].created + WARM_UP
            heappush(ends, (each.created + (each.seconds or 0), each.size, each.units))
    return 100 * placed / TASKS


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


def fill(results: Path, seeds: int) -> Iterator[str]:
    yield "| Profiles | Load | first-fit | spread | `pack` | More than first-fit | More than the mean of both |"
    yield "|---|---|---|---|---|---|---|"
    for title, mix in FILL_MIXES.items():
        for load in LOADS:
            policies = ["--policy", "first-fit", "--policy", "spread", "--policy", "pack"]
            drawn = ["--random-profiles", mix, "--fill", "--load", str(load), "--seeds", str(seeds)]
            name = f"fill-{title.replace(' ', '-')}-{load}"
            runs = played(results, name, ["--fleet", FILL_FLEET, *drawn, *policies, "--jobs", str(os.cpu_count() or 1)])
            first, spread, pack = (_accepted(of_policy(runs, policy)) for policy in ("first-fit", "spread", "pack"))
            gains = [100 * (pack / other - 1) for other in (first, (first + spread) / 2)]
            shares = " | ".join(f"{each:.1f} %" for each in (first, spread, pack))
            yield f"| {title} | {load} % | {shares} | {gains[0]:+.1f} % | {gains[1]:+.1f} % |"


def _accepted(runs: Sequence[dict[str, Any]]) -> float:
    """The placed part of the workloads, in percent."""
    shares: list[float] = [100 * run["placed"] / (run["placed"] + run["refused"]) for run in runs]
    return mean(shares)


def _mig_row(
    model: str,
    title: str,
    load: int,
    first: Sequence[dict[str, Any]],
    pack: Sequence[dict[str, Any]],
    limit: float,
) -> str:
    accepted = [_accepted(runs) for runs in (first, pack)]
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
    parser.add_argument("table", choices=("traces", "mig", "fill", "power"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("../shared/traces/openb"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/replays"))
    asked = parser.parse_args()
    if asked.table == "traces":
        lines = traces(asked.folder, asked.results, asked.seeds)
    elif asked.table == "power":
        lines = power(asked.folder, asked.results)
    elif asked.table == "fill":
        lines = fill(asked.results, asked.seeds)
    else:
        lines = mig(asked.results, asked.seeds)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
