"""The TPU driver, `tpu.google.com`: chips of a machine, parts of them, or slices over several machines.

`hardware` finds chips in sysfs and among device files, `description` learns what sysfs does not tell (accelerator and
topology), `claims` decides which chips a claim has and what its containers are told, `driver` is all of it behind the
SDK. `slices` is a driver of its own, one for a cluster, that publishes slices over several machines as pools that their
machines reach. Names, attributes and variables are those of kubernetes-sigs/dra-driver-google-tpu.
"""
