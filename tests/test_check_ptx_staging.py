"""Staging by generation: what is read anew is written anew, and what threads write is read before it is overwritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from legalsat.analyses.ptx.contract import Access
from legalsat.analyses.ptx.loads import Loads, Written
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

HEAD = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 to)
.reqntid {threads}
{{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %d<9>; .reg .b32 %f<8>;
.shared .align 1024 .b8 rows[8192];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, rows; add.u32 %r3, %r1, %r2; mov.u32 %r9, 0;
setp.eq.u32 %p0, %r0, 0; ld.param.u64 %d0, [to]; cvta.to.global.u64 %d1, %d0;
and.b32 %r4, %r3, -17; add.u32 %r5, %r3, 256;
"""
BYTES = 512  # that a warp writes at once


def checked(body: str, threads: int = 32) -> KernelCheck:
    (found,) = check_ptx(HEAD.format(threads=threads) + body + "ret;\n}\n").kernels
    return found


def stored(to: str) -> str:
    return f"st.shared.v4.b32 [{to}], {{%r9, %r9, %r9, %r9}};\n"


def as_matrices(to: str) -> str:
    return f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [{to}], {{%r9, %r9, %r9, %r9}};\n"


def matrices(at: str) -> str:
    return f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r20, %r21, %r22, %r23}}, [{at}];\n"


MET = "bar.sync 0;\n"
SENT = f"""fence.proxy.async.shared::cta;
{MET}@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r2], {BYTES};
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group.read 0;
{MET}"""


@pytest.mark.parametrize(("write", "to", "right"), [
    (stored, "%r3", True), (as_matrices, "%r3", True), (stored, "%r4", False), (as_matrices, "%r4", False),
])  # fmt: skip
def test_what_a_store_reads_again_is_written_again(write: Callable[[str], str], to: str, right: bool) -> None:
    """Every other lane writes where its neighbour does, the second time alone."""
    found = checked(write("%r3") + SENT + write(to) + SENT)
    assert not found.findings and found.proven is right
    assert right or any("has been written since it was read before" in one.reason for one in found.unproven)


def test_the_same_may_be_stored_twice() -> None:
    assert checked(stored("%r3") + SENT + SENT).proven


@pytest.mark.parametrize(("second", "right"), [("%r3+512", True), ("%r3+256", False)])
def test_what_threads_write_is_read_before_others_overwrite_it(second: str, right: bool) -> None:
    """The second time the second half is written over a part of the first one."""
    read = MET + matrices("%r3") + matrices("%r3+512") + MET
    found = checked(stored("%r3") + stored("%r3+512") + read + stored("%r3") + stored(second) + read)
    assert not found.findings and found.proven is right
    assert right or any("nobody reads some of what this writes before" in one.reason for one in found.unproven)


@pytest.mark.parametrize(("write", "threads", "right"), [
    (stored, 64, True), (stored, 32, True), (as_matrices, 64, False), (as_matrices, 32, True),
])  # fmt: skip
def test_all_that_stmatrix_writes_is_read(write: Callable[[str], str], threads: int, right: bool) -> None:
    """Compilers write rows of warps by st.shared that no result needs, and none by stmatrix."""
    read = "and.b32 %r6, %r1, 511;\nadd.u32 %r7, %r6, %r2;\nld.shared.v4.b32 {%r8, %r10, %r11, %r12}, [%r7];\n"
    found = checked(write("%r3") + MET + read, threads)
    assert not found.findings and found.proven is right


@pytest.mark.parametrize("write", [stored, as_matrices])
def test_all_that_a_warp_writes_at_once_is_read(write: Callable[[str], str]) -> None:
    read = "shr.u32 %r6, %r1, 1;\nadd.u32 %r7, %r6, %r2;\nld.shared.b32 %r8, [%r7];\n"
    found = checked(write("%r3") + MET + read)
    assert not found.findings and not found.proven


@pytest.mark.parametrize("more", ["", matrices("%r5"), matrices("%r5") + matrices("%r5+512")])
def test_ldmatrix_reads_no_matrices_made_of_parts_of_others(more: str) -> None:
    """What three lines write is read, and halves of two of them beside that."""
    written = "".join(stored(f"%r3+{BYTES * n}") for n in range(3))
    read = "".join(matrices(f"%r3+{BYTES * n}") for n in range(3))
    assert checked(written + MET + read + more).proven is (more.count("ldmatrix") < 2)


