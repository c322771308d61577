"""Notifications: a webhook or a command is told when a Job or a pod without controller ends, fails, or waits too long.

`messages` decides what there is to tell about an object, `delivery` tells it, and `controller` watches. It does nothing
unless `NotificationOptions` name a webhook or a command.
"""
