"""A wall clock that a test sets while processes run: a small library in front of the C library adds an offset to it.

Clocks that nobody sets (CLOCK_MONOTONIC) are left alone, as they are when an administrator sets the time.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long long *offset(void) {
    static const long long none = 0, *found = 0;
    if (!found) {
        const char *path = getenv("TEST_WALL_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        found = mapped == MAP_FAILED ? &none : mapped;
    }
    return found;
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    int failed = syscall(SYS_clock_gettime, clock, moment);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) moment->tv_sec += *offset();
    return failed;
}

int gettimeofday(struct timeval *moment, void *zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    moment->tv_sec = found.tv_sec;
    moment->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *moment) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (moment) *moment = found.tv_sec;
    return found.tv_sec;
}
"""


class SetClock:
    """`environment` makes processes that are started with it see the time that is set here."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("gcc") is None:
            pytest.skip("there is no gcc")
        self._file = folder / "offset"
        self.set(0)
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SOURCE)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.environment = {"LD_PRELOAD": str(library), "TEST_WALL_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """Ahead of the real time by so many seconds; behind it, if they are negative."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))
