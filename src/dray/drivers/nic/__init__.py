"""The NIC driver, `dra.net`: network interfaces and RDMA devices of a Linux machine as DRA devices.

`sysfs` and `links` read what the machine has, `discovery` makes devices of it and says what is left out. `config` is
the configuration of a claim, `plan` what it comes to for one interface. `snapshot` notes how an interface is on the
host, `attachment` keeps that on disk, `attach` moves the interface into the network of a pod and `restore` brings it
back. A runtime calls `hook` when the pod's network is there: the hook stands in the CDI file of the claim, so that it
works with every runtime that knows CDI. `driver` is all of it behind the SDK.

Names, attributes and configuration are those of kubernetes-sigs/dranet: claims written for it work here unchanged.
"""
