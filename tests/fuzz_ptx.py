"""Foreign and broken PTX without end: `texts(rng)` yields texts of which every reader must make an answer or an error.

Real kernels (tests/data and this library's own printer) with their tokens, lines and numbers garbled; kernels of random
instructions; and noise that knows no grammar. `python tests/fuzz_ptx.py SEED COUNT` asks the readers, within
10 s of processor time each.

    python tests/fuzz_ptx.py SEED COUNT --keep FOLDER        also writes what fails to FOLDER
    python tests/fuzz_ptx.py SEED COUNT --foreign FOLDER     garbles and mixes only the kernels below FOLDER
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import legalsat as ls
from legalsat.analyses.ptx.text import chip_of
from legalsat.errors import LegalSatError
from legalsat.targets import TARGETS

DATA = Path(__file__).parent / "data"
MOST_CHARACTERS = 400_000
SECONDS = 10.0
MIXED = 0.1

Edit = Callable[[random.Random, str], str]


def _listed(words: str, between: str = r"\s+") -> list[str]:
    return re.split(between, words.strip())


_TOKEN = re.compile(r"[%$\w]+(?:\.[\w:]+)*|\S")
_NUMBERS = (
    *_listed("""
    0 1 -1 2 3 7 8 15 16 17 31 32 33 64 127 255 256 1000 1023 1024 1025 65535 65536 232448 300000000 2147483647
    2147483648 4000000000 4294967295 4294967296 -2147483648 9223372036854775808 18446744073709551615
    18446744073709551616 0xffffffffffffffff -0 08 0x 0b2 0f3F800000 0f 0d7ff0000000000000 1e9 1.5 ٣ ² - --1 0U 1U nan
    """),
    *("9" * 5000, "0x" + "f" * 5000),
)
_WORDS = (
    *(".reg", ".shared", ".param", ".branchtargets", ".entry", ".visible", ".align", ".b32", ".b64", ".pred", ".loc"),
    *(".reqntid", ".maxntid", ".reqnctapercluster", ".explicitcluster", ".target", ".version", ".global", ".func"),
    *("{", "}", "[", "]", "(", ")", ",", ";", ":", "@", "@!", "|", "+", "-", "_", "%", "/*", "*/", "//", "<", ">", '"'),
    *("%tid.x", "%ctaid.x", "%laneid", "%clock", "%r1", "%r999", "%rd1", "%p1", "%f1", "%tid", "%tid.", "%tid.w"),
    *("%p1|%p2", "{%r1,%r2}", "{%r1}", "{}", "[%r1+", "[%r1+-4]", "[", "[]", "{,}", "{_,%r1}", "-%r1", "!%p1"),
)
_MODIFIERS = (".b3", ".b0", ".v3", ".v8", ".x3", ".x512", ".s128", ".pred", "")
# What random kernels consist of: R, D, P for registers of 32, 64 bits and predicates, A, G for addresses in shared and
# global memory, M for a box of a map, N for numbers, L for labels; V for four registers, W for a vector of two.
_TEMPLATES = _listed(
    """
    ld.shared.b32 R, A   ld.shared.v4.b32 V, A   ld.param.u64 D, [k_param_0]
    ld.param.u32 R, [k_param_1]   ld.param.v2.b32 W, [k_param_0]   ld.param.b64 D, [k_param_0+N]   ld.global.b32 R, G
    st.shared.v4.b32 A, V   st.shared.b8 A, R
    st.shared.b64 A, D   st.b32 G, R   st.async.b32 A, R, A   mov.b32 R, R   mov.b32 R, N   mov.b64 D, W   mov.b64 W, D
    mov.u32 R, %tid.x   mov.u32 R, %ctaid.x   mov.b128 D, W   add.s32 R, R, N   add.s32 R, R, R   sub.s64 D, D, D
    mul.wide.u32 D, R, N   mad.lo.s32 R, R, R, R   mul.hi.u64 D, D, D   div.u32 R, R, R   rem.s32 R, R, N
    shl.b32 R, R, N   shr.s64 D, D, R   shr.u32 R, R, R   lop3.b32 R, R, R, R, N   bfe.u32 R, R, N, N
    bfe.s64 D, D, R, N   bfi.b32 R, R, R, N, N   prmt.b32 R, R, R, N   selp.b32 R, R, R, P   setp.lt.s32 P, R, R
    setp.eq.s32 P, R, N
    setp.ne.and.b32 P, R, N, P   setp.eq.f32 P, R, R   setp.gt.u64 P, D, N   cvt.u64.u32 D, R   cvt.s8.s32 R, R
    cvta.to.shared.u64 D, D   popc.b32 R, R   clz.b32 R, R   not.pred P, P   and.pred P, P, P   xor.pred P, P, N
    min.s32 R, R, N   max.u64 D, D, D   abs.s64 D, D   neg.s32 R, R   and.b32 R, R, N   fns.b32 R, R, R, R
    shfl.sync.idx.b32 R|P, R, N, N, -1   vote.sync.ballot.b32 R, P, -1   elect.sync R|P, -1   activemask.b32 R
    redux.sync.add.s32 R, R, -1   match.any.sync.b32 R, R, -1   bra L   bra.uni L   brx.idx R, table   ret   exit   trap
    call.uni L   bar.sync N   barrier.sync R, N   bar.sync 0   bar.arrive N, N   bar.red.popc.u32 R, N, P
    bar.warp.sync N   barrier.cluster.arrive   barrier.cluster.wait   mapa.shared::cluster.u32 R, R, N
    griddepcontrol.wait   nanosleep.u32 N   mbarrier.init.shared::cta.b64 A, N   mbarrier.init.shared::cta.b64 A, R
    mbarrier.inval.shared.b64 A   mbarrier.arrive.shared::cta.b64 _, A   mbarrier.arrive.shared::cta.b64 D, A, N
    mbarrier.arrive.expect_tx.shared::cta.b64 _, A, N   mbarrier.expect_tx.relaxed.cta.shared.b64 A, N
    mbarrier.arrive.noComplete.shared.b64 D, A, N   mbarrier.try_wait.parity.shared::cta.b64 P, A, R
    mbarrier.try_wait.parity.shared::cta.b64 P, A, N   mbarrier.test_wait.shared.b64 P, A, D
    mbarrier.complete_tx.shared.b64 A, N
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes A, M, A
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group M, A
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes A, G, N, A
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 G, A, N
    cp.async.bulk.commit_group   cp.async.bulk.wait_group.read N   cp.async.cg.shared.global A, G, 16
    cp.async.ca.shared.global A, G, N   cp.async.commit_group   cp.async.wait_group N   cp.async.wait_all
    cp.async.mbarrier.arrive.noinc.shared.b64 A   fence.proxy.async.shared::cta   membar.cta
    fence.mbarrier_init.release.cluster   fence.proxy.tensormap::generic.acquire.gpu G, 128
    tensormap.replace.tile.rank.global.b1024.b32 G, N   tensormap.replace.tile.box_dim.shared::cta.b1024.b32 A, N, R
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 A, N
    wgmma.fence.sync.aligned   wgmma.commit_group.sync.aligned   wgmma.wait_group.sync.aligned N
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 V, D, D, 1, 1, 1, 0, 0
    wgmma.mma_async.sync.aligned.m64n99999999999k16.f32.bf16.bf16 V, D, D, P, 1, 1, 0, 0
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 A, N   tcgen05.dealloc.cta_group::1.sync.aligned.b32 R, N
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 A, 64   tcgen05.ld.sync.aligned.32x32b.x4.b32 V, [R]
    tcgen05.st.sync.aligned.16x64b.x2.b32 [R], V   tcgen05.wait::ld.sync.aligned
    tcgen05.mma.cta_group::1.kind::f16 [R], D, D, R, P
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 A   tcgen05.cp.cta_group::1.128x256b [R], D
    tcgen05.shift.cta_group::1.down [R]   tcgen05.fence::before_thread_sync
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 V, A   stmatrix.sync.aligned.m8n8.x1.shared.b16 A, {R}
    atom.shared.add.u32 R, A, R   red.shared.add.u32 A, R   setmaxnreg.inc.sync.aligned.u32 N
    """,
    r"\s{2,}",
)
_GARBLED = _listed(
    "ld.shared.b3 R, A   ld.shared.b0 R, A   ld.global.v4.b2147483648 V, G   st.shared.v4.b2147483648 A, V", r"\s{2,}"
)
_OPERATIONS = [one.split(" ", maxsplit=1)[0] for one in (*_TEMPLATES, *_GARBLED)]
_CLASS = re.compile(r"(?<![%.:\w])[A-Z](?!\w)")
_RIGHT = {
    "R": ("%r1", "%r2", "%r3", "%r4"),
    "D": ("%rd1", "%rd2", "%rd3"),
    "P": ("%p1", "%p2"),
    "A": ("[smem]", "[smem+8]", "[smem+1024]", "[%r1]", "[%r1+8]", "[%r2]", "[%rd2+16]"),
    "G": ("[%rd1]", "[%rd1+64]", "[%rd3]"),
    "M": ("[k_param_0, {%r1, %r2}]", "[%rd1, {%r1, %r2}]"),
    "L": ("L1", "L2", "W"),
    "V": ("{%r1, %r2, %r3, %r4}",),
    "W": ("{%r1, %r2}",),
    "N": ("0", "1", "1", "2", "4", "8", "16", "32", "64", "128", "512", "1024"),
}
_OPERANDS = _listed(
    """
    %r1   %r2   %r3   %rd1   %rd2   %p1   %p2   %tid.x   %ctaid.x   %laneid   smem   table   L1   k_param_0   [%r1]
    [%r1+8]   [%r1+-8]   [smem]   [smem+4]   [k_param_0]   [k_param_0+8]   [k_param_1]   [%rd1]   []   [%r9999]
    {%r1, %r2}   {%r1,%r2,%r3,%r1}   [%rd1, {%r1, %r2}]   [k_param_0, {%r1}]   {}   _   %p1|%p2   !%p1   -1
    """,
    r"\s{2,}",
)


@lru_cache(maxsize=1)
def bases() -> tuple[str, ...]:
    """Return the texts that are garbled: kernels of Triton, of nvcc, and of this library's own printer."""
    from small_products import PRODUCTS  # noqa: PLC0415 -- planned only where texts are drawn

    found = [p.read_text() for folder in ("ptx", "reported") for p in sorted((DATA / folder).glob("*.ptx"))]
    return (
        *found,
        *(ls.synthesize(case.gemm(), case.target, backend="ptx").emit("ptx") for case in (PRODUCTS[0], PRODUCTS[5])),
    )


