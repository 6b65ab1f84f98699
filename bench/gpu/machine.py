"""What a measurement ran on."""

from __future__ import annotations

import subprocess
import time
from typing import Any


def machine() -> dict[str, Any]:
    """Return what ran: device, driver, versions, clocks, date."""
    import torch  # noqa: PLC0415
    import triton  # noqa: PLC0415

    query = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm",
        "--format=csv,noheader",
    ]
    smi = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "gpu": torch.cuda.get_device_name(),
        "nvidia_smi": smi,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "date": time.strftime("%Y-%m-%d"),
    }
