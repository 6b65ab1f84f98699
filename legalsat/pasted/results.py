"""CUresults: what each usually means for kernels that use the copy engine and the matrix units.

One rule a result, so that they say and quote like all others; `legalsat rule CUDA700` shows one's page. No site of a
plan meets them: they judge a call that has failed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.rule import Requirements, Source, Unit, require, rules_in
from legalsat.targets import Target

DRIVER = Unit("driver", lambda target: target)
SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 0, 1, 801


class Result(NamedTuple):
    """One CUresult: its names in the driver and in the runtime, and what cuGetErrorString says.

    And how compute-sanitizer and cuda-gdb report the same thing, as a regular expression; empty if they do not.
    """

    number: int
    name: str
    runtime_name: str
    text: str
    tools_say: str = ""


RESULTS = (
    Result(1, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument", r"CUDA: Error- invalid value"),
    Result(2, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory"),
    Result(
        222,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "cudaErrorUnsupportedPtxVersion",
        "the provided PTX was compiled with an unsupported toolchain",
        "PTX was compiled with an unsupported toolchain|Unsupported PTX version",
    ),
    Result(
        700,
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "cudaErrorIllegalAddress",
        "an illegal memory access was encountered",
        r"Warp (?:Illegal|Out-of-range) Address|Address 0x[0-9a-fA-F]{1,16} is out of bounds|"
        r"Invalid __(?:shared|local)__ (?:read|write|atomic)|Out-of-range Shared or Local Address|"
        r"CUDBG_EXCEPTION_(?:WARP|LANE)_(?:ILLEGAL|OUT_OF_RANGE)_ADDRESS|"
        r"Illegal Memory Access|illegal memory(?! access was)(?: access(?:es)?)?|"
        r"CUDA invalid memory access|[Mm]emory access fault|Out Of Range Address|CUDA: Error- illegal address|"
        "HSA_STATUS_ERROR_MEMORY_(?:APERTURE_VIOLATION|FAULT)",
    ),
    Result(702, "CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout", "the launch timed out and was terminated"),
    Result(
        715,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "cudaErrorIllegalInstruction",
        "an illegal instruction was encountered",
        r"Warp Illegal Instruction|\bIllegalInstruction\b|(?<=with an )illegal instruction(?! ?\(core)|"
        "illegal instruction (?:error|fault|exception)s?|"
        "CUDBG_EXCEPTION_WARP_ILLEGAL_INSTRUCTION|HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
    ),
    Result(
        716,
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "cudaErrorMisalignedAddress",
        "misaligned address",
        r"(?:Warp )?Misaligned Address|[Aa]ddress (?:is )?misaligned|Misaligned shared or local address|"
        r"Address 0x[0-9a-fA-F]{1,16} is misaligned|CUDBG_EXCEPTION_(?:WARP|LANE)_MISALIGNED_ADDRESS|"
        r"[Mm]isaligned (?:read|write|load|store|access)",
    ),
    Result(
        719,
        "CUDA_ERROR_LAUNCH_FAILED",
        "cudaErrorLaunchFailure",
        "unspecified launch failure",
        "HSA_STATUS_ERROR_EXCEPTION",
    ),
    Result(
        720,
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "cudaErrorCooperativeLaunchTooLarge",
        "too many blocks in cooperative launch",
        "hipErrorCooperativeLaunchTooLarge|ERROR_COOPERATIVE_LAUNCH_TOO_LARGE|[Tt]oo many blocks in cooperative launch",
    ),
    Result(801, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported", "operation not supported"),
    Result(999, "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "unknown error"),
)
_UNMISTAKABLE = (700, 715, 719)  # whose words nobody else says, so that a line of its own is enough
_BY_NUMBER = {result.number: result for result in RESULTS}
_SAME_ERROR = "any further CUDA work will return the same error"
# What a map can have to do with any of them. The driver checks the maps that it encodes; nobody checks those that a
# kernel makes or edits, nor whether a map still is its tensor's.
_MAPS = (
    "tensor maps, above all those that the device made, which nobody checks: base pointer and strides are multiples of "
    "16 bytes, those of axes of one element too; no extent is 0; none is stale, of a tensor that was freed, moved or "
    "reshaped since; the CUtensorMap itself lies at a multiple of 64 bytes, and is a __grid_constant__ parameter, no "
    "copy of one, or fenced (fence.proxy.tensormap) once it was made, changed or copied"
)
_OPERANDS = "operands of wgmma and tcgen05: the majors, swizzles and offsets that these are told are their tiles' own"


def _look_at(target: Target, *causes: str) -> str:
    """Return the help of a result that a kernel left behind: what of `target` to look at, the most frequent first."""
    lacks = {_MAPS: target.tma is None, _OPERANDS: target.wgmma is None and target.tcgen05 is None}
    has = [cause for cause in causes if not lacks.get(cause)]
    listed = "; ".join(f"({number}) {cause}" for number, cause in enumerate(has, start=1))
    return f"find the kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer, then check its {listed}"


@dataclass(frozen=True, slots=True, eq=False)
class FailedCall:
    """A call that returned a CUresult: `encodes` if it was to encode a tensor map, whose `address` may be known.

    `launches` if it was to launch a kernel.
    """

    result: int
    encodes: bool = False
    address: int | None = None
    launches: bool = False

    @property
    def call(self) -> str:
        """What was called, in words."""
        return "the encode call" if self.encodes else "the call"

    @property
    def blame(self) -> str:
        """Who is to blame for a result that kernels leave behind."""
        return "an earlier kernel, not the encode call," if self.encodes else "a kernel that ran before the call"

    def __str__(self) -> str:
        return f"{self.call}, which returned {_BY_NUMBER[self.result].name}"


def _source(number: int, quote: str) -> Source:
    return Source(f"cuda.h 13.0, {_BY_NUMBER[number].name}", "result").saying(quote)


@DRIVER.rule(
    "CUDA001",
    _source(1, "one or more of the parameters passed to the API call is not within an acceptable range of values"),
    refused_by="driver",
)
def invalid_value(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_INVALID_VALUE, 1: an argument is out of range, and the driver does not say which.

    From the encode call it means the tensor map's own fields; no other call and no kernel is to blame. Give the fields
    to `legalsat explain`, and it names the one. A null address for an operand that is absent is a common cause: drivers
    of CUDA 13.0 accept it, and public reports have it refused by older ones. From a launch it means more shared
    memory, threads or blocks of a cluster than the kernel's limits allow.
    """
    accepted = call.result != INVALID_VALUE
    if call.launches:
        yield require(
            accepted,
            "the launch is larger than the kernel or the GPU takes: 1024 threads of a block, {y_and_z} blocks along "
            "y and "
            "z of the grid, {shared} bytes of shared memory, which a kernel asks for before it is launched",
            help="compare the grid, the block, the shared memory and the cluster of the launch with these limits; "
            "put the "
            "longest axis along x",
            y_and_z=65535,
            shared=target.shared_bytes_per_block,
        )
    elif call.address is None:
        yield require(
            accepted,
            "an argument of {call} is out of range",
            help="paste the tensor map's fields too, which programs print beside the error; of a launch, check shared "
            "memory, threads, cluster and grid, 65535 blocks along y and z, against their limits",
            call=call.call,
        )
    elif call.address == 0:
        yield require(
            accepted,
            "the encode call was given the null address, and its other fields are what drivers accept",
            help="encode no map for an operand that is absent or empty, or pass the address of one that is there",
        )
    else:
        yield require(
            accepted,
            "the encode call refused the map, and its fields are what the driver of {target} accepts",
            help="explain it for the GPU that refused it, and make sure that what was printed is what was passed",
            target=target,
        )