@pytest.mark.parametrize(("second", "apart", "right"), [
    ("%r3+512", "", True), ("%r3+256", "", False), ("%r3+256", MET, True),
])  # fmt: skip
def test_no_matrix_is_read_twice_while_another_one_beside_it_is_left_out(second: str, apart: str, right: bool) -> None:
    """All is read once; then again, in one stretch, half of the first matrix a second time."""
    written = stored("%r3") + stored("%r3+512")
    read = matrices("%r3") + apart + matrices(second)
    found = checked(written + MET + matrices("%r3") + matrices("%r3+512") + MET + read)
    assert not found.findings and found.proven is right
    assert right or any("none beside them shared byte" in one.reason for one in found.unproven)


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize(("second", "right"), [("%r3+512", True), ("%r3", False)])
def test_no_line_is_read_twice_while_another_one_is_left_out(second: str, right: bool, earlier: bool) -> None:
    """All that one line has written twice, and nothing of the other's; all is read in an earlier stretch, or is not."""
    written = stored("%r3") + stored("%r3+512") + MET
    found = checked(
        written + (matrices("%r3") + matrices("%r3+512") + MET) * earlier + matrices("%r3") + matrices(second)
    )
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    assert right or any("none beside them anything that line" in one.reason for one in found.unproven)


@pytest.mark.parametrize(("second", "right"), [("%r3+256", True), ("%r3", False)])
def test_no_matrix_that_was_loaded_is_read_twice_while_another_one_is_left_out(second: str, right: bool) -> None:
    """Of 512 bytes that a copy brings half is read by one ldmatrix, the other half or the same by the next."""
    all_of_it = matrices("%r3")
    halves = "".join(matrices(at).replace("x4", "x2").replace(", %r22, %r23", "") for at in ("%r3", second))
    found = checked(LOADED + all_of_it + MET + halves)
    assert not found.findings and found.proven is right
    assert right or any("none beside them byte" in one.reason for one in found.unproven)


def sent(at: str) -> str:
    """Return a store of a box of unknown size, after which threads may write anywhere again."""
    group = "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group.read 0;\n"
    store = f"@%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {{%r9, %r9}}], [{at}];\n"
    return f"fence.proxy.async.shared::cta;\n{MET}{store}{group}{MET}"


def by_map(body: str) -> KernelCheck:
    text = HEAD.format(threads=32).replace(".param .u64 to)", ".param .u64 to, .param .align 64 .b8 m[128])")
    (found,) = check_ptx(text + body + "ret;\n}\n").kernels
    return found


@pytest.mark.parametrize(("first", "right"), [("%r2", True), ("%r2+512", False)])
def test_what_is_written_with_what_a_store_takes_is_stored_too(first: str, right: bool) -> None:
    """Three boxes of 1024 bytes; one that begins in its middle lets all look half as large."""
    boxes = [(f"%r2+{1024 * n}", stored(f"%r3+{1024 * n}") + stored(f"%r3+{1024 * n + 512}")) for n in range(3)]
    found = by_map("".join(write + sent(at if n else first) for n, (at, write) in enumerate(boxes)))
    assert not found.findings and found.proven is right
    assert right or any("right behind that" in one.reason for one in found.unproven)


@pytest.mark.parametrize(("third", "right"), [("%r2", True), ("%r2+512", False)])
def test_what_is_written_for_a_store_is_stored(third: str, right: bool) -> None:
    """The first of two boxes is filled a second time, and the second one is stored again in its place."""
    filled = stored("%r3") + sent("%r2") + stored("%r3+512") + sent("%r2+512")
    found = by_map(filled + stored("%r3") + sent(third))
    assert not found.findings and found.proven is right
    assert right or any("where others write what is stored" in one.reason for one in found.unproven)


SUMS = "{%f0, %f1, %f2, %f3}"


def by_registers(a: str, b: str, adds: str = "1") -> str:
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {SUMS}, {a}, {b}, {adds}, 1, 1, 0;\n"


