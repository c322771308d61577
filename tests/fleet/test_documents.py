"""Files of fleets: what is wrong with one is told with its place and a fix."""

import re

import pytest

from dray.fleet.catalogue import library, machine_type
from dray.fleet.choice import ChoiceError, choose
from dray.fleet.documents import read
from dray.yaml.text import ManifestError

HEAD = "apiVersion: fleet.dray.dev/v1alpha1\nkind: "
MACHINE = f"{HEAD}MachineType\nname: mine\ncpus: 8\nmemory: 32Gi\n"
GPUS = 'gpus:\n- model: l4\n  slots:\n  - {address: "0000:3b:00.0"}\n'


def refused(text):
    with pytest.raises(ManifestError) as raised:
        library(read(text.encode(), "f.yaml"))
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("kind: Machine\n", "1:1", "one of these kinds"),
        (f"{HEAD}MachineType\nname: mine\ncpus: 8\n", "1:1", "memory: is missing; add it"),
        (MACHINE.replace("cpus: 8", "cpus: many"), "4:1", "text where a whole number belongs"),
        (MACHINE + "gpu: []\n", "6:1", "did you mean gpus?"),
        (MACHINE.replace("32Gi", "32 GB"), "5:1", "write it as 80Gi"),
        (MACHINE.replace("mine", "My_Machine"), "3:1", "use lower case letters"),
        (MACHINE + GPUS.replace("l4", "h900"), "7:3", "there is no GpuModel 'h900'; there are"),
        (MACHINE + GPUS.replace("0000:3b:00.0", "3b:00.0"), "9:6", 'write it as "0000:3b:00.0"'),
        (MACHINE + GPUS.replace('"}', '", numaNode: 4}'), "9:31", "they count from 0"),
        (MACHINE + GPUS + '  - {address: "0000:3b:00.0"}\n', "10:6", "give each its own"),
        (MACHINE + "numaNodes: [{cpus: 0-3}]\n", "6:1", "make both the same"),
        (MACHINE + "numaNodes: [{cpus: 0-x}]\n", "6:14", "as in 0-3,8"),
        (MACHINE + "tpus: {accelerator: v9, topology: 2x2, chips: 4}\n", "6:8", "is none of tpu-v3-device"),
        (f"{HEAD}Fleet\nmachines: [{{type: nope}}]\n", "3:13", "`dray fleet list` shows"),
        (f"{HEAD}Fleet\nmachines: [{{type: l, count: 9999999}}]\n", "3:13", "there is no MachineType"),
        (f"{HEAD}Fleet\nmachines: [{{type: cpu-64, count: 9999999}}]\n", "3:27", "0 to 100,000 nodes"),
        (f"{HEAD}Fleet\nmachines: [{{type: cpu-64, gpus: shares}}]\n", "3:12", "shares: 4"),
        (f"{HEAD}Stages\npods: [{{runSeconds: [5, 1]}}]\n", "3:9", "the least and the most"),
        (f"{HEAD}Stages\npods: [{{exitCode: 300}}]\n", "3:9", "0 to 255"),
        (f"{HEAD}Stages\npods: [{{exitCode: {{one: 1}}}}]\n", "3:9", "text where a whole number belongs"),
        (f"{HEAD}Stages\ndevices: [{{driver: x}}]\n", "3:11", "add atSeconds or everySeconds"),
        (f"{HEAD}Stages\ndevices: [{{everySeconds: 0}}]\n", "3:12", "give at least 1"),
        (f"{HEAD}Stages\ndevices: [{{atSeconds: [1], taint: {{key: a, effect: Bad}}}}]\n", "3:28", "one of None"),
        ("a: [1\n", "1:6", "truncated"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_fix(text, place, fix):
    told = refused(text)
    assert told.startswith(f"f.yaml:{place}: "), told
    assert fix in told


def test_every_machine_type_that_comes_with_dray_is_right():
    known = library()
    assert {
        "p4d.24xlarge",
        "p5.48xlarge",
        "a3-highgpu-8g",
        "a3-megagpu-8g",
        "a4-highgpu-8g",
    } <= known.machine_types.keys()
    library([*known.gpu_models.values(), *known.machine_types.values()])
    for name in known.machine_types:
        machine_type(name, known)


def test_a_machine_of_ones_own_is_a_file_away(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(MACHINE + GPUS + f"---\n{HEAD}Fleet\nseed: 7\nmachines:\n- {{type: mine, count: 2, name: box}}\n")
    chosen = choose([str(file), "mine=1"])
    assert [each.name for each in chosen.machines] == ["box-0", "box-1", "mine-0"]
    assert chosen.seed == 7
    assert chosen.machines[0].gpus[0].model.product_name == "NVIDIA L4"


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("p5.48xlarg=1", "did you mean p5.48xlarge?"),
        ("p5.48xlarge=some", "write p5.48xlarge=4"),
        ("p5.48xlarge:half=1", "use whole, mig, shared-memory, shared-unlimited and shares-N"),
        ("cpu-64=999999", "at most 100,000 nodes"),
        ("", "give TYPE=COUNT or a file"),
    ],
)
def test_a_choice_that_cannot_be_understood(choice, told):
    with pytest.raises(ChoiceError, match=told.replace("?", r"\?")):
        choose([choice])


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (f"name: {'n' * 70}", f"node {'n' * 70}-0: metadata.labels: Invalid value"),
        ("labels: {team: a b}", "node p5-48xlarge-0: metadata.labels: Invalid value"),
        ("taints: [{key: gpu, effect: Never}]", "node p5-48xlarge-0: metadata.taints[0].effect: Unsupported value"),
    ],
)
def test_machines_whose_nodes_an_api_server_refuses(tmp_path, members, told):
    file = tmp_path / "fleet.yaml"
    file.write_text(f"{HEAD}Fleet\nmachines:\n- {{type: p5.48xlarge, {members}}}\n")
    with pytest.raises(ChoiceError, match=re.escape(f"machines p5.48xlarge: {told}")):
        choose([str(file)])