def texts(rng: random.Random) -> Iterator[str]:
    """Yield texts without end; the same ones for the same state of `rng`."""
    while True:
        kind = rng.random()
        text = garbled(rng, bases()) if kind < 0.6 else _kernel(rng) if kind < 0.9 else _noise(rng)
        yield text[:MOST_CHARACTERS]


def foreign_texts(rng: random.Random, folder: Path) -> Iterator[str]:
    """Yield garbled texts of the kernels below a folder without end."""
    kernels = [path.read_text() for path in sorted(folder.rglob("*.ptx"))]
    while True:
        yield garbled(rng, kernels)


def garbled(rng: random.Random, bases: Sequence[str]) -> str:
    """Return one of the texts, perhaps with the rest of another from some line on, with edits."""
    text = rng.choice(bases)
    if rng.random() < MIXED:
        head, tail = text.split("\n"), rng.choice(bases).split("\n")
        text = "\n".join(head[: rng.randrange(len(head))] + tail[rng.randrange(len(tail)) :])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 30))):
        text = rng.choice(_EDITS)(rng, text)[:MOST_CHARACTERS]
    return text


def _some_line(edit: Callable[[random.Random, list[str], int], None]) -> Edit:
    def work(rng: random.Random, text: str) -> str:
        lines = text.split("\n")
        edit(rng, lines, rng.randrange(len(lines)))
        return "\n".join(lines)

    return work


