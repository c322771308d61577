"""Podman runtime: containers from images, isolated from each other and from the machine."""
