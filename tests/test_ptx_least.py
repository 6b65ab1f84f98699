"""Launches too small for a kernel become a stated condition; what breaks larger ones, or only some, stays an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_ptx_branches import BARRIERS, READ, START, kernel, only, ring, wait

from legalsat import check_pipeline
from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.cli import main
from legalsat.extract.check import ptx_least
from legalsat.extract.check.ptx_least import MOST_ROUNDS
from legalsat.extract.check.ptx_names import title_of
from legalsat.extract.check.ptx_sweep import WORK, Sweep
from legalsat.extract.check.ptx_values import find_steps, sweep_all

GUARD = "@%p1 bra END;"


def needs(least: int, stages: int = 2, *, released: bool = True, other: int = 0) -> str:
    """A ring whose reader runs at least once, but whose loader leaves for less than so many rounds.

    `other`: the same of a parameter m that nothing else depends on.
    """
    count = f"setp.lt.s32 %p1, %r2, {least};"
    if other:
        count += f"\nld.param.u32 %r30, [m];\nsetp.lt.or.s32 %p1, %r30, {other}, %p1;"
    text = ring(stages, released=released).replace("setp.lt.s32 %p1, %r2, 1;", count)
    text = text.replace("u64 x", "u64 x, .param .u32 m") if other else text
    assert GUARD in text
    return text.replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:")


@pytest.mark.parametrize("least", [1, 3, MOST_ROUNDS])
def test_a_kernel_that_breaks_for_few_rounds_only_is_proven_from_there(least: int) -> None:
    found = only(needs(least))
    assert found.proven, (found.findings, found.unproven)
    ((name, value, below),) = [(c.name, c.least, c.below) for c in found.conditions]
    assert (name, value) == ("n", least) and "gets 0 of 1 arrivals" in below
    assert {least, least + 1, least + 5} <= set(found.parameters["n"]) and least - 1 not in found.parameters["n"]


def test_parameters_that_make_no_difference_to_what_goes_wrong_are_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them decides where a thread stores, which is all the same to those who wait in vain."""
    count = 6
    given = "".join(f", .param .u32 a{n}" for n in range(count))
    stores = "".join(
        f"ld.param.u32 %r{31 + n}, [a{n}];\nsetp.gt.u32 %p{12 + n}, %r{31 + n}, 100000;\n"
        f"@%p{12 + n} st.shared.u32 [%r1+{70000 + 4 * n}], 1;\n"
        for n in range(count)
    )
    text = needs(1, other=3).replace("u64 x", f"u64 x{given}", 1)
    begin = "setp.lt.s32 %p1, %r2, 1;"
    assert begin in text
    text = text.replace(begin, stores + begin)
    module = parse(text)
    sweep = Sweep(compile_kernel(module, module.kernels[0]), {}, {})
    values = find_steps(sweep)
    names = sorted(name for name in values if name not in {"n"})
    assert ptx_least._Search(sweep, {}, WORK)._telling({**values, "n": 1}, names) == ["m"]
    found = only(text)
    monkeypatch.setattr(ptx_least._Search, "_telling", lambda _search, _values, names: names)
    assert found.conditions and [str(one) for one in found.conditions] == [str(one) for one in only(text).conditions]


def test_that_many_rounds_are_no_small_launch() -> None:
    found = only(needs(MOST_ROUNDS + 1))
    assert found.findings and not found.conditions


def test_where_larger_launches_take_too_long_to_try_nothing_is_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx_least, "_PROBE_WORK", 20)
    found = only(needs(1))
    assert not found.findings and not found.proven
    assert any("small launches alone" in one.reason for one in found.unproven)


def test_two_parameters_may_both_have_to_be_large_enough() -> None:
    found = only(needs(2, other=50))
    assert found.proven, (found.findings, found.unproven)
    assert {c.name: c.least for c in found.conditions} == {"n": 2, "m": 50}


def switched() -> str:
    """A kernel whose loader leaves if a is zero; the reader waits once more if v is zero, and again if w is too."""
    load = START.replace("@!%p0 bra LOADED;", "ld.param.u64 %d1, [a];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra LOADED;\n"
                         "@!%p0 bra LOADED;")  # fmt: skip
    waits = [wait(f"%r1+{BARRIERS}", "0", f"WAIT{number}") for number in range(3)]
    ways = "".join(
        f"ld.param.u64 %d2, [{name}];\nsetp.ne.u64 %p2, %d2, 0;\n@%p2 bra DONE;\n{again}"
        for name, again in zip("vw", waits[1:], strict=True)
    )
    return kernel(f"{load}{waits[0]}{ways}DONE:\n{READ}", ", ".join(f".param .u64 {name}" for name in "xavw"))


