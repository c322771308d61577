"""Coordinated leader election: `candidates` says who is there and who is the best, `controller` asks and elects."""
