"""Versioned objects with watch: an append-only log with revisions, in memory or in SQLite."""
