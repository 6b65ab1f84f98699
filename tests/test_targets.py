"""The target tables: names, and limits that hold of every chip."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import legalsat as ls
from legalsat.targets import TARGETS, target
from legalsat.tensor_map import MAP_TYPES, SWIZZLES


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_name_finds_its_target(name: str) -> None:
    found = TARGETS[name]
    assert target(name) is target(name.upper()) is target(found) is found
    assert str(found) == found.name == name


@pytest.mark.parametrize(("alias", "name"), [("sm_90", "sm_90a"), ("SM_100", "sm_100a"), ("H200", "h200")])
def test_architectures_go_without_their_suffix(alias: str, name: str) -> None:
    assert target(alias) is TARGETS[name]


@pytest.mark.parametrize("name", ["sm_42", "", "h 200", None, 90, 9.0, [], ("sm_90a",), b"h200", float("nan"), object])
def test_an_unknown_target_is_refused_with_the_list_of_known_ones(name: Any) -> None:
    with pytest.raises(ls.UnknownTarget, match="is unknown; give one of sm_80, sm_90a") as refusal:
        target(name)
    assert isinstance(refusal.value, ls.InvalidInput | ValueError)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_limits_are_consistent(name: str) -> None:
    found = TARGETS[name]
    assert 0 < found.shared_bytes_per_block <= found.shared_bytes_per_processor
    assert found.banks.count * found.banks.bytes in (128, 256)
    assert found.lanes == (64 if found.vendor == "amd" else 32)
    assert found.max_cluster == 1 or found.tma
    # Chips with a tensor memory accelerator have barriers that count its bytes, and at most one kind of tensor core.
    assert found.mbarrier == (found.tma is not None)
    assert not (found.wgmma and found.tcgen05)
    if found.tma:
        assert 0 < found.tma.map_types <= len(MAP_TYPES)
        assert 0 < found.tma.swizzles <= len(SWIZZLES)
        assert (found.tma.max_box_bytes is not None) == found.tma.measured
    if found.device:
        assert found.device.processors > 0 and found.device.memory_bandwidth > 1e11
        assert found.device.l2_bytes > found.shared_bytes_per_processor


def test_products_share_their_architectures_limits() -> None:
    for found in TARGETS.values():
        base = TARGETS[found.architecture]
        assert (found.tma, found.wgmma, found.tcgen05) == (base.tma, base.wgmma, base.tcgen05)
        assert found.shared_bytes_per_block == base.shared_bytes_per_block
        assert (found.device is None) == (found.name == found.architecture)


def test_targets_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        target("h200").lanes = 1  # type: ignore[misc]


def test_the_driver_was_measured_on_hopper_alone() -> None:
    assert {t.architecture for t in TARGETS.values() if t.tma and t.tma.measured} == {"sm_90a"}