@pytest.mark.parametrize(("second", "right"), [
    (("{%r20, %r21, %r22, %r23}", "%d3"), True),
    (("{%r24, %r25, %r26, %r27}", "%d4"), True),
    (("{%r24, %r25, %r26, %r27}", "%d3"), False),
    (("{%r24, %r25, %r26, %r27}", "%d5"), False),
    (("{%r24, %r25, %r26, %r27}", "%d3", "0"), True),
])  # fmt: skip
def test_a_part_of_b_goes_with_one_a_in_registers_until_sums_begin_anew(second: tuple[str, ...], right: bool) -> None:
    """The same B, another one of 256 bytes, and one of which half is that of the first multiplication."""
    written = "".join(stored(f"%r3+{2048 * n}") for n in range(2))
    words = "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000000800080000;\n"
    words += "add.s64 %d4, %d3, 128; add.s64 %d5, %d3, 8;\n"
    begin = f"fence.proxy.async.shared::cta;\n{MET}{words}wgmma.fence.sync.aligned;\n"
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    first = by_registers("{%r20, %r21, %r22, %r23}", "%d3", "0")
    if second[2:] == ("0",):
        first += f"{end}add.f32 %f4, %f0, %f0;\nwgmma.fence.sync.aligned;\n"
    found = checked(written + begin + first + by_registers(*second) + end, 128)
    aside = [one.reason for one in found.unproven if "nobody reads" not in one.reason]
    assert not found.findings and bool(aside) is not right, (found.findings, aside)


@pytest.mark.parametrize(("apart", "right"), [(8, True), (136, False)])
def test_what_came_together_is_multiplied_together(apart: int, right: bool) -> None:
    """B is two matrices of 128 bytes: the first two, then the third with the fourth, or one that another line wrote."""
    written = "".join(stored(f"%r3+{2048 * n}") for n in range(2))
    words = "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000000800080000; add.s64 %d4, %d2, 16;\n"
    words += f"or.b64 %d4, %d4, {8 << 32 | apart << 16};\n"
    begin = f"fence.proxy.async.shared::cta;\n{MET}{words}wgmma.fence.sync.aligned;\n"
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    first = by_registers("{%r20, %r21, %r22, %r23}", "%d3", "0")
    found = checked(written + begin + first + by_registers("{%r24, %r25, %r26, %r27}", "%d4") + end, 128)
    said = any("with something else" in one.reason for one in found.unproven)
    assert not found.findings and said is not right, (found.findings, found.unproven)


@pytest.mark.parametrize(("apart", "right"), [(0, True), (256, True), (128, False)])
def test_what_goes_with_a_part_of_a_lies_across_no_other_such(apart: int, right: bool) -> None:
    """When both are written anew B is 256 bytes at the same place, behind those, or half of these and half behind."""
    words = "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000001000080000;\n"
    words += f"add.s64 %d4, %d3, 128; add.s64 %d5, %d4, {apart // 16};\n"
    end = f"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{MET}"

    def round_(b: str) -> str:
        begin = f"{stored('%r3')}{stored('%r3+2048')}fence.proxy.async.shared::cta;\n{MET}wgmma.fence.sync.aligned;\n"
        return begin + by_registers("%d3", f"{b}", "0").replace("1, 1, 0;", "1, 1, 0, 0;") + end

    found = checked(words + round_("%d4") + round_("%d5"), 128)
    said = any("lies across" in one.reason for one in found.unproven)
    assert not found.findings and said is not right, (found.findings, found.unproven)


LOADED = f"""@%p0 mbarrier.init.shared::cta.b64 [%r2+8128], 1;
@%p0 fence.mbarrier_init.release.cluster;
{MET}@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8128], 512;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 512, [%r2+8128];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8128], 0;
@!%p2 bra W;
"""


@pytest.mark.parametrize(("to", "right"), [("%r3", True), ("%r5", False)])
def test_what_is_changed_in_its_place_belongs_to_what_came_there(to: str, right: bool) -> None:
    """Of 512 bytes of B that a copy brings, threads change the first 128, or write those to the second half."""
    change = "setp.lt.u32 %p3, %r0, 8;\n@!%p3 bra OUT;\nld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3];\n"
    change += f"st.shared.v4.b32 [{to}], {{%r10, %r11, %r12, %r9}};\nOUT:\nfence.proxy.async.shared::cta;\n{MET}"
    words = "cvt.u64.u32 %d2, %r2; shr.b64 %d2, %d2, 4; or.b64 %d3, %d2, 0x0000000800080000; add.s64 %d4, %d3, 16;\n"
    registers = "{%r20, %r21, %r22, %r23}"
    multiplied = by_registers(registers, "%d3", "0") + by_registers(registers.replace("2", "1"), "%d4")
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    found = checked(LOADED + change + words + "wgmma.fence.sync.aligned;\n" + multiplied + end, 128)
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    assert right or any("with something else" in one.reason for one in found.unproven)


