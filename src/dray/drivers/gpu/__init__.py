"""The driver `gpu.nvidia.com`: NVIDIA GPUs whole, shared, and cut into MIG partitions.

`discovery` finds them through the vendor's library (`nvml`), `sharing` reads what a claim wants, and `partitions`,
`time_slices` and `mps` do it on the machine. `container_edits` makes the CDI edits, `health` follows errors, and
`driver` is all of it behind the SDK. Nothing of the vendor is needed to import any of this.
"""
