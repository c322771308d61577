"""Tests of dray.answers."""
