"""Custom kinds: definitions of kinds, and the objects of those kinds, checked against their structural schemas."""
