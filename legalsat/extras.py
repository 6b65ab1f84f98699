"""Packages that only some need: found where they are used, else named with the extra of legalsat that brings them."""

from __future__ import annotations

import importlib
from typing import Any

from legalsat.errors import MissingExtra


def extra(module: str, of: str) -> Any:
    """Return a module by its name, such as "pyarrow.parquet", that the extra `of` brings.

    Raises:
        MissingExtra: it is not installed, or does not load.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{module.partition('.')[0]} is missing ({error}); install legalsat[{of}]") from error
