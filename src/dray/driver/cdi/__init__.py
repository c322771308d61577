"""The Container Device Interface: specs of what containers get of a device, their names, and the files they live in."""

from dray.driver.cdi.edits import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, variables

__all__ = ["ContainerEdits", "DeviceNode", "Hook", "IntelRdt", "Mount", "NetDevice", "variables"]
