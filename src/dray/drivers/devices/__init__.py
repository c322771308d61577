"""Devices of ResourceSlices, made from facts about hardware. Pure.

One module for each published driver. The facts are plain structs: a driver fills them from the machine it runs on, a
fleet from the description of a machine type, and both publish the same devices for the same facts.
"""
