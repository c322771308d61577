from tests.node.cpusets.fixtures import kernel_cgroups, start_process, two_cpus

__all__ = ["kernel_cgroups", "start_process", "two_cpus"]
