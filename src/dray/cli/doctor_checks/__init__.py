"""Checks of `dray doctor`: each says in a line what was found on this machine, and the remedy for a problem."""
