"""`pynvml`, the vendor's own binding of NVML, imported with its first use.

So the driver can be imported, and says what is missing, where the package is not installed.
"""

from __future__ import annotations

import importlib
from typing import Any

from dray.driver import DriverError


class _Binding:
    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(importlib.import_module("pynvml"), name)
        except ImportError as error:
            raise DriverError(f"the package nvidia-ml-py is missing: pip install nvidia-ml-py ({error})") from error
        setattr(self, name, found)
        return found


pynvml: Any = _Binding()
