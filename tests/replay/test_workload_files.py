"""Workloads from dray's own CSV files, from snapshots, and random partitions."""

import pytest

from dray.cli.fleet_choice import chosen_fleet
from dray.planning.fleet_scene import fleet_objects
from dray.replay.csv_files import TraceError
from dray.replay.device_units import WHOLE, published_devices
from dray.replay.random_profiles import WARM_UP, filling_workloads, mix_of, random_workloads
from dray.replay.recordings import recorded_workloads, run_seconds
from dray.replay.simulation import Simulation
from dray.replay.workload_files import read_workloads
from dray.replay.workloads import World

GPUS = frozenset(["gpu.nvidia.com"])


def fleet(*choices, **more):
    objects = fleet_objects(chosen_fleet(choices, None).machines)
    return World({**objects, **more}, GPUS), published_devices(objects["ResourceSlice"])


def read(tmp_path, text, published):
    file = tmp_path / "work.csv"
    file.write_text(text)
    return read_workloads(file, published)


def test_partitions_of_a_gpu_count_by_their_memory():
    _, published = fleet("a3-highgpu-1g:mig=1")
    names = {name: device.units for (_, _, name), device in published.items()}
    assert names["gpu-0"] == names["gpu-0-mig-7g80gb-0-0"] == 1000
    assert names["gpu-0-mig-1g10gb-19-0"] == 123
    assert len({device.physical for (driver, _, _), device in published.items() if driver in GPUS}) == 1


def test_a_gang_starts_as_a_whole_or_waits(tmp_path):
    world, published = fleet("p5.48xlarge=2")
    workloads = read(
        tmp_path,
        "device_class,devices,cpu,memory,pods,queue,arrival,run_time\n"
        "gpu.nvidia.com,8,4,8Gi,2,research,0,100\n"
        "gpu.nvidia.com,8,4,8Gi,2,research,10,100\n"
        ",,1,1Gi,1,,20,\n",
        published,
    )
    assert [each.size for each in workloads] == ["16", "16", "0"]
    run = Simulation(world, "pack").play_in_time(workloads)
    assert sorted((wait.seconds, wait.queue) for wait in run.waits) == [(0, ""), (0, "research"), (90, "research")]


def test_more_important_workloads_evict_others_which_run_again(tmp_path):
    world, published = fleet("a3-highgpu-1g=1")
    text = "device_class,devices,priority,arrival,run_time\ngpu.nvidia.com,1,0,0,100\ngpu.nvidia.com,1,10,50,20\n"
    run = Simulation(world, "kubernetes").play_in_time(read(tmp_path, text, published))
    assert (run.placed, run.evictions, run.refused.total()) == (2, 1, 0)
    # 50 seconds of the first are lost, 20 of the second follow, and then the first runs for 100.
    assert run.curve[-1].x == pytest.approx(170, abs=1)


def test_an_unknown_profile_is_an_error_with_its_line(tmp_path):
    _, published = fleet("a3-highgpu-1g:mig=1")
    with pytest.raises(TraceError, match=r"line 2: no device has the profile '9g'; there are 1g.10gb, "):
        read(tmp_path, "device_class,profile\nmig.nvidia.com,9g\n", published)


def test_pack_accepts_more_partitions_than_first_fit():
    world, published = fleet("a3-highgpu-1g:mig=12")
    mix = mix_of("all", published)
    assert mix == dict.fromkeys(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"], 1.0)
    workloads = random_workloads(mix, published, GPUS, number=150, load=85, seed=1)
    first, packed = (Simulation(world, policy).play_in_time(workloads, wait=False) for policy in ("first-fit", "pack"))
    assert packed.placed > first.placed
    assert packed.figures.fragmented < first.figures.fragmented


def test_workloads_come_before_those_that_are_measured():
    world, published = fleet("a3-highgpu-1g:mig=4")
    workloads = random_workloads({"7g.80gb": 1.0}, published, GPUS, number=40, load=300, seed=1)
    measured = [each for each in workloads if each.created >= workloads[0].created + WARM_UP]
    assert len(measured) == 40 < len(workloads)
    run = Simulation(world, "pack").play_in_time(workloads, wait=False, warm_up=WARM_UP)
    assert (run.placed + run.refused.total(), run.requested) == (40, 40 * WHOLE)


def test_partitions_without_departures_fill_the_cluster():
    world, published = fleet("a3-highgpu-1g:mig=4")
    workloads = filling_workloads({"7g.80gb": 1.0}, published, GPUS, load=125, seed=1)
    run = Simulation(world, "pack").play(workloads)
    assert (run.placed, run.refused.total(), run.percent) == (4, 1, 100.0)


def test_pods_of_a_cluster_are_played_without_their_nodes():
    world, published = fleet("a3-highgpu-1g=1")
    claim = {
        "metadata": {
            "name": "a-gpu",
            "namespace": "default",
            "ownerReferences": [{"kind": "Pod", "name": "a", "uid": "1"}],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
    pod = {
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeName": "elsewhere",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        },
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-01-01T00:00:10Z",
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}}],
        },
    }
    assert run_seconds(pod) == 50
    (workload,) = recorded_workloads({"Pod": [pod], "ResourceClaim": [claim]}, published)
    assert (workload.units, workload.size, workload.seconds) == (1000, "1", 50)
    run = Simulation(world, "pack").play_in_time([workload])
    assert (run.placed, run.refused.total()) == (1, 0)
    assert run.figures.allocated == pytest.approx(100)
