"""Simulated drivers on the SDK: they publish devices that do not exist, and prepare claims as the real drivers do.

A kubelet, a runtime and a container see what they would see of the real driver, apart from device nodes: names, CDI
devices, environment, status. `gpus`, `nics` and `tpus` are the drivers, `published` is one for any other devices; which
machine they pretend to run on is handed in (`dray.fleet.machine_drivers`).
"""
