"""What a process of dray has beside its work."""