def test_what_breaks_alone_is_left_out_before_it_is_tried_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[dict[str, int]] = []
    shown = Sweep.shown

    def noted(self: Sweep, values: dict[str, int], *more: Any) -> Any:
        tried.append(values)
        return shown(self, values, *more)

    monkeypatch.setattr(Sweep, "shown", noted)
    found = only(switched())
    assert found.proven, (found.findings, found.unproven)
    assert [(c.name, c.least) for c in found.conditions] == [("a", 1)]
    zero = [{name for name in "avw" if one.get(name) == 0} for one in tried]
    assert {"a"} in zero and {"v", "w"} in zero
    assert not any(one > {"a"} for one in zero)


def test_conditions_that_no_launch_keeps_prove_nothing() -> None:
    """The least value of a parameter is no multiple of what it has to be one of: every launch that is tried is too."""
    module = parse(needs(2))
    (kernel,) = module.kernels
    proof = Sweep(compile_kernel(module, kernel), {}, {}, least={"n": 4}, whole={"n": 4})
    sweep_all(proof)
    assert proof.ran and not proof.unproven
    empty = Sweep(compile_kernel(module, kernel), {}, {}, least={"n": 5}, whole={"n": 1 << 30})
    sweep_all(empty)
    assert not empty.ran and [reason for _, reason in empty.unproven] == [
        "no launch that keeps to its conditions is run"
    ]


@pytest.mark.parametrize("stages", [2, 4])
def test_what_breaks_larger_launches_is_an_error(stages: int) -> None:
    """Here every run of more rounds than stages waits for ever, besides those of too few."""
    found = only(needs(2, stages, released=False))
    assert {f.kind for f in found.findings} >= {"arrivals_missing"} and not found.conditions


def test_what_breaks_between_sizes_that_are_right_is_an_error() -> None:
    count = "setp.eq.s32 %p1, %r2, 3;"
    text = ring(2).replace("setp.lt.s32 %p1, %r2, 1;", count).replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:")
    (finding, *_) = only(text).findings
    assert finding.launch == "n = 3"


def test_a_race_for_small_sizes_is_an_error() -> None:
    fault = "setp.lt.u32 %p5, %r2, 3;\n@%p5 bra PASSED;\n"
    found = only(ring(2, fault=fault))
    assert {"read_before_full"} <= {f.kind for f in found.findings} and not found.conditions


@pytest.mark.parametrize(("least", "right"), [(1, True), (2, False)])
def test_a_race_is_no_error_where_a_size_is_zero(least: int, right: bool) -> None:
    """Nobody multiplies what has no elements; a race of one round is one."""
    text = ring(2, fault=f"setp.lt.u32 %p5, %r2, {least};\n@%p5 bra PASSED;\n").replace("setp.lt.s32 %p1, %r2, 1;", "")
    found = only(text.replace(GUARD, ""))
    assert found.proven == right and bool(found.findings) != right, (found.findings, found.unproven)
    assert [(one.name, one.least) for one in found.conditions] == [("n", 1)] * right


def test_a_launch_that_divides_by_zero_is_too_small() -> None:
    divides = "ld.param.u32 %r30, [n];\nshr.u32 %r31, %r30, 8;\ndiv.u32 %r32, 4, %r31;\n"
    begin = "ld.param.u32 %r2, [n];"
    text = ring(2).replace(begin, divides + "mov.u32 %r2, %r32;", 1)
    found = only(text)
    assert [(c.name, c.least) for c in found.conditions] == [("n", 256)] and not found.findings
    assert "divides by zero" in found.conditions[0].below


