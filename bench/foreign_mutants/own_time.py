"""Bounds of the check in seconds of its own process: a busy machine says nothing of a kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from legalsat.analyses import ptx_bounds


@contextmanager
def own_time() -> Iterator[None]:
    """Let no check be cut short by what else runs."""
    with patch.object(ptx_bounds, "time", SimpleNamespace(monotonic=time.process_time)):
        yield
