"""Runtimes: what starts the containers of a pod on this machine, as plain processes or with podman."""