@DRIVER.rule("CUDA002", _source(2, "unable to allocate enough memory or other resources"), refused_by="driver")
def out_of_memory(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_OUT_OF_MEMORY, 2: an allocation failed.

    The encode call allocates nothing; there it is left over from an earlier call (FACTS M-20), such as the creation of
    a context or the loading of a kernel on a GPU that is full.
    """
    yield require(
        call.result != 2,
        "memory ran out{encode}",
        help="free memory or take smaller batches, and check the result of every call before this one",
        encode=" in an earlier call: encoding a map allocates none" * call.encodes,
    )


@DRIVER.rule(
    "CUDA222",
    _source(222, "the provided PTX was compiled with an unsupported toolchain"),
    refused_by="driver",
)
def unsupported_ptx_version(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222: the PTX is of a newer version than what compiles it knows.

    The first directive of PTX, `.version`, is the toolkit's that wrote it, and the driver compiles versions up to its
    own CUDA's alone; `nvidia-smi` prints which CUDA that is. ptxas of an older toolkit refuses the same text as an
    unsupported `.version`. The architecture is another matter (TOOL004), and so is the kernel itself: a cubin, SASS
    for the GPU at hand, is not compiled again, and older drivers of the same major version of CUDA load it.
    """
    yield require(
        call.result != 222,
        "the driver was given PTX of a newer version than it compiles{encode}",
        help="update the driver to the CUDA of the toolkit that wrote the PTX, or build with a toolkit no newer than "
        "the driver's CUDA (nvidia-smi prints it), or ship a cubin for the GPU that is there (nvcc -gencode "
        "arch=compute_X,code=sm_X; ptxas), which the driver does not compile",
        encode=" in an earlier call, not the encode call: that loads none" * call.encodes,
    )


@DRIVER.rule(
    "CUDA700",
    _source(700, f"a load or store instruction on an invalid memory address ... {_SAME_ERROR}"),
    refused_by="hardware",
)
def illegal_address(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_ILLEGAL_ADDRESS, 700: a kernel touched memory that is not there; every later call repeats it.

    The call that reports it, such as the next encode call, is innocent. In kernels that use tensor maps look for a
    tensor that was freed while a map still held its address, a map made for another tensor's shape or strides, offsets
    that overflow 32 bits, a CUtensorMap in host memory that the kernel was given by pointer, one that was copied into a
    local variable, and loads by threads beside the copies, as of scales, that run past the end in the last tile:
    nothing clips those. A map that the device makes is checked by nobody: an extent of 0 or the stride of an axis of
    one element, which frameworks leave at anything, goes to the hardware as it is.
    """
    yield require(
        call.result != 700,
        "{blame} read or wrote an invalid address, and every call since returns this",
        help=_look_at(
            target,
            "addresses: tensors outlive their maps, and no offset overflows 32 bits",
            _MAPS,
            "loads by threads, as of scales and biases, which the copy engine does not clip: these "
            "stop where their array ends",
            "shared memory: boxes and barriers stay inside of what the launch asked for",
        ),
        blame=call.blame,
    )


@DRIVER.rule(
    "CUDA702", _source(702, f"the device kernel took too long to execute ... {_SAME_ERROR}"), refused_by="hardware"
)
def launch_timeout(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_LAUNCH_TIMEOUT, 702: a kernel was ended because it ran too long, most often because it hung.

    A kernel hangs at a barrier whose bytes or arrivals never come: the copy counts other bytes than were expected, a
    role arrives too rarely, or waits for the wrong phase.
    """
    yield require(
        call.result != 702,
        "{blame} ran until it was ended, as one does that waits at a barrier for ever",
        help="check its barriers with `legalsat check kernel.ptx` (PIPE004, PIPE006, PIPE007)",
        blame=call.blame,
    )


@DRIVER.rule(
    "CUDA715", _source(715, f"the device encountered an illegal instruction ... {_SAME_ERROR}"), refused_by="hardware"
)
def illegal_instruction(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_ILLEGAL_INSTRUCTION, 715: a kernel executed what the hardware refuses; every later call repeats it.

    It is how the copy engine reports a bad request. Measured on an H200 (FACTS M-12): an innermost coordinate whose
    bytes are no multiple of 16, in loads and stores alike, and a negative coordinate of a store. Reported besides: a
    reduction of a type that the copy engine does not add, such as 16-bit integers; a tensor map that was overwritten,
    made or edited on the device into an illegal one, or not fenced after that; and tcgen05 with an instruction
    descriptor that its kind has not.
    """
    yield require(
        call.result != 715,
        "{blame} executed an instruction that the hardware refuses, and every call since returns this",
        help=_look_at(
            target,
            "coordinates: the innermost times the element size is a multiple of 16 bytes; none is negative in stores",
            _MAPS,
            "types: those of its maps and of its reductions exist on {target}, for which it was built",
            _OPERANDS,
        ),
        blame=call.blame,
        target=target,
    )


@DRIVER.rule(
    "CUDA716",
    _source(716, f"a load or store instruction on a memory address which is not aligned ... {_SAME_ERROR}"),
    refused_by="hardware",
)
def misaligned_address(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_MISALIGNED_ADDRESS, 716: a kernel used an address that is not aligned; every later call repeats it.

    Measured on an H200 (FACTS M-11): a box whose shared memory does not begin at a multiple of 128 bytes, whatever the
    swizzle (rule TMA027). Others are barriers at no multiple of 8 bytes (PIPE025) and vectors at no multiple of their
    size (VEC002), 16 bytes for cp.async.bulk; a CUtensorMap at no multiple of 64 bytes, as on a stack; and public
    reports have it of tcgen05.mma and tcgen05.cp whose operands do not lie as their descriptors say.
    """
    yield require(
        call.result != 716,
        "{blame} used an address that is not aligned, and every call since returns this",
        help=_look_at(
            target,
            "alignments: each buffer of a box begins at a multiple of 128 bytes of shared memory, each barrier at one "
            "of 8, each vector or bulk copy at one of its size, 16 bytes at most, in global memory too",
            _MAPS,
            _OPERANDS,
        ),
        blame=call.blame,
    )


@DRIVER.rule(
    "CUDA719",
    _source(719, f"An exception occurred on the device while executing a kernel ... {_SAME_ERROR}"),
    refused_by="hardware",
)
def launch_failed(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_LAUNCH_FAILED, 719: a kernel raised an exception of no other name; every later call repeats it.

    Public reports have it of barriers that were used before they were initialised (rule PIPE001) or got more arrivals
    than they count, as after a wait for the wrong phase (PIPE005, PIPE007), of tensor memory freed before the peer
    block had allocated (TMEM018, TMEM019), and of shared memory accessed out of bounds.
    """
    yield require(
        call.result != 719,
        "{blame} raised an exception, and every call since returns this",
        help=_look_at(
            target,
            "barriers, with `legalsat check kernel.ptx`: every barrier is initialised before its use, gets as many "
            "arrivals as it counts, and is waited for by the parity of its phase, which flips each time round the ring",
            "tensor memory, allocated and freed by both blocks of a pair in step; clusters: no block ends while "
            "another still writes to it",
            _MAPS,
            _OPERANDS,
        ),
        blame=call.blame,
    )


@DRIVER.rule(
    "CUDA720",
    _source(720, "exceeds the maximum number of blocks as allowed by ::cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    refused_by="driver",
)
def blocks_not_resident(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720: a cooperative grid has more blocks than run at the same time.

    All of its blocks wait for one another at the grid's barrier, so all have to be resident at once: as many as an SM
    holds of this kernel, by its threads, registers and shared memory, times the SMs. A kernel compiled for debugging
    takes more registers, another GPU has fewer SMs, and a cluster is resident as a whole. An ordinary launch is not
    checked: with more blocks than that a grid barrier of its own hangs, since blocks that wait leave no room for those
    that are still to come.
    """
    yield require(
        call.result != 720,
        "the cooperative grid has more blocks than are resident at once{encode}",
        help="launch as many blocks as cudaOccupancyMaxActiveBlocksPerMultiprocessor gives for this kernel, its block "
        "and its dynamic shared memory, times the SMs of the GPU, and let each loop over the work; or take smaller "
        "blocks, fewer registers or less shared memory",
        encode=": an earlier call, not the encode call, launched it" * call.encodes,
    )


@DRIVER.rule("CUDA801", _source(801, "not supported on the current system or device"), refused_by="driver")
def not_supported(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_NOT_SUPPORTED, 801: the GPU or its driver lacks what was asked for.

    The encode call returns it where there is no tensor memory accelerator, so before compute capability 9.0 (rule
    UNIT001): the program chose a kernel for another GPU.
    """
    yield require(
        call.result != NOT_SUPPORTED,
        "{call} needs what the GPU or its driver lacks{encode}",
        help="choose a kernel for the GPU that is there: maps need compute capability 9.0 or more, wgmma sm_90a, "
        "tcgen05 sm_100a, sm_103a or sm_110a",
        call=call.call,
        encode=": a tensor memory accelerator" * call.encodes,
    )


@DRIVER.rule("CUDA999", _source(999, "an unknown internal error has occurred"), refused_by="hardware")
def unknown_error(call: FailedCall, target: Target) -> Requirements:
    """CUDA_ERROR_UNKNOWN, 999: the driver has no name for what happened; it is usually left by an earlier kernel.

    Public reports have it from encode calls whose arguments were all in range (FACTS M-20).
    """
    yield require(
        call.result != 999,
        "{blame} most likely left an error without a name behind",
        help="find the kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer, and look for the GPU's messages (Xid) "
        "in the system log",
        blame=call.blame,
    )


RESULT_RULES = rules_in(sys.modules[__name__])

_LEFT_BEHIND = frozenset(_BY_NUMBER) - {INVALID_VALUE, NOT_SUPPORTED}
_NUMBERED = re.compile(
    r"(?P<encodes>TMA descriptor(?:,? error code:?)?)\s+(?P<encoded>\d{1,5})\b"
    r"|\b(?:(?P<sure>CUresult|(?:cuda|hip)Error(?:_t)?|(?:CUDA(?: driver)?|HIP) error|HIP\]:\s{0,4}Code)"
    r"|error code|\(error)\s*[:=#(]?\s*"
    r"(?P<number>\d{1,5})\b"
    r"|\b(?P<call>cu(?:da)?[A-Z]\w{3,60})(?:\([^()\n]{0,200}\))? (?:returned|returns|gives|gave|is|was|==?|-> ?)"
    r"(?: (?:code|error|value|status))? ?(?P<returned>\d{1,5})\b(?![.\w])",
    re.IGNORECASE,
)
_ENCODES = re.compile(r"TMA desc|tensor ?_?map", re.IGNORECASE)
_LAUNCHES = re.compile(r"\bcu\w*Launch(?:Cooperative)?Kernel\w*|\w*Enqueue(?:Kernel\w*|\w*Launch\w*)|cudaLaunch\w*")
_MOST_RESULTS, _NEAR = 200, 300  # of one text, and characters of a long line
_ERROR_OF_CUDA = re.compile(r"cuda.{0,60}error", re.IGNORECASE)
_OF_CUDA = re.compile(
    r"cuda|\bhip\b|tma|tensor ?map|launch\w* .{0,20}kernel|kernel .{0,20}(?:launch|error|fail)|cuLaunch|"
    r"bytes requested|"
    r"copy_?atom|\bgpu\b|compute-sanitizer|"
    r"\bcause[sd]?\b|\bloads?\b|\bstores?\b|\bkernels?\b",
    re.IGNORECASE,
)


class Returned(NamedTuple):
    """A CUresult in a text: its number, whether an encode call returned it, where it stands, and if a launch did."""

    number: int
    encodes: bool
    at: int
    launches: bool = False


def left_behind(number: int) -> bool:
    """Whether an encode call that returns this is innocent: something before it failed (FACTS M-20)."""
    return number in _LEFT_BEHIND


def returned_results(text: str) -> list[Returned]:
    """Return the CUresults that a text names: by number, by the driver's or the runtime's name, or in words.

    A number counts alone or where the text says that it is a result; words count alone or on a line about CUDA. Of many
    the first ones are returned.

    Raises:
        InvalidInput: the text is a number, and no result that is known here.
    """
    alone = text.strip()
    if re.fullmatch(r"\d{1,5}", alone) or (match := re.fullmatch(r"CUresult (\d{1,5})", alone)):
        return [Returned(_known(int(alone.rpartition(" ")[2])), False, 0)]
    found = []
    for match in islice(_NUMBERED.finditer(text), _MOST_RESULTS):
        number = int(match["encoded"] or match["number"] or match["returned"])
        # An exit code is an error code too, and most often 1 or 2.
        sure = (
            match["encoded"]
            or match["sure"]
            or match["call"]
            or number > 2
            or _OF_CUDA.search(_line(text, match.start()))
        )
        if number in _BY_NUMBER and (sure or match[0] == alone):
            call = match["call"] or ""
            encodes = match["encodes"] is not None or _ENCODES.search(call) is not None
            found.append(Returned(number, encodes, match.start(), _LAUNCHES.search(call) is not None))
    for result in RESULTS:
        runtimes = f"(?:cuda|hip){result.runtime_name.removeprefix('cuda')}"
        names = "|".join(filter(None, (result.name, runtimes, result.tools_say)))
        places = [match.start() for match in islice(re.finditer(rf"\b(?:{names})\b", text), _MOST_RESULTS)]
        for match in islice(re.finditer(re.escape(result.text), text, re.IGNORECASE), _MOST_RESULTS):
            own = _line(text, match.start()).strip().lower() == match[0].lower() and result.number in _UNMISTAKABLE
            if own or match[0].lower() == alone.lower() or _OF_CUDA.search(_said_before(text, match)):
                places.append(match.start())
        for at in places:
            encodes = _ENCODES.search(_line(text, at)) is not None
            near = text[max(at - _NEAR, 0) : at + _NEAR]
            found.append(Returned(result.number, encodes, at, not encodes and _LAUNCHES.search(near) is not None))
    return sorted(found, key=lambda returned: returned.at)


def _line(text: str, at: int) -> str:
    """Return the line around a place, of a very long one what is near."""
    before, after = text[max(at - _NEAR, 0) : at], text[at : at + _NEAR]
    return before.rpartition("\n")[2] + after.partition("\n")[0]


def _said_before(text: str, match: re.Match[str]) -> str:
    """Return the line around a result's words; where they end it, a line before that tells of CUDA's error as well."""
    line = _line(text, match.start())
    if not line.rstrip().lower().endswith(match[0].lower()):
        return line
    above = text[max(match.start() - 2 * _NEAR, 0) : match.start()].rpartition("\n")[0].rpartition("\n")[2]
    return f"{above} {line}" if _ERROR_OF_CUDA.search(above) else line


def _known(number: int) -> int:
    if number in _BY_NUMBER:
        return number
    numbers = ", ".join(map(str, _BY_NUMBER))
    if number == SUCCESS:
        raise InvalidInput("CUresult 0 is success; give one that a failed call returned")
    raise InvalidInput(f"CUresult {number} is none of those that are explained; give one of {numbers}")


def explain_result(call: FailedCall, target: Target) -> Iterator[Diagnostic]:
    """Yield what a failed call's result means; one diagnostic."""
    for rule in RESULT_RULES:
        yield from rule.check(call, target)
