"""Process-wide services: watchdog of the event loop, tuning of the garbage collector."""
