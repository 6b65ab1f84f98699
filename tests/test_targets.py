"""The target tables: names, and limits that hold of every chip."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import legalsat as ls
from legalsat.targets import TARGETS, target
from legalsat.units.tensor_map import MAP_TYPES, SWIZZLES


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_name_finds_its_target(name: str) -> None:
    found = TARGETS[name]
    assert target(name) is target(name.upper()) is target(found) is found
    assert str(found) == found.name == name


@pytest.mark.parametrize(("alias", "name"), [("sm_90", "sm_90a"), ("SM_100", "sm_100a"), ("H200", "h200")])
def test_architectures_go_without_their_suffix(alias: str, name: str) -> None:
    assert target(alias) is TARGETS[name]


@pytest.mark.parametrize("name", ["sm_42", "", "gpu", None, 90, 9.0, [], ("sm_90a",), b"h200", float("nan"), object])
def test_an_unknown_target_is_refused_with_the_list_of_known_ones(name: Any) -> None:
    with pytest.raises(ls.UnknownTarget, match="is unknown; give one of sm_80, sm_86") as refusal:
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


# Names as `cuDeviceGetName`, rocm-smi and people write them.
NAMES = {
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA A100-SXM4-80GB": "a100-80gb",
    "NVIDIA A100 80GB PCIe": "a100-80gb",
    "NVIDIA A10": "a10",
    "NVIDIA A40": "a40",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "Orin": "orin",
    "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "rtx 4090": "rtx4090",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000ada",
    "NVIDIA H100 80GB HBM3": "h100",
    "H100 SXM": "h100",
    "NVIDIA H100 PCIe": "h100-pcie",
    "h100_pcie": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H800": "h800",
    "NVIDIA H20": "h20",
    "NVIDIA H200": "h200",
    "h 200": "h200",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA Thor": "thor",
    "NVIDIA GeForce RTX 5090": "rtx5090",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000",
    "NVIDIA GB10": "gb10",
    "DGX Spark": "gb10",
    "AMD Instinct MI250X": "mi250x",
    "AMD Instinct MI300X": "mi300x",
    "sm90": "sm_90a",
    "9.0": "sm_90a",
    "8.9": "sm_89",
    "compute_90a": "sm_90a",
    "SM_103": "sm_103a",
    "sm_101a": "sm_110a",
    "sm_121": "sm_121a",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_drivers_and_people_find_their_table(name: str) -> None:
    assert target(name) is TARGETS[NAMES[name]]


@pytest.mark.parametrize(
    ("name", "architecture", "nearest"),
    [
        ("v100", "sm_70", "sm_80"),
        ("T4", "sm_75", "sm_80"),
        ("sm_75", "Turing", "sm_80"),
        ("NVIDIA GeForce RTX 4070 Ti", "sm_89", "sm_89"),
        ("rtx3060", "sm_86", "sm_86"),
        ("rtx5070", "sm_120a", "sm_120a"),
        ("sm_100f", "family", "sm_100a"),
        ("gfx908", "CDNA", "gfx90a"),
        ("Hopper", "family", "sm_90a"),
    ],
)
def test_a_real_chip_without_a_table_is_given_the_nearest(name: str, architecture: str, nearest: str) -> None:
    with pytest.raises(ls.UnknownTarget, match=f"{architecture}.*give the nearest, {nearest}"):
        target(name)
    assert nearest in TARGETS


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("h20o", "h200"), ("sm_9oa", "sm_90a"), ("mi300", "mi300x"), ("b20", "b200"), ("rtx509", "rtx5090")],
)
def test_a_misspelt_name_is_told_what_may_be_meant(misspelt: str, meant: str) -> None:
    with pytest.raises(ls.UnknownTarget, match=rf"is unknown; did you mean .*\b{meant}\b.*\?"):
        target(misspelt)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NVIDIA GeForce RTX 4060 Laptop GPU", r"an Ada card \(sm_89\) and has no table; give the nearest, sm_89"),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", r"an Ampere card \(sm_86\)"),
        ("Tesla P100-PCIE-16GB", r"'Tesla P100-PCIE-16GB' \(sm_60\) has no table; give one of"),
        ("gfx1100", "'gfx1100' has no table; give one of"),
    ],
)
def test_a_chip_that_has_no_table_is_told_what_it_is(name: str, says: str) -> None:
    with pytest.raises(ls.UnknownTarget, match=says):
        target(name)


def test_no_name_is_found_by_half_of_it() -> None:
    for name in TARGETS:
        for other in (name[:-1], f"{name}x", f"x{name}", name * 40):
            try:
                found = target(other)
            except ls.UnknownTarget as refusal:
                assert len(str(refusal)) < 1000
            else:
                assert other in TARGETS or found.name == f"{other}a", (other, found.name)


def test_what_was_measured_on_one_chip_is_claimed_by_no_other() -> None:
    for name, found in TARGETS.items():
        measured = "measured" in found.basis.replace("not measured", "")
        assert measured == (name in {"sm_90a", "h200"}), (name, found.basis)
        assert bool(found.device and found.device.clusters) == (name == "h200")
        sibling = found.basis.partition("as ")[2].partition(",")[0]
        if sibling:
            assert TARGETS[sibling].banks.count == found.banks.count
            assert (found.tma is None) == (TARGETS[sibling].tma is None)


def test_a_slower_matrix_unit_is_predicted_slower() -> None:
    """H20 has an H200's processor with a quarter of its matrix rate; a product that computes takes as much longer."""
    gemm = ls.Gemm(8192, 8192, 8192, "bf16")
    operations = 2 * 8192**3
    for name in ("h20", "h200", "h100-pcie"):
        device = target(name).device
        assert device is not None
        predicted = ls.synthesize(gemm, name).cost.nanoseconds
        least = operations / device.bf16_flops * 1e9
        assert least < predicted < 2 * least


def test_targets_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        target("h200").lanes = 1  # type: ignore[misc]


def test_the_driver_was_measured_on_hopper_alone() -> None:
    assert {t.architecture for t in TARGETS.values() if t.tma and t.tma.measured} == {"sm_90a"}
