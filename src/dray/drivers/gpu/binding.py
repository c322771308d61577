"""`pynvml`, the vendor's own binding of NVML, imported with its first use.

So the driver can be imported, and says what is missing, where the package is not installed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from dray.driver import DriverError
from dray.drivers.gpu.library_symbols import NvmlLibrary


class _Binding:
    def __getattr__(self, name: str) -> Any:
        found = getattr(_module(), name)
        setattr(self, name, found)
        return found


pynvml: Any = _Binding()


def use_library(library: Path) -> None:
    """Has `pynvml` call this library, also if it has loaded another one before. Raises OSError."""
    module = _module()
    if getattr(module.nvmlLib, "_name", "") != str(library):
        module.nvmlLib = NvmlLibrary(str(library))
        module._nvmlGetFunctionPointer_cache.clear()


def _module() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise DriverError(f"the package nvidia-ml-py is missing: pip install nvidia-ml-py ({error})") from error
