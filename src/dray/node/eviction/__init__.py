"""Eviction: a node that runs out of memory, disk or process ids says so, and ends pods until it has enough again.

thresholds   what is too little, as the kubelet's flags say it
signals      what there is, read from the machine
ranking      which pod goes first, and what is said about it
pressure     the loop: conditions of the node, one pod at a time
storage      what pods write to the disk, and limits of that
"""
