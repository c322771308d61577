"""Planning: answers "what if?" with the real scheduler, in this process, on a copy of a cluster's objects.

`scene` has the objects and what is to be placed, `changes` what may be different, `player` runs the scheduler on them
in virtual time, and `plan` says what came of it. `suggestions` tries changes until one helps. Nothing is written to a
cluster.
"""
