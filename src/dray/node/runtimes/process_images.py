"""What the image of a container means to the process runtime, which runs commands of the host.

A container with a command runs it, whatever its image. Without one, what would run is known of a few images alone:
those that only wait, and those whose entrypoint is nothing but their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.node.runtimes.interface import StartError

_WAIT: Final = ("sleep", "infinity")
# Images without an entrypoint, and the commands that they run without arguments.
_SHELLS: Final = {
    "busybox": ("sh",),
    "alpine": ("sh",),
    "debian": ("bash",),
    "ubuntu": ("bash",),
    "python": ("python3",),
    "cuda": ("bash",),
}

_PLAIN: Final = ("pause", "agnhost", "scratch", "none", "host")
"""Images of which only the container's command is used."""


def argv(image: str, command: Sequence[str], args: Sequence[str], *, unknown_wait: bool = False) -> list[str]:
    """Returns the command of a container; one that waits for unknown images with `unknown_wait`.

    Raises StartError if the container has no command and it is unknown what the image runs.
    """
    if command:
        return [*command, *args]
    name = _name(image)
    if name == "pause" or (name == "agnhost" and list(args) in ([], ["pause"])):
        return list(_WAIT)
    if name in _SHELLS:
        return list(args) or list(_SHELLS[name])
    if unknown_wait:
        return list(_WAIT)
    raise StartError(
        "ErrImagePull",
        f"image {image}: processes of this machine run without images; give the container a command that this "
        "machine has, or start the node with --runtime podman",
    )


def warning(image: str, command: Sequence[str]) -> str:
    """Returns a warning that the image is not used; empty for shells and other images that are not needed."""
    name = _name(image)
    if name in _SHELLS or name in _PLAIN:
        return ""
    runs = "its command runs on this machine without it" if command else "the container only waits"
    return f"image {image} is not pulled, and may not exist: {runs}. --runtime podman on a node runs images"


def _name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
