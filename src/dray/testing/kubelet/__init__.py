"""The kubelet double: plays the kubelet for a DRA driver under test, with faults on demand.

`double` is the kubelet itself, `threaded` the same for code that is not asynchronous (the fixture `dray_kubelet`),
`faults` what goes wrong between kubelet and driver, `driver_process` a driver in a process of its own.
"""
