"""Every error of NVML in every function that the driver calls, and a call that hangs, for every kind of claim.

For each function and error: a pod has its claim, the function begins to fail, the pod ends, another pod is tried and
ends, the function works again. Each pod must end, the device must be tainted or withdrawn meanwhile, and everything
must be as before afterwards. "Not supported" is an illness too, because the GPU has answered before. By default a
sample is tried; DRAY_NVML_ERRORS is how many for each kind, or `all`.
"""

import asyncio
import contextlib
import os
import random

import pytest

from dray.node.errors import PrepareError, UnprepareError

from .sickness import CLAIMS, PATIENCE, sick_world, tracebacks

CODES = [*range(1, 31), 999]
HANGS = "hangs"
NOT_FOUND, TIMEOUT = 6, 10
UNSEEN = {
    # Called when there is nothing more to lose.
    "nvmlShutdown": [*CODES, HANGS],
    "nvmlEventSetFree": [*CODES, HANGS],
    # A GPU that does not tell how busy it is can be used all the same.
    "nvmlDeviceGetUtilizationRates": [*CODES, HANGS],
    # Normal answers.
    "nvmlEventSetWait_v2": [TIMEOUT],
    "nvmlDeviceGetMigDeviceHandleByIndex": [NOT_FOUND],
}
"""Errors of functions that show nowhere, because they change nothing for anybody."""
OPENING = {
    "nvmlInitWithFlags",
    "nvmlEventSetCreate",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceRegisterEvents",
}
"""Functions that are called when a session is opened."""
WANTED = os.environ.get("DRAY_NVML_ERRORS", "4")


async def functions(trial):
    """Returns the NVML functions that a claim and the checks of the driver call."""
    trial.machine.called()
    await trial.start("seen")
    await trial.end("seen")

    async def checked():
        return {"nvmlSystemGetDriverVersion", "nvmlDeviceGetPerformanceState", "nvmlEventSetWait_v2"} <= names()

    def names():
        return {path.name for path in (trial.machine.state / "called").iterdir()}

    await trial.world.kubelet.eventually(checked, "a discovery and a check")
    return sorted(names() | OPENING)


def chosen(found, seed):
    errors = [(function, code) for function in found for code in CODES]
    hanging = [(function, HANGS) for function in found]
    if WANTED == "all":
        return errors + hanging
    rng = random.Random(seed)
    return rng.sample(errors, min(int(WANTED), len(errors))) + rng.sample(hanging, 1)


async def suffer(trial, number, function, code):
    what = f"{function}: {code}"
    await trial.start_patiently(f"first-{number}")
    async with trial.watched() as tainted:
        if code == HANGS:
            trial.machine.hang(function, 600)
        else:
            trial.machine.fail(function, code)
        if function in OPENING:
            trial.machine.end_sessions()
        await trial.end(f"first-{number}")
        with contextlib.suppress(PrepareError):
            await trial.start(f"second-{number}")
        await trial.end(f"second-{number}")
        if code not in UNSEEN.get(function, ()):
            await asyncio.wait_for(tainted.wait(), PATIENCE)
    trial.machine.mend()
    await trial.until_well(what)


@pytest.mark.time_limit(180 if WANTED != "all" else 7200)
@pytest.mark.parametrize("kind", CLAIMS)
async def test_every_error_in_every_call(gpu_machine, caplog, kind):
    seed = int(os.environ.get("DRAY_NVML_SEED", random.randrange(10**6)))
    print(f"DRAY_NVML_SEED={seed}")
    async with sick_world(gpu_machine, kind, nvmlSeconds=0.5) as trial:
        cases = chosen(await functions(trial), seed)
        problems = []
        for number, (function, code) in enumerate(cases):
            try:
                await suffer(trial, number, function, code)
            except (AssertionError, TimeoutError, PrepareError, UnprepareError) as error:
                problems.append(f"{function}: {code}: {error or 'not tainted'}")
                print(problems[-1])
                trial.machine.mend()
                await trial.end_all()
    assert not problems, "\n".join(problems)
    assert not tracebacks(caplog)
