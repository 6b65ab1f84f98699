"""The check of PTX on stores by tensor maps whose boxes it does not know: how much of shared memory they may read."""

from __future__ import annotations

from test_ptx_branches import kernel, only

MAP = ".param .align 64 .b8 m[128], .param .u32 n"
STORE = 1024  # bytes that 64 threads write, and of a box


def stores(count: int = 2, beside: int = 2 * STORE) -> str:
    """Rounds in which threads fill buffers that lie one behind the other, and one of them stores each.

    `beside`: where threads write while the last store is under way.
    """
    filled = "".join(
        f"""st.shared.v4.b32 [%r3+{STORE * n}], {{%r0, %r0, %r0, %r0}};
fence.proxy.async.shared::cta;
bar.sync 0;
@%p0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d1, {{%r4}}], [%r1+{STORE * n}];
@%p0 cp.async.bulk.commit_group;
"""
        for n in range(count)
    )
    return kernel(
        f"""mov.b64 %d0, m;
cvta.param.u64 %d1, %d0;
ld.param.u32 %r2, [n];
shl.b32 %r3, %r0, 4;
add.u32 %r3, %r3, %r1;
mov.u32 %r4, 0;
TILE:
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
{filled}st.shared.v4.b32 [%r3+{beside}], {{%r0, %r0, %r0, %r0}};
@%p0 cp.async.bulk.wait_group.read 0;
bar.sync 0;
add.u32 %r4, %r4, 1;
bra TILE;
END:
""",
        MAP,
    )


def test_the_box_of_a_map_is_no_larger_than_what_its_other_stores_have() -> None:
    found = only(stores())
    assert found.proven, (found.findings, found.unproven)


def test_what_lies_behind_the_only_store_of_a_map_may_be_a_part_of_it() -> None:
    found = only(stores(1, STORE))
    assert not found.proven and any("how many bytes its box has is not known" in one.reason for one in found.unproven)


def test_a_part_of_the_last_box_is_not_written_while_it_is_stored() -> None:
    assert not only(stores(beside=STORE + STORE // 2)).proven
    assert not only(stores(3, 2 * STORE + STORE // 2)).proven


def test_what_a_store_may_have_read_before_others_were_known_is_not_read() -> None:
    """The second store begins within the first one's rows, so that boxes have a quarter of these and reach half."""
    text = stores().replace(f"{{%r4}}], [%r1+{STORE}]", f"{{%r4}}], [%r1+{STORE // 4}]")
    found = only(text)
    assert not found.proven and any("nobody reads" in one.reason for one in found.unproven), found.unproven
