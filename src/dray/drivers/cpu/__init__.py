"""The CPU driver, `dra.cpu`: exclusive CPUs of a Linux machine as DRA devices.

`topology` reads what sysfs says about CPUs, `devices` makes devices of it, `selection` chooses the CPUs of a claim that
asks for a number of them, `assignment` decides what a claim gets beside the others, `driver` is all of it behind the
SDK. `shared_pool` holds containers of a kubelet to their CPUs and keeps others off them; `dray.node.cpusets` is how.
Names, attributes, capacity and the environment variable are those of kubernetes-sigs/dra-driver-cpu, so that claims
written for it work here unchanged.
"""