def _drop(rng: random.Random, lines: list[str], n: int) -> None:
    del lines[n]


def _double(rng: random.Random, lines: list[str], n: int) -> None:
    lines.insert(rng.choice((n, rng.randrange(len(lines)))), lines[n])


def _exchange(rng: random.Random, lines: list[str], n: int) -> None:
    other = rng.randrange(len(lines))
    lines[n], lines[other] = lines[other], lines[n]


def _foreign(rng: random.Random, lines: list[str], n: int) -> None:
    lines.insert(n, _statement(rng))


def _some_token(pattern: str, put: Callable[[random.Random, list[str]], str]) -> Edit:
    """Edit one of a line's tokens; `put` sees all of the line's."""
    searched = re.compile(pattern)

    def work(rng: random.Random, text: str) -> str:
        lines = [(m.start(), m.end()) for m in re.finditer(r"[^\n]+", text)]
        for _ in range(4):
            if not lines:
                break
            begin, end = rng.choice(lines)
            found = [*searched.finditer(text, begin, end)]
            if found:
                one = rng.choice(found)
                return text[: one.start()] + put(rng, [m[0] for m in found]) + text[one.end() :]
        return text

    return work


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at] + rng.choice("{}[]();:,.@%$|+-_/*\\\"'<>\0\t\r\v\x85\u2028é١ 09azAZ") + text[at + rng.randrange(2) :]
    )


