"""The last hours of a cluster: allocation, utilization, waiting pods and fragmentation, in a bounded amount of memory.

`recorder` takes samples of the model, `samples` keeps them in rings of rising step widths, `measures` makes one sample.
What is kept is about the whole cluster; the view shows it to those who may list the kinds that it was made from.
"""