def test_conditions_are_told_wherever_a_proof_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = needs(3)
    said = "n is at least 3 (below: phase 0 gets 0 of 1 arrivals"
    assert any(one.startswith(said) for one in check_pipeline(text).assumptions)
    path = tmp_path / "k.ptx"
    path.write_text(text)
    assert main(["check", str(path)]) == 0
    assert "proven under conditions" in capsys.readouterr().out
    assert main(["check", str(path), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["kernels"]
    assert [(c["parameter"], c["least"]) for c in one["conditions"]] == [("n", 3)]
    assert main(["check", str(path), "--sarif"]) == 0
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert [r["level"] for r in results if said in r["message"]["text"]] == ["note"]
    assert main(["explain", str(path), "--target", "h200"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("_ZN2M913matmulKernel9ILi128ELi256EEEviiP13__nv_bfloat16", "matmulKernel9"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalEEEvNT_6ParamsE", "device_kernel"),
        ("_Z3addPfS_i", "add"),
        ("_Z6kernel14matmul_globals", "kernel"),
        ("_ZL6kernel14matmul_globalsi", "kernel"),
        ("kernel_cutlass_kernel___main__Dense_object_at__TiledMMA_ThrLayoutVMNK11110000_0", "Dense.kernel"),
        ("kernel_cutlass_scale_rows_tensorptri8genericalign32odiv512i64div5121__0", "scale_rows"),
        ("_ZN12_GLOBAL__N_1L4copyEv", "copy"),
        ("matmul_kernel", "matmul_kernel"),
        ("_Zen", "_Zen"),
        ("_Z99short", "short"),
    ],
)
def test_names_are_told_as_the_source_has_them(name: str, title: str) -> None:
    assert title_of(name) == title


def test_parameters_are_told_and_taken_by_their_number() -> None:
    name = "_Z6kernelILi2EEvi"
    text = needs(3).replace("entry k(", f"entry {name}(").replace("u32 n,", f"u32 {name}_param_0,")
    text = text.replace("[n]", f"[{name}_param_0]")
    found = only(text)
    assert [str(c).partition(" (")[0] for c in found.conditions] == ["param_0 is at least 3"]
    (finding, *_) = only(text, parameters={"param_0": 2}).findings
    assert name not in finding.message
    assert only(text, parameters={"param_0": 4}).proven


def tiled(**more: Any) -> str:
    """A ring of as many rounds as there are whole tiles of 8 rows and 16 columns."""
    begin = "ld.param.u32 %r2, [n];"
    tiles = (
        f"{begin}\nshr.u32 %r2, %r2, 4;\nld.param.u32 %r30, [m];\nshr.u32 %r30, %r30, 3;\nmul.lo.u32 %r2, %r2, %r30;"
    )
    return ring(2, **more).replace(begin, tiles).replace("u64 x", "u64 x, .param .u32 m")


def test_rows_and_columns_that_count_only_together_are_both_swept() -> None:
    found = only(tiled())
    assert found.proven, (found.findings, found.unproven)
    rounds = {(m // 8) * (n // 16) for m in found.parameters["m"] for n in found.parameters["n"]}
    assert set(range(6)) <= rounds and not found.conditions


def test_two_least_values_that_are_needed_at_once_are_found_by_a_round_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rounds of the one as are one of the other would be more than what is tried."""
    text = tiled()
    assert GUARD in text
    text = text.replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:")
    monkeypatch.setattr(ptx_least, "_PROBE_WORK", 120)
    found = only(text)
    assert found.proven, (found.findings, found.unproven)
    assert {c.name: c.least for c in found.conditions} == {"n": 16, "m": 8}
    assert all("gets 0 of 1 arrivals" in c.below for c in found.conditions)


def test_a_condition_says_what_breaks_for_want_of_it_alone() -> None:
    """The least launch divides by its rows of tiles, of which it has none; where it has, somebody waits in vain."""
    rounds = "mul.lo.u32 %r2, %r2, %r30;"
    text = tiled()
    assert rounds in text and GUARD in text
    text = text.replace(rounds, f"{rounds}\ndiv.u32 %r31, %r2, %r30;\nmul.lo.u32 %r2, %r31, %r30;")
    found = only(text.replace(GUARD, f"@!%p0 bra OTHERS;\n{GUARD}\nOTHERS:"))
    assert found.proven, (found.findings, found.unproven)
    below = {c.name: c.below for c in found.conditions}
    assert below["n"] == "phase 0 gets 0 of 1 arrivals" and below["m"] == "the kernel divides by zero"


def test_a_fault_that_only_several_tiles_show_is_found() -> None:
    kinds = {f.kind for f in only(tiled(released=False)).findings}
    assert "arrivals_missing" in kinds


def test_the_kernels_of_a_text_share_its_seconds() -> None:
    whole = Bounds(8.0)
    first = whole.part(3)
    assert first.left <= 4.0 < whole.left <= 8.0  # what it leaves is for the other two
    assert 7.0 < whole.part(1).left <= 8.0 and Bounds(0.0).part(2).reason
    assert Bounds(40.0).part(1, 40.0).left > 30.0  # a caller may give one kernel more


def test_a_kernel_that_divides_by_half_of_a_parameter_is_run_with_more_of_it() -> None:
    """As many rounds as n has halves of m: with the least m, 1, there is no launch at all."""
    count = "ld.param.u32 %r30, [m];\nshr.u32 %r31, %r30, 1;\ndiv.u32 %r2, %r2, %r31;\nsetp.lt.s32 %p1, %r2, 1;"
    text = ring(2).replace("setp.lt.s32 %p1, %r2, 1;", count).replace("u64 x", "u64 x, .param .u32 m")
    found = only(text)
    assert found.proven, (found.findings, found.unproven)
    assert max(found.parameters["m"]) > 1 and found.reached[0] == found.reached[1]
