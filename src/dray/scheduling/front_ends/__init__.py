"""Front ends: one module for each API that describes groups of pods; each translates its objects into the one model."""
