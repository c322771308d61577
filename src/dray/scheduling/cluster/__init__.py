"""What the scheduler keeps about objects of the cluster, brought up to date event by event.

Claims as they are watched, written and decided (`claim_assume_cache`), devices that pods demand (`device_demand`),
extended resources, volumes, counts for affinity and topology spread, classes of nodes, topologies and total capacity.
Each module keeps one thing and knows nothing of queues, groups or attempts.

May import: `model`.
"""
