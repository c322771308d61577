"""Device usage: hours of devices that were requested, allocated and used, and metrics of devices by class and state.

`claim_rates` reads how many devices a claim asks for and has, `meter` adds up the time, `totals` keeps hours and days
within bounds, and `controller` stores them in the ConfigMap kube-system/dray-usage, from which `dray usage` reads.
"""
