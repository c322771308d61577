"""What the scheduler keeps about objects of the cluster, updated with every event.

Claims as they are watched, written and assumed (`claim_assume_cache`), devices that pods request (`device_demand`),
extended resources, volumes, counts for affinity and topology spread, node classes, topologies and total capacity. Each
module keeps one kind of information and does not depend on queues, groups or attempts.

May import: `model`.
"""
