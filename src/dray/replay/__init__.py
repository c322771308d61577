"""Replay: plays workloads against nodes with the real scheduler, in one process and without a server.

`traces` and `workload_files` read CSV files, `recordings` the pods of a snapshot, and `random_profiles` draws random
partitions; all make a `Workload` of each line. `Simulation(world, policy).play(workloads)` plays them all at once,
`play_in_time` in virtual time. `cluster` carries out what the scheduler decides, `meter` measures, and `reports` makes
tables, a document and plots of the runs.
"""
