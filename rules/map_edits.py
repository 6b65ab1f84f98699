"""Tensor maps that a kernel edits itself."""

from __future__ import annotations

from legalsat.program.pipeline_sites import MapEdit
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target


@CHIP.rule(
    "PIPE033",
    Source("PTX ISA 9.1, 8, memory consistency model", "tensor map").saying(
        "must therefore be acquired explicitly using fence.proxy.tensormap::generic.acquire when needed"
    ),
    refused_by="hardware",
)
def map_edit_not_ordered(edit: MapEdit, target: Target) -> Requirements:
    """A tensor map stays as it is until all copies by it are done, and an edit is acquired before copies by it.

    Copies read the map while they are under way, through a proxy of its own. Loads are done when their phase is known
    to be over, stores when their group has been waited for, at least until it has read. An edit is released by
    tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release, and acquired by the fence of that name in each
    block that copies (FACTS TR-08).
    """
    yield require(
        edit.idle,
        "{map} is edited while a copy by it may be under way",
        help="move the edit after a wait for all copies by {map}, or edit another one in turn",
        map=edit.map,
    )
    yield require(
        edit.acquired,
        "a copy uses {map} before its edit is released and acquired",
        help="give the release after the edit, then fence.proxy.tensormap::generic.acquire before the copy",
        map=edit.map,
    )
