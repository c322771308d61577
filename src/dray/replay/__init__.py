"""Replay: plays the tasks of a trace against nodes with the real scheduler, in one process and without a server.

`traces` reads the files, `trace_objects` makes API objects of nodes and tasks, `simulation` plays them, `power`
counts watts, and `reports` makes tables and plots of the results.
"""
