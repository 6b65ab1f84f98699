"""The kernel of a block on tcgen05: parameters, barriers, the tile's corner, and which warp does what."""

from __future__ import annotations

from collections.abc import Callable

from legalsat.backends.ptx.blocks import tcgen05
from legalsat.backends.ptx.blocks.epilogue import LANES, Staging, store
from legalsat.backends.ptx.blocks.product import Product, shared_map
from legalsat.backends.ptx.blocks.ring import Block, fill, start_barriers
from legalsat.backends.ptx.text import ENTRY, EVERY_LANE, INDENT, MAP_ALIGNMENT, MAP_BYTES, VERSION, Text


def emit(product: Product) -> str:
    """Return the text of a kernel named `ENTRY`, which depends on nothing but `product`."""
    text = Text()
    block = _begin(text, product)
    _warps(block)
    text.do("ret")
    parameters = [f".param .align {MAP_ALIGNMENT} .b8 {name}[{MAP_BYTES}]" for name in ("a_map", "b_map")]
    by_map = product.c.store == "tma"
    parameters.append(f".param .align {MAP_ALIGNMENT} .b8 c_map[{MAP_BYTES}]" if by_map else ".param .u64 c")
    return "\n".join(
        [
            *(f"// {line}".rstrip() for line in product.about),
            f".version {VERSION}",
            f".target {product.architecture}",
            ".address_size 64",
            "",
            f".extern .shared .align {block.shared.alignment} .b8 memory[];",
            "",
            f".visible .entry {ENTRY}(",
            ",\n".join(INDENT + p for p in parameters),
            ")",
            f".reqntid {product.threads}",
            f".minnctapersm {product.blocks}",
            "{",
            *text.declarations(),
            *text.lines(),
            "}",
            "",
        ]
    )


def _begin(text: Text, product: Product) -> Block:
    """Find out who is who and which tile is the block's; tiles along m are neighbours."""
    thread = text.put("mov.u32", "%tid.x")
    # The same in all lanes, which the assembler cannot know without being told.
    warp = text.put("shfl.sync.idx.b32", text.put("shr.u32", thread, 5), 0, 31, EVERY_LANE)
    lane = text.put("and.b32", thread, LANES - 1)
    base = text.put("mov.u32", "memory")
    number = text.put("mov.u32", "%ctaid.x")
    across = product.tiles[0]
    corner = text.put("rem.u32", number, across), text.put("div.u32", number, across)
    block = Block(text, product, shared_map(product), base, warp, lane, corner)
    text.say("swizzles go by addresses, so wrong alignment must not pass unseen")
    text.do(f"@{text.when('ne.u32', text.put('and.b32', base, block.shared.alignment - 1), 0)} trap")
    return block


def _warps(block: Block) -> None:
    text, product = block.text, block.product
    loader, issuer = product.keepers, product.keepers + 1
    start_barriers(block)
    text.do("bar.sync 0")
    text.do(f"@{text.when('ne.u32', block.warp, issuer)} bra ALLOCATED")
    tcgen05.allocate(block)
    text.place("ALLOCATED")
    text.do("tcgen05.fence::before_thread_sync")
    text.do("bar.sync 0")
    text.do("tcgen05.fence::after_thread_sync")
    columns = text.put("ld.shared.b32", f"[{block.base}+{block.shared.columns}]")
    others, end = text.label("OTHERS"), text.label("END")
    text.do(f"@{text.when('ge.u32', block.warp, product.keepers)} bra {others}")
    staging = Staging(block)
    tcgen05.fetch(block, staging, columns)
    text.do("tcgen05.fence::before_thread_sync")
    store(block, staging)
    text.do(f"bra {end}")
    text.place(others)
    issue = text.label("MULTIPLY")
    text.do(f"@{text.when('ne.u32', block.warp, loader)} bra {issue}")
    _one_thread(block, loader, end, fill)
    text.do(f"bra {end}")
    text.place(issue)
    _one_thread(block, issuer, end, lambda block: tcgen05.issue(block, columns))
    text.place(end)
    text.do(f"bar.warp.sync {EVERY_LANE}")
    text.do("bar.sync 0")
    text.do("tcgen05.fence::after_thread_sync")
    text.do(f"@{text.when('ne.u32', block.warp, issuer)} bra FREED")
    tcgen05.free(block, columns)
    text.place("FREED")


def _one_thread(block: Block, warp: int, end: str, work: Callable[[Block], None]) -> None:
    """Let one thread of a warp work; all other threads go to `end`."""
    text = block.text
    other = text.put("sub.u32", block.warp, warp)
    text.do(f"@{text.when('ne.u32', text.put('or.b32', other, block.lane), 0)} bra {end}")
    work(block)