def _swollen(rng: random.Random, text: str) -> str:
    """Repeat a piece many times."""
    at = rng.randrange(len(text) + 1)
    piece = rng.choice(
        (text[at : at + rng.choice((1, 3, 20, 80))], rng.choice(_WORDS), "\n", " ", "{\n", _statement(rng))
    )
    return text[:at] + piece * rng.choice((10, 300, 3000, 40_000 // max(1, len(piece)))) + text[at:]


_EDITS: tuple[Edit, ...] = (
    _some_line(_drop),
    _some_line(_double),
    _some_line(_exchange),
    _some_line(_foreign),
    _some_token(_TOKEN.pattern, lambda rng, tokens: ""),
    _some_token(_TOKEN.pattern, lambda rng, tokens: f"{rng.choice(tokens)} {rng.choice(tokens)}"),
    _some_token(_TOKEN.pattern, lambda rng, tokens: rng.choice(tokens)),
    _some_token(_TOKEN.pattern, lambda rng, tokens: rng.choice(_WORDS)),
    _some_token(r"\.[a-z_0-9:]+", lambda rng, tokens: rng.choice(_MODIFIERS)),
    _some_token(r"[a-z][\w.:]{4,}", lambda rng, tokens: rng.choice(_OPERATIONS)),
    _some_token(r"\d+", lambda rng, tokens: rng.choice(_NUMBERS)),
    _some_token(r"\d+", lambda rng, tokens: rng.choice(_NUMBERS)),
    _some_token(r"[%$\w]+", lambda rng, tokens: rng.choice(_OPERANDS)),
    _character,
    _cut,
    _swollen,
)  # fmt: skip


def _statement(rng: random.Random) -> str:
    guard = rng.choice(("", "", "", "", "@%p1 ", "@!%p2 ", "@%r1 " if rng.random() < 0.1 else ""))

    def operand(found: re.Match[str]) -> str:
        wild = rng.random() < 0.03
        return rng.choice((*_OPERANDS, *_NUMBERS) if wild else _RIGHT[found[0]])

    return f"{guard}{_CLASS.sub(operand, rng.choice(_GARBLED if rng.random() < 0.01 else _TEMPLATES))};"


def _kernel(rng: random.Random) -> str:
    """Return a kernel of random instructions, with loops, a barrier and shared memory that they may mean."""
    odd = rng.random() < 0.2
    threads = rng.choice(_NUMBERS) if odd else rng.choice(("32", "128", "384", "1, 1, 1", "33, 2, 2"))
    size = rng.choice(_NUMBERS) if odd else rng.choice(("1024", "4096", "230000"))
    count = rng.choice(_NUMBERS) if odd else "8"
    lines = [_statement(rng) for _ in range(rng.choice((1, 3, 10, 40)))]
    for piece in rng.sample(_PIECES, rng.randrange(len(_PIECES))):
        at = rng.randrange(len(lines) + 1)
        lines[at:at] = piece
    for label in ("L1", "L2", "W", "table"):
        if rng.random() > 0.02 and f"{label}:" not in lines:
            at = rng.randrange(len(lines) + 1)
            lines[at:at] = [f"{label}:", *([".branchtargets L1, L2;"] if label == "table" else [])]
    body = "\n".join(lines)
    return f""".version 8.7
.target {rng.choice(("sm_90a", "sm_100a", "sm_90", "sm_80", "sm_1"))}
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .{rng.choice(("u32", "u32", "b8", "f32", "b3"))} k_param_1)
.{rng.choice(("reqntid", "reqntid", "reqntid", "maxntid"))} {threads}
{rng.choice(("", "", "", ".explicitcluster", f".reqnctapercluster {rng.choice(_NUMBERS) if odd else 1}"))}
{{
.reg .pred %p<{count}>;
.reg .b32 %r<{count}>;
.reg .b64 %rd<8>;
.shared .align {rng.choice(("8", "16", "1024", "0", "3") if odd else ("8", "1024"))} .b8 smem[{size}];
{body}
ret;
}}
"""


_PIECES: tuple[list[str], ...] = (
    ["mov.u32 %r1, smem;"],
    ["ld.param.u64 %rd1, [k_param_0];"],
    ["ld.param.u32 %r2, [k_param_1];"],
    ["mbarrier.init.shared::cta.b64 [smem], 1;", "bar.sync 0;"],
    ["W:", "mbarrier.try_wait.parity.shared::cta.b64 %p1, [smem], %r2;", "@!%p1 bra W;"],
    ["mov.u32 %r3, 0;", "L1:", "add.s32 %r3, %r3, 1;", "setp.lt.s32 %p2, %r3, %r2;", "@%p2 bra L1;"],
    ["table:", ".branchtargets L1, L2;", "brx.idx %r2, table;"],
    ["and.b32 %r1, %r1, 1016;", "add.s32 %r1, %r1, smem;"],
    ["mov.u32 %r4, %tid.x;", "setp.eq.s32 %p1, %r4, 0;"],
    ["{", ".reg .b32 %q<4>;", "mov.b32 %q1, %tid.x;", "mov.b32 %r1, %q1;", "}"],
    ["mbarrier.arrive.expect_tx.shared::cta.b64 _, [smem], 512;"],
    ["cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem+16], [%rd1], 512, [smem];"],
)  # fmt: skip


def _noise(rng: random.Random) -> str:
    head = rng.choice(
        ("", ".version 8.7\n.target sm_90a\n", ".version 8.7\n.target sm_90a\n.entry k() .reqntid 32 {\n")
    )
    kind = rng.randrange(4)
    if kind == 0:
        return head + "".join(
            chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) for _ in range(rng.randrange(400))
        )
    if kind == 1:
        return head + " ".join(
            rng.choice((*_WORDS, *_NUMBERS, *_OPERANDS, *_OPERATIONS)) for _ in range(rng.randrange(200))
        )
    count = rng.choice((100, 8_000, 80_000))
    if kind == 2:
        return (
            head
            + rng.choice((*_WORDS, "\n", "\n ", ".\n", "L:", "a ", "a,", "{a}", "{L:", "{.reg .b32 %q<9>;", "ret;"))
            * count
        )
    one, other = rng.choice(_WORDS), rng.choice(_WORDS)
    return head + one * count + other * count


def ask(text: str, taken: list[float] | None = None) -> str:
    """Ask the readers of PTX; return what they say, or raise what they may not.

    Args:
        text: for them.
        taken: seconds of processor time, to which those of each reader are added.

    Raises:
        Exception: whatever is no `LegalSatError`.
    """
    chip = chip_of(text)
    gpu = chip if chip in TARGETS else "h200"
    said = []
    for reader in (ls.check_pipeline, lambda one: ls.explain(one, gpu)):
        started = time.process_time()
        try:
            said.append(str(reader(text)))
        except LegalSatError as error:
            said.append(f"{type(error).__name__}: {error}")
        if taken is not None:
            taken.append(time.process_time() - started)
    return "\n".join(said)


def main() -> int:
    """Ask the readers of so many texts; print and keep what fails."""
    parser = argparse.ArgumentParser(description="Ask the readers of PTX for what garbled texts mean.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--keep", type=Path, help="folder for texts that fail")
    parser.add_argument("--foreign", type=Path, help="folder of kernels to garble, instead of those of the tests")
    given = parser.parse_args()
    failed, worst, rng = 0, 0.0, random.Random(given.seed)
    drawn = texts(rng) if given.foreign is None else foreign_texts(rng, given.foreign)
    for number in range(given.count):
        text, each, why = next(drawn), list[float](), ""
        if given.keep is not None:
            (given.keep / f"under_way_{given.seed}.ptx").write_text(text, errors="surrogatepass")
        try:
            ask(text, each)
        except Exception as error:  # all that escapes is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {str(error)[:100]}"
        taken = max(each, default=0.0)
        worst = max(worst, taken)
        why = why or (f"{taken:.1f} s" if taken > SECONDS else "")
        if why:
            failed += 1
            print(f"text {number}: {why}", flush=True)
            if given.keep is not None:
                (given.keep / f"failed_{given.seed}_{number}.ptx").write_text(text, errors="surrogatepass")
    print(f"{given.count} texts of seed {given.seed}: {failed} failed, the longest took {worst:.2f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
