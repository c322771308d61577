"""The scheduler: events in, actions out. It does no I/O and reads no clock.

Each package imports only from the packages before it: `model`, `cluster`, `quota`, `groups`, `core`, `waiting`,
`plugins`, `placement`, `eviction`, `reservations`, `attempts`. `scheduler` composes them, and `explain` uses
`scheduler`. Users write plugins against `plugin` alone.
"""
