"""What lines say of barriers, fences, registers that warps hand over, and blocks of a cluster.

Rows like those of `legalsat.pasted.tables.cause_table`, tried before them.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Cause

# What tells of a race by what hides it.
_TIME_CURES = (
    r"(?:nanosleep|\b(?:add\w*|insert\w*|put\w*|with an?|after an?)\b.{0,40}(?:\bsleep|printf|\bprint\b|delay|"
    r"device_?synchronize|__syncthreads|sync_threads))\b.{0,160}"
    r"\b(?:pass(?:es)?|works?|correct(?:ly)?|fine|disappears?|goes away|gone|vanish\w*|right|resolves?|fixes)\b"
)
PROTOCOL_CAUSES = (
    Cause(
        "TOOL003",
        r"\bregisters?\b|setmaxn?reg\w*|reg_(?:de)?alloc",
        r"exceed|over-?subscri|too many|not enough|insufficient|hang|deadlock|stuck|cannot proceed|only accepts|"
        r"must be|more .{0,20}than|out of|run out|no (?:more )?registers|fail\w* to launch|launch fail",
        "more registers are asked for than there are: by the threads of a block together, or by setmaxnreg than its "
        "warps began with",
        "take fewer threads, or say __launch_bounds__; with setmaxnreg 24 to 256 in steps of 8 for each warpgroup, all "
        "of them together no more than the block begins with, and give some back before others take more",
        unless=r"spill(?!.{0,40}fail)|descriptor|warning: unused|register (?:tile|vector|layout|shape|array|bitwidth)|"
        r"accumulator register|registers? for a\b",
    ),
    Cause(
        "PIPE024",
        r"mbarrier|barrier",
        r"\binval\b|invalidat|re-?init\w*",
        "a barrier's memory is used again while it is a barrier",
        "invalidate it after the last wait of all threads",
        unless=r"cache|proxy",
    ),
    Cause(
        "PIPE009",
        r"smem|shared|stage|buffer|barrier|tile|racecheck",
        r"\braw hazard|read[- ]after[- ]write",
        "one stage is read before what it holds is written",
        "let every thread that wrote the stage arrive at its barrier, and wait for that barrier before the read",
        unless=r"proxy|\bwar\b|write[- ]after[- ]read",
    ),
    Cause(
        "PIPE008",
        r"racecheck|(?:\bwar|\bwaw) hazard|data race|race condition|stale read|"
        r"(?:silently |\bit )races\b|\bracy\b",
        r"smem|shared|stage|buffer|barrier|\bmma|wgmma|tma\b|umma|tile|arrive|pipeline|load",
        "one stage is read while others still write it, or the other way round",
        "let every thread that wrote or read the stage arrive at its barrier, and wait for that barrier before the "
        "next use",
        unless=r"proxy|^(?!.*\b(?:war|write[- ]after[- ]read)\b).*\braw hazard",
    ),
    Cause(
        "PIPE010",
        r"(?:async|generic)[- ]?proxy|proxy fence|fence[._ ]proxy|fence_view_async|fence_async",
        r"missing|without|\brac(?:e|es|ing)\b|lack|omit|forg[eo]t|stale|(?:not|n't) (?:order|visible|establish|fence|"
        r"synchroni|wait|bridge)|required before",
        "shared memory that ordinary stores wrote is read by the copy engine or the matrix unit with no proxy fence "
        "between",
        "after the last ordinary store, let every writing thread execute fence.proxy.async, then a barrier, and only "
        "then issue the copy or the multiply",
    ),
    Cause(
        "PIPE010",
        r"s2g|tma[ _]?stores?|bulk.{0,60}store|store.{0,60}bulk|shared::cta|stmatrix",
        rf"{_TIME_CURES}",
        "a copy from shared memory is right only once time has passed: ordinary stores that it reads are not ordered "
        "before it, as by a proxy fence",
        "after the last ordinary store, let every writing thread execute fence.proxy.async, then a barrier, and only "
        "then issue the copy",
        unless=r"time.?out|retry",
    ),
    Cause(
        "PIPE009",
        r"smem|shared mem|stage|barrier|mma\b|tma\b|tcgen05|pipeline|kernel",
        rf"{_TIME_CURES}",
        "the result is right only once time has passed: something is read before what it depends on is complete",
        "wait for the barrier, the group or the fence that the reads depend on; `legalsat check kernel.ptx` names it",
        unless=r"time.?out|retry|server|http|process",
    ),
    Cause(
        "PIPE009",
        r"barrier\b|_?sync(?:_?threads|_?warp|hroni[sz]ation)\b",
        r"\b(?:no|missing|without(?: an?)?|lacks?(?: an?)?|forg[eo]t\w*|omit\w*|never)(?: \w+){0,2} "
        r"(?:named |cluster )?(?:barrier|__syncthreads|sync_?threads|sync_?warp|synchroni[sz]ation)\b",
        "threads read what others write with no barrier between, or write it again",
        "let all threads that write and that read meet at a barrier between the one and the other, and again before "
        "the memory is written anew",
        unless=r"cluster|fence|proxy|nccl|rank|host|stream|device_?synchroni|process",
    ),
    Cause(
        "PIPE015",
        r"cluster|dsmem|distributed shared|peer|remote",
        r"(?:target|peer) (?:block|cta) not present|(?:exit|leav|retir|terminat|finish)\w* (?:\w+ ){0,3}"
        r"(?:early|before|while|first)|(?:has|have|already|had) (?:already )?(?:exited|left|ended|departed)|"
        r"exited (?:peer|cta|block)",
        "a CTA of a cluster ends while another still reads, writes or arrives in its shared memory",
        "let all CTAs of the cluster meet at a cluster barrier before any of them ends",
        unless=r"node|slurm|rank|process|kubernetes",
    ),
    Cause(
        "PIPE014",
        r"\bkernels?\b|\bblocks?\b|\bctas?\b|\bcop(?:y|ies)\b|bulk|tma",
        r"\b(?:exit|end|return|terminat|finish|leav|quit)\w* (?:\w+ ){0,3}(?:without|before) (?:[\w'`]+ ){0,5}?(?:wait|"
        r"observ|complet|drain|semaphore|fence|cp\.async\.bulk\.wait)",
        "a kernel ends while its copies are still under way",
        "wait for the copies (cp.async.bulk.wait_group 0, or the barrier's last phase) before the kernel ends",
        unless=r"\bnode\b|slurm|process(?:es)?\b|kubernetes|\bhost\b|\bcpu\b|launch",
    ),
    Cause(
        "PIPE004",
        r"m?barrier",
        r"local (?:m?barrier )?arriv\w+ .{0,40}remote|arriv\w+ .{0,60}remote .{0,40}(?:local|shared::cta|\.shared\b)",
        "an arrival at the barrier of another CTA is executed in the form for a CTA's own barriers, so that it does "
        "not count there",
        "map the address with mapa and arrive in the form .shared::cluster (cuda::ptx's space_cluster)",
    ),
    Cause(
        "PIPE006",
        r"\b(?:cop(?:y|ies)|loads?)\b",
        r"(?:comment\w*|remov\w*|delet\w*|skip\w*|leav\w*|left)\b.{0,60}\b(?:cop(?:y|ies)|loads?)\b.{0,80}"
        r"(?:hang|stuck|dead-?lock)|(?:cop(?:y|ies)|loads?)\b.{0,60}(?:comment\w*|remov\w*|delet\w*|skip\w*|left out)"
        r"\b.{0,80}(?:hang|stuck|dead-?lock)",
        "the barrier is told the bytes of every copy, so that a phase in which one is left out never completes",
        "tell the barrier the bytes of the copies that are issued, and no more",
        unless=r"disk|file|checkpoint|model|weights|download|host",
    ),
    Cause(
        "PIPE008",
        r"multicast|receiver|mcast",
        r"corrupt|mismatch|wrong|garbage|stale|incorrect",
        "a multicast writes into the shared memory of CTAs that are not ready for it: their buffers are still read, "
        "or their barriers are not yet initialised or told the bytes",
        "let every receiver release its buffer at the barrier of the CTA that issues the copy, and expect the bytes at "
        "its own barrier; initialise all barriers before a cluster barrier",
        unless=r"udp|igmp|network|packet",
    ),
    Cause(
        "PIPE013",
        r"tma_?store|bulk.{0,40}stores?|store_wait|bulk\.wait_group|wait_group",
        r"(?:same|one) .{0,30}(?:buffer|stage|smem|shared)|(?:still|may be|are) in[- ]?flight|"
        r"(?:reus|overwrit|reissu)\w* .{0,60}before",
        "shared memory is written again while a bulk store still reads it",
        "wait for the store's own group (cp.async.bulk.wait_group.read 0, or one that leaves only later groups open) "
        "before anything writes its buffer",
    ),
    Cause(
        "PIPE007",
        r"mbarrier|barrier|pipeline|producer|consumer|\btma\b",
        r"time[d]?[ -]?out|deadlock|hang|hung|stuck|never complet",
        "a thread waits at a barrier for a phase that never completes, or that it missed",
        "count arrivals and the bytes of every copy for each phase, and check the parity of every wait, with "
        "`legalsat check kernel.ptx`",
        unless=r"nccl|watchdog|heartbeat|http|rpc",
    ),
    Cause(
        "TOOL016",
        r"\b(?:torch|at|jnp|np|cp|cupy)(?:\.|::)empty(?:_strided|_like)?\b|\bempty_strided\b|"
        r"\buninitiali[sz]ed (?:mem|buf)",
        r"\bpad|\btails?\b|more (?:rows|columns|elements)|only (?:writes?|fills?|the)|writes? .{0,80}\bonly\b|"
        r"\binactive|\bgarbage|\bfull\b|"
        r"(?:never|not) (?:written|zeroed|cleared|initiali)",
        "a buffer that is allocated without zeros is not written whole before it is read",
        "write or clear all that is read: rows and columns of padding, tails, what inactive rows leave",
        unless=r"zeros?\(|zero_\(|fill_\(|\bcpu\b",
    ),
)
