"""The assembler: what it returns, and what it says where it refuses."""

from __future__ import annotations

import pytest

from legalsat.backends.ptx.assemble import AssemblyFailed, assemble

KERNEL = """\
.version 8.6
.target {architecture}
.address_size 64

.visible .entry nothing()
{{
    {body}
    ret;
}}
"""


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_100a"])
def test_a_kernel_becomes_a_cubin(architecture: str) -> None:
    assert assemble(KERNEL.format(architecture=architecture, body=""), architecture)[:4] == b"\x7fELF"


def test_what_ptxas_says_is_passed_on() -> None:
    text = KERNEL.format(architecture="sm_90a", body="mov.b33 %r0, 0;")
    with pytest.raises(AssemblyFailed, match=r"refuses.*line 7"):
        assemble(text, "sm_90a")


def test_tcgen05_is_none_of_sm_90a() -> None:
    """The assembler judges by architecture, so kernels that assemble are for the right one (FACTS TC-01)."""
    body = "tcgen05.fence::before_thread_sync;"
    assert assemble(KERNEL.format(architecture="sm_100a", body=body), "sm_100a")
    with pytest.raises(AssemblyFailed):
        assemble(KERNEL.format(architecture="sm_90a", body=body), "sm_90a")


def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(AssemblyFailed, match="sm_999z"):
        assemble("", "sm_999z")
