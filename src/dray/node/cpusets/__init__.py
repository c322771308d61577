"""CPUs of containers: lists of CPUs, the cpuset controller of cgroups, processes pinned to the CPUs of their claims."""
