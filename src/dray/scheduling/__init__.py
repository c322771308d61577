"""The scheduler: events in, actions out. It does no I/O and reads no clock.

`scheduler` composes the packages, of which each imports only from those before it: `model`, `cluster`, `quota`,
`groups`, `core`, `plugins`, `placement`, `eviction`, `reservations`, `attempts`, `explain`. Plugins of users are
written against `plugin` alone.
"""
