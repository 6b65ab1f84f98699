"""A tile that is filled and read by many stores and loads, one behind the other, in rounds of a loop."""

from __future__ import annotations

from collections.abc import Mapping

from test_ptx_branches import kernel

ROW = 256  # bytes that 64 threads write at a time


def staged(count: int = 4, *, moved: Mapping[int, int] | None = None, added: bool = True) -> str:
    """Return rounds in which threads fill a tile of so many rows, read it, and one of them stores it.

    Args:
        count: of rows.
        moved: by how many bytes some rows are stored elsewhere.
        added: every other address is added up before.
    """
    moved = moved or {}

    def access(name: str, row: int, at: int, register: str) -> str:
        base, offset = "%r3", at
        begin = ""
        if added and row % 2:
            begin, base, offset = f"add.s32 %r{20 + row}, %r3, 64;\n", f"%r{20 + row}", at - 64
        if name == "st":
            return f"{begin}st.shared.u32 [{base}+{offset}], {register};\n"
        return f"{begin}ld.shared.u32 {register}, [{base}+{offset}];\n"

    filled = "".join(access("st", n, 1024 + n * ROW + moved.get(n, 0), "%r39") for n in range(count))
    read = "".join(access("ld", n, 1024 + n * ROW, f"%r{30 + n}") for n in range(count))
    return kernel(
        f"""mov.b64 %d0, x;
ld.param.u64 %d1, [x];
ld.param.u32 %r2, [n];
ld.global.u32 %r39, [%d1];
shl.b32 %r3, %r0, 2;
add.u32 %r3, %r3, %r1;
mov.u32 %r4, 0;
TILE:
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
{filled}fence.proxy.async.shared::cta;
bar.sync 0; // filled
{read}@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1+1024], {count * ROW};
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group.read 0;
bar.sync 0; // read
add.u32 %r4, %r4, 1;
bra TILE;
END:
"""
    )
