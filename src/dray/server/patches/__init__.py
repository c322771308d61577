"""Patches: JSON patch, JSON merge patch and strategic merge patch, as pure functions on documents."""