@pytest.mark.parametrize(("third", "right"), [(1024, True), (1152, False), (896, False)])
def test_boxes_are_as_large_as_those_beside_them(third: int, right: bool) -> None:
    """Of four maps' boxes, which end where the next ones begin, one may lie at a wrong place."""
    head = HEAD.format(threads=128).replace(".param .u64 to", ".param .u64 to, .param .align 64 .b8 maps[512]")
    begin, end = LOADED.replace("512;", "2048;").split("@%p0 cp.async.bulk", 1)
    loads = "mov.b64 %d2, maps;\ncvta.param.u64 %d3, %d2;\n"
    for number, place in enumerate((0, 512, third, 1536)):
        to = f"[%r2+{place}], [%d4, {{0}}], [%r2+2048]"
        copy = f"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes {to}"
        loads += f"add.s64 %d4, %d3, {128 * number};\n@%p0 {copy};\n"
    body = (begin + loads + end.split("\n", 1)[1]).replace("8128", "2048")
    (found,) = check_ptx(head + body + "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3];\nret;\n}\n").kernels
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    assert right or any("unlike the others" in one.reason for one in found.unproven)


def masked(second: str, end: str = "%r11") -> str:
    """A tile that is stored as matrices and copied out by threads, up to n of its 32 rows, then another one."""
    read = "ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r3];"
    copied = f"{MET}setp.lt.u32 %p1, %r1, {end};\n@!%p1 bra OUT{{0}};\n{read}\nOUT{{0}}:\n{MET}"
    begin = "ld.param.u32 %r10, [n];\nshl.b32 %r11, %r10, 4;\n"
    return begin + as_matrices("%r3") + copied.format(0) + as_matrices(second) + copied.format(1) + as_matrices("%r3")


@pytest.mark.parametrize(("text", "right"), [
    (masked("%r3"), True), (masked("%r3+256"), False), (masked("%r3", "448"), False),
])  # fmt: skip
def test_what_lies_beyond_the_end_is_staged_and_not_copied(text: str, right: bool) -> None:
    """The second one in its place, half of it beside that, and copies that leave out four rows of any tile."""
    head = HEAD.replace(".param .u64 to", ".param .u64 to, .param .u32 n").format(threads=32)
    last = MET + "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r3];\n"
    (found,) = check_ptx(head + text + last + "ret;\n}\n").kernels
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    assert right or any("nobody reads" in one.reason for one in found.unproven), found.unproven


@pytest.mark.parametrize(("read", "cut", "excused"), [(set(), {}, True), (set(), {(0, 9): 2}, False), ({0}, {}, True)])
def test_only_runs_that_read_all_that_they_overwrite_excuse_others(
    read: set[int], cut: dict[tuple[int, int], int], excused: bool
) -> None:
    """A run in which a copy reads nothing, as its row lies beyond the end, has overwritten what nobody has read."""
    accesses = [Access(0, 0, 5, "st"), Access(0, 1, 5, "st")]
    masked_run, other = Loads(read={0}, over={(5, 9): 2}, cut={(0, 9): 2}), Loads(read=read, over={(5, 9): 2}, cut=cut)
    written = Written(taken={5})
    written.note_run(masked_run, accesses, whole=True)
    written.note_run(other, accesses, whole=True)
    said = [reason for _, reason in written.unread(1, 16, {}, {}) if "overwrites it" in reason]
    assert bool(said) is not excused


@pytest.mark.parametrize(("first", "right"), [("%r3", True), ("%r3+512", False)])
def test_no_copies_of_one_group_go_to_one_place(first: str, right: bool) -> None:
    """Two copies bring 512 bytes each, which are read, and then again, or the first goes where the second does."""

    def brought(*places: str) -> str:
        copies = "".join(f"cp.async.cg.shared.global [{place}], [%d1], 16;\n" for place in places)
        groups = f"cp.async.commit_group;\ncp.async.wait_group 0;\n{MET}"
        return copies + groups + matrices("%r3") + matrices("%r3+512") + MET

    found = checked(brought("%r3", "%r3+512") + brought(first, "%r3+512"))
    assert not found.findings and found.proven is right, (found.findings, found.unproven)
    assert right or any("nobody can read it between" in one.reason for one in found.unproven)
