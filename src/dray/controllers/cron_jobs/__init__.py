"""The CronJob controller.

`missed` (the times a schedule was due), `decision` (whether to start a Job now, and when to look again), `history`
(what the status says of Jobs, and which ended ones are too many), `template` (a Job made from a CronJob), `controller`
(the loop).
"""
