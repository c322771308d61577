"""ResourceSlices: how pools are laid out over them (`layout`), what must be written (`plan`), and the writing."""
