"""The scheduling loop: feeds watch events to the scheduler, and writes its actions to the API server.

`loop` runs everything. `feed` and `optional_feed` pass objects to the scheduler; `binding`, `claim_writes`,
`pod_writes` and `group_writes` carry out its actions. `intent_log` keeps several schedulers from allocating the same
device. `searching` continues searches for devices in a process of its own, `plugin_loading` loads plugins of users, and
`queue_systems` has what each queue system needs beside the scheduler.

May import: `dray.scheduling`, `dray.client` and what they may import. It reaches servers only through a client.
"""
