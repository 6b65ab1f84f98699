"""The command line. Nothing heavy is imported until a command runs, so that `legalsat --help` answers at once."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, TextIO, get_args

import legalsat
from legalsat import files
from legalsat.checks import meant
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.options import Backend, Consumer, Into, Means, ProductBackend
from legalsat.view.look import PLAIN, Look

DONE, REFUSED, USAGE, UNSURE = 0, 1, 2, 3
INTERRUPTED, BROKEN_PIPE = 130, 141  # what a shell reports for SIGINT and SIGPIPE
_MAX_WIDTH = 100
# The library's own tables, spelled out because importing them takes too long; tests compare the two.
_CONSUMERS, _INTO = get_args(Consumer), get_args(Into)
_MEANS = get_args(Means)
_BACKENDS = get_args(Backend)
_PRODUCT_BACKENDS = get_args(ProductBackend)

_NOTATION = """\
tensors:
  --shape 4096x4095            extents in elements, slowest axis first; x or commas between them
  --shape MxK%8                a name is a symbolic extent; %8 states that it is a multiple of 8
  --shape M:1..512,K%8:..8192  :MIN..MAX states its range, either end may be left out
  --strides 4096,1             elements between neighbours of each axis; with dims: K,1 or '2*K,1'
"""
_EXIT_CODES = """\
exit codes: 0 done; 1 refused, with the reasons; 2 wrong usage; 3 causes of
words that `explain` was given are no more than possible
"""
_CHECK_EXIT_CODES = """\
examples:
  legalsat check kernel.ptx --param n=4096 --box-bytes a_map=16384
  legalsat check kernel.ptx --sarif --output kernel.sarif
  legalsat check ~/.triton/cache build/ptx --block 384 --sarif --output kernels.sarif
  cuobjdump -sass kernel.cubin | legalsat check -

exit codes:
  0  no break of the contract, proven or not
  1  breaks, which are listed, whatever became of other files
  2  no break, but a file could not be read or is neither PTX nor machine code; or wrong usage,
     such as a folder without files
"""
_EXAMPLES = """\
examples:
  legalsat synthesize copy --shape 512x64 --dtype bf16 --tile 64x64 --consumer wgmma.a --target h200
  legalsat synthesize transpose --shape 8x512x384 --dtype e4m3 --target h200 --emit triton
  legalsat synthesize pad --shape 4096x4095 --padding 0x0:1 --dtype bf16 --target h200 --emit triton
  legalsat explain --shape 4096x4095 --dtype bf16 --tile 128x64 --target h200
  legalsat explain --target h200 --tensor-map dtype=bf16 global_dim=64,64 global_stride=128 box=64,8
  legalsat explain --target h200 --copy bytes=4096 global_address=16 shared_address=0x80
  legalsat explain --target h200 --text "Failed to initialize the TMA descriptor 715"
  legalsat explain --target h200 --text 0x4000002000010000 --layout '128x64 bf16 K-major 128B'
  legalsat rule TMA005
  legalsat targets h200
"""
_DECODE_EXAMPLES = """\
examples:
  legalsat decode 00000000000100004000000000000000...   256 hex digits, the bytes in order
  legalsat decode 0x0000010000000000 0x0000000000006550 ...   16 words, as cuda-gdb prints them
  legalsat decode map.bin   a file that holds the 128 bytes, or such text

exit codes: 0 read, and legal on --target; 1 read, and refused there, with the reasons;
  2 no map's bytes
"""
_SWEEP_EXAMPLES = """\
examples:
  legalsat sweep shapes.csv --target h200 --out answers.parquet --report report.html
  legalsat sweep --from answers.parquet --report report.html
  legalsat sweep --compare old.parquet new.parquet
  legalsat sweep tritonbench --target h200 --table
  legalsat sweep llama-3-8b --target h200 --table markdown

columns: operator (gemm, attention, conv, copy, transpose, pad), name, count, measured_ns, and the
operator's numbers:
  gemm m n k; attention batch heads queries keys head;
  conv batch height width channels kernel_h kernel_w;
  copy and transpose shape (4096x4095); pad shape padding; each with dtype;
  docs/sweep.md lists more

exit codes: 0 done; 1 done, but some rows are invalid; 2 wrong usage; 130 interrupted, the file
  holds what was done
"""
_BUILD_EXAMPLES = """\
examples:
  legalsat build --pack llm --target h200                    what language models multiply, cached
  legalsat build --pack shapes.csv --target h200 --out my.pack
  LEGALSAT_PACKS=my.pack python serve.py                     takes its kernels from there

exit codes: 0 done; 1 done, but some products have no kernel; 2 wrong usage
"""
_MAP_NOTATION = """\
tensor maps (--tensor-map): the driver's arguments as FIELD=VALUE, fastest dimension first:
  dtype=bf16 global_dim=64,64 global_stride=128 (bytes) box=64,8 element_stride=1,1 address=0x1000
  interleave=none|16B|32B  swizzle=none|32B|64B|128B
  l2_promotion=none|64B|128B|256B  oob_fill=zero|nan
  mode=tiled|im2col, with lower_corner= upper_corner= channels= pixels= for im2col
  The driver's own names do too: tensorDataType=CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    globalDim=64,64 boxDim=64,8
"""
_COPY_NOTATION = """\
executions (--copy): what a copy with --tensor-map does, as FIELD=VALUE; what is left out is
not judged:
  stores=true reduces=add coordinate=8,0 (elements, fastest dimension first) shared_address=0x400
  shared_bytes=8192 (its buffer)  transaction_bytes=8192 (what the barrier expects of copies=1)
  read_as=128B (the swizzle that readers assume)  by_address=true (of absolute addresses)
  map_pitch=128
  --shape, --dtype, --strides and --align describe the tensor that the map is meant for
  Without --tensor-map, a bulk copy: bytes=4096 global_address=16 shared_address=0x80
  stores= reduces= swizzle=
"""
_TEXT_NOTATION = """\
texts (FILE, - or --text), with --target:
  what any program prints when a tensor map is refused, or its error texts alone;
  what ptxas and static assertions say; a tensor's shape, strides and dtype;
  a CUresult, 715 or CUDA_ERROR_ILLEGAL_INSTRUCTION; PTX, whose file names its chip itself;
  a matrix descriptor 0x4000... or an instruction descriptor, kind::f16 0x8040490
descriptors beside their tile (--text WORD --layout ... [--dtype bf16] [--consumer wgmma.a]):
  rows of A or columns of B first, K second: '128x64 bf16 K-major 128B' for boxes of that swizzle
  side by side, or as CuTe prints a layout, 'Sw<3,4,3> o smem_ptr[16b] o (64,64):(64,1)'
"""


class Answer(NamedTuple):
    """What a command answers: plain values for --json, text for a person, the exit code, and on which stream.

    A note goes to the other stream, since the text may be a program.
    """

    data: Any
    text: Callable[[Look], str]
    code: int = DONE
    failed: bool = False
    note: str = ""


class _UsageError(Exception):
    """The words on the command line do not parse."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose examples keep their lines and whose options leave room for what they say."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(shutil.get_terminal_size((100, 24)).columns, _MAX_WIDTH))


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of exiting, so that --json holds for its errors too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse options that this parser does not know before it misses those that they were meant to be."""
        first = next(iter(args or ()), "")
        if self._subparsers is not None and first[:2] == "--" != first and first.partition("=")[0] not in self._known:
            # Else argparse takes the option's value for the word that is missing.
            (choice,) = (one for one in self._actions if one.choices)
            missing = str(choice.metavar).partition(" ")[0]
            self.error(f"{missing} is missing in front of {first}; give one of {', '.join(choice.choices or ())}")
        words = [] if self._subparsers is not None else args or ()
        unknown = [one for one in words if one[:2] == "--" != one and one.partition("=")[0] not in self._known]
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return super().parse_known_args(None if args is None else self._values_joined(args), namespace)

    def _values_joined(self, words: Sequence[str]) -> list[str]:
        """Return words in which a value that begins with a minus and a digit is one word with its option.

        Else argparse takes "-4x100" for an option, and says that the one before it lacks a value.
        """
        valued = {one for action in self._actions if action.nargs is None for one in action.option_strings}
        joined: list[str] = []
        for word in words:
            if joined and joined[-1] in valued and re.match(r"-\d", word):
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    @property
    def _known(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Say in words of our own what argparse says of a word that it does not know, or misses."""
        wrong = re.match(r"argument (.*?): invalid choice: '?(.*?)'? \(choose from (.*)\)", message, re.DOTALL)
        if wrong is not None:
            of, word, known = wrong[1], wrong[2], wrong[3].replace("'", "")
            said = f"{of} is {word!r}" if of.startswith("-") else f"{word!r} is no {of.partition(' ')[0].lower()}"
            message = f"{said}; give one of {known}{self._meant(message)}"
        elif message.startswith("the following arguments are required: "):
            missing = [one.strip().partition(" ")[0] for one in message.partition(": ")[2].split(",")]
            *first, last = missing
            message = f"{', '.join(first)} and {last} are missing" if first else f"{last} is missing"
        else:
            said = self._meant(message)
            if not said and re.match(r"unrecognized arguments: [^-]", message):
                said = "; a value goes behind the name of its option, such as --target h200"
            message += said
        raise _UsageError(f"{message}; see `{self.prog} --help`")

    def _meant(self, message: str) -> str:
        """Return which known word is near to the one that argparse does not know, "" where it names none."""
        wrong = re.match(r"(?:unrecognized arguments:|argument .*?: invalid choice:) '?([^\s']+)", message)
        if wrong is None:
            return ""
        known = [*self._known, *(str(one) for action in self._actions for one in action.choices or ())]
        return meant(wrong[1].partition("=")[0], known)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 refused with reasons, 2 wrong usage, 3 nothing sure.

    Args:
        argv: the words after the program's name; those of the process when left out.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    _never_unwritable()
    try:
        code = _run(words)
        _flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        print(f"error: cannot write the answer: {error.strerror}", file=sys.stderr)
        _drop_output()
        return USAGE
    return code


def _drop_output() -> None:
    """Send what is still buffered nowhere: it would fail again, loudly, when the interpreter exits."""
    with suppress(OSError, ValueError):  # a stream of no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    as_json = "--json" in words or ("--sarif" in words and words[0] in {"check", "explain", "decode"})
    output = None
    try:
        args = _parser().parse_args(words)
        output = getattr(args, "output", None)
        module, function = args.run
        answer: Answer = getattr(importlib.import_module(module), function)(args)
    except SystemExit as request:  # --help and --version have printed what was asked
        return DONE if request.code is None else int(request.code)
    except (_UsageError, InvalidInput) as error:
        answer = _failure(error, USAGE)
    except LegalSatError as error:
        answer = _failure(error, REFUSED)
    if answer.note and not as_json:
        print(_wrapped(f"note: {answer.note}", _MAX_WIDTH), file=sys.stderr)
    if output is not None and not answer.failed:
        text = json.dumps(answer.data, indent=1) if as_json else PLAIN.clean(answer.text(PLAIN))
        try:
            files.write(output, text.rstrip("\n") + "\n")
        except InvalidInput as error:
            answer = _failure(error, USAGE)
        else:
            return answer.code
    _print(answer, as_json=as_json)
    return answer.code


def _failure(error: Exception, code: int) -> Answer:
    kind = "InvalidInput" if isinstance(error, _UsageError) else type(error).__name__
    return Answer({"error": str(error), "kind": kind}, lambda look: _error_text(error, look), code, failed=True)


def _error_text(error: Exception, look: Look) -> str:
    first, *more = (_wrapped(line, look.width) for line in f"error: {error}".splitlines())
    return "\n".join([look.paint("error", "error") + first.removeprefix("error"), *more])


def _wrapped(line: str, width: int) -> str:
    """Return a line of a message on several that are no wider; words stay whole."""
    if len(line) <= width:
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _print(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer.data, indent=1))
        return
    stream = sys.stderr if answer.failed else sys.stdout
    look = _look(stream)
    print(look.clean(answer.text(look)), file=stream)


def _look(stream: TextIO) -> Look:
    terminal = stream is not None and stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(min(shutil.get_terminal_size((100, 24)).columns, _MAX_WIDTH), colour)


def _never_unwritable() -> None:
    """Let the streams write what their encoding lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _parser() -> _Parser:
    parser = _Parser(
        prog="legalsat",
        description="The fastest legal way for a tensor through a GPU's copy engine, or the rule that forbids it.",
        epilog=_EXAMPLES + "\n" + _EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"legalsat {legalsat.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND [OPTIONS]", required=True)
    _add_synthesize(commands)
    _add_explain(commands)
    _add_check(commands)
    _add_decode(commands)
    _add_sweep(commands)
    _add_build(commands)
    rule = commands.add_parser("rule", help="one rule's page, or the list of all", epilog=_EXIT_CODES)
    rule.add_argument("code", nargs="?", metavar="CODE", help="such as TMA003, or its name box_extent_out_of_range")
    rule.add_argument("--all", action="store_true", help="list every rule")
    _finish(rule, "legalsat.cli.pages", "rule")
    targets = commands.add_parser("targets", help="the GPUs that are known, or one's whole table", epilog=_EXIT_CODES)
    targets.add_argument("name", nargs="?", metavar="TARGET", help="such as h200 or sm_90a")
    _finish(targets, "legalsat.cli.pages", "targets")
    return parser


def _add_synthesize(commands: Any) -> None:
    parser = commands.add_parser(
        "synthesize", help="the cheapest legal plan, and its source text", epilog=_NOTATION + "\n" + _EXIT_CODES
    )
    operators = parser.add_subparsers(title="operators", metavar="OPERATOR [OPTIONS]", required=True)
    for name, help_text in (
        ("copy", "move a tensor through shared memory, tile by tile"),
        ("transpose", "copy a tensor with its axes in another order"),
        ("pad", "copy a tensor into the middle of a larger one"),
    ):
        operator = operators.add_parser(name, help=help_text, epilog=_NOTATION + "\n" + _EXIT_CODES)
        _add_tensor(operator, required=True, tiled=name != "pad")
        if name == "copy":
            _add_consumer(operator)
            operator.add_argument(
                "--into", choices=_INTO, help="shared: only load tiles, for a kernel of your own to read"
            )
            operator.add_argument(
                "--axes", metavar="NAME,...", help="what the axes are called where coordinates are told"
            )
        elif name == "pad":
            operator.add_argument(
                "--padding", required=True, help="elements before and after along each axis, 0x1:2; one number for both"
            )
            operator.add_argument("--value", default="0", help="what is written there; 0")
        else:
            operator.add_argument("--order", help="axes of the source in the result's order, 1,0; last two exchanged")
        operator.add_argument(
            "--means", metavar="NAME,...", help=f"how tiles may travel, some of {', '.join(_MEANS)}; all when left out"
        )
        operator.add_argument(
            "--emit",
            choices=_BACKENDS,
            help="print source text: a kernel, with cute also what launches it; or a host that encodes the maps; "
            "cute and hosts take symbolic extents at run time",
        )
        operator.set_defaults(operator=name)
        _finish(operator, "legalsat.cli.plan", "synthesize", target=True, output=True)
    gemm = operators.add_parser(
        "gemm",
        help="plan C = A B^T: tile, stages, matrix descriptors, epilogue",
        description="Plans the product of A (M x K) and B (N x K) into C (M x N), all dense and C row-major.\n"
        "`explain --gemm` says what is wrong with operands, and what to change.",
        epilog=_EXIT_CODES,
    )
    for extent in "mnk":
        name = extent.upper()
        what = f"elements, or a dim whose value the call brings: {name}, {name}%%8, {name}:64..8192, {name}~4096"
        gemm.add_argument(f"--{extent}", required=True, metavar=name, help=f"{what} (typical)")
    gemm.add_argument("--dtype", required=True, help="element type of A and B: bf16, fp16, e4m3, ...")
    gemm.add_argument(
        "--out-dtype", help="element type of C; that of A and B when left out, bf16 or i32 where these have 8 bits"
    )
    for name, rows in (("a", "M"), ("b", "N")):
        gemm.add_argument(
            f"--{name}-major",
            choices=("K", rows),
            default="K",
            help=f"axis along which {name.upper()} lies in memory; K when left out",
        )
    gemm.add_argument("--chart", metavar="FILE", help="write a chart of the pipeline there, as SVG")
    gemm.add_argument(
        "--emit",
        choices=_PRODUCT_BACKENDS,
        help="print source text: the cheapest kernel of this backend; with cute and host a file that launches it, too",
    )
    _finish(gemm, "legalsat.cli.gemm", "synthesize", target=True, output=True)


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="what is wrong with a tensor, tensor map, error text or plan, who says so, and what to change",
        epilog=f"{_NOTATION}\n{_MAP_NOTATION}\n{_COPY_NOTATION}\n{_TEXT_NOTATION}\n{_EXIT_CODES}",
    )
    parser.add_argument(
        "plan",
        nargs="?",
        metavar="FILE",
        help="a plan that `synthesize --json --output FILE` wrote, or pasted text; - for text on standard input",
    )
    parser.add_argument("--text", help="pasted text itself, such as 715 or the dump of a tensor map")
    parser.add_argument(
        "--layout",
        help="how the tile lies that a descriptor's word in --text is to describe: '128x64 bf16 K-major 128B'",
    )
    parser.add_argument("--tensor-map", nargs="+", metavar="FIELD=VALUE", help="a tensor map, field by field")
    parser.add_argument("--copy", nargs="+", metavar="FIELD=VALUE", help="an execution of it, or of a bulk copy")
    _add_tensor(parser, required=False)
    _add_consumer(parser)
    parser.add_argument("--order", help="judge the transpose to this order of axes instead of a copy")
    parser.add_argument("--gemm", metavar="MxNxK", help="explain a product of --dtype, operands dense and row-major")
    parser.add_argument("--uses", metavar="N", help="order repairs by the time of applying one and of N uses; 100")
    _add_forms(parser)
    _finish(parser, "legalsat.cli.plan", "explain", output=True)
    parser.add_argument("--target", help="a GPU; a plan's own when left out")


def _add_check(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="check barriers, copies and matrix units in real PTX and machine code",
        description="Runs each kernel of a PTX file for chosen values of its parameters, each run standing for all\n"
        "interleavings, and reports breaks of the asynchronous contract by line, and what it cannot prove.\n"
        "Machine code of sm_90, as cuobjdump and nvdisasm print it, and cubins are judged by the order\n"
        "of instructions.",
        epilog=_CHECK_EXIT_CODES,
    )
    parser.add_argument(
        "file",
        nargs="+",
        metavar="FILE",
        help="PTX, machine code in text, or a cubin; a folder for all *.ptx and *.sass in it; - for standard input",
    )
    parser.add_argument("--block", metavar="THREADS", help="threads of a block, 384 or 32x8, where the text fixes none")
    parser.add_argument("--grid", metavar="BLOCKS", help="blocks of the grid, 132 or 16x8; swept when left out")
    parser.add_argument("--cubins", action="store_true", help="check the *.cubin of folders too")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="fix parameters, %%ctaid.x or %%ntid.x; swept else",
    )
    parser.add_argument(
        "--box-bytes",
        action="append",
        default=[],
        metavar="NAME=BYTES",
        help="bytes of a tensor map's box, by its parameter",
    )
    parser.add_argument("--explain", action="store_true", help="say what verdicts rest on: values, what was covered")
    parser.add_argument("--sarif", action="store_true", help="answer in SARIF 2.1.0, for code hosts and editors")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to standard output")
    _finish(parser, "legalsat.cli.check", "check")
    parser.add_argument("--target", help="what the text must be for, such as sm_90a; its own when left out")


def _add_decode(commands: Any) -> None:
    parser = commands.add_parser(
        "decode",
        help="the fields in a CUtensorMap's 128 bytes, and what `explain` says of them",
        epilog=_DECODE_EXAMPLES,
    )
    parser.add_argument("blob", nargs="+", metavar="HEX|FILE", help="the bytes as hex, or a file of them; - reads them")
    parser.add_argument(
        "--hardware-only",
        action="store_true",
        help="read the first 64 bytes alone: for maps changed after their encoding",
    )
    parser.add_argument("--target", default="h200", help="the GPU that the map is judged for; h200")
    _add_forms(parser)
    _finish(parser, "legalsat.cli.decode", "decode", output=True)


def _add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="plan every operator of a model or a suite, and show where the fast path is lost",
        epilog=_SWEEP_EXAMPLES,
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE|NAME", help="problems as CSV, JSON, JSON lines or Parquet, or a catalogue"
    )
    parser.add_argument("--target", help="a GPU such as h200 or sm_90a; see `legalsat targets`")
    parser.add_argument("--out", metavar="FILE", help="Parquet file to write the answers to")
    parser.add_argument("--workers", metavar="N", help="processes; as many as there are cores when left out")
    parser.add_argument("--ray", metavar="ADDRESS", help="answer on a Ray cluster: its address, or auto")
    parser.add_argument("--store", metavar="FOLDER", help="keep answers there, for other sweeps too")
    parser.add_argument("--report", metavar="FILE", help="write a page there that shows the answers: one HTML file")
    parser.add_argument("--from", dest="answers", metavar="ANSWERS", help="report on these answers of an earlier sweep")
    parser.add_argument(
        "--table",
        nargs="?",
        const="text",
        choices=("text", "markdown"),
        help="show what is legal, after a repair or never, by operator or layer",
    )
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="show what differs between two answers")
    _finish(parser, "legalsat.cli.sweep", "sweep")


def _add_build(commands: Any) -> None:
    parser = commands.add_parser(
        "build", help="compile kernels of products ahead, into the cache or a pack", epilog=_BUILD_EXAMPLES
    )
    parser.add_argument(
        "--pack",
        required=True,
        metavar="NAME|FILE",
        help="whose products: llm, a catalogue or a file as `sweep` takes them",
    )
    parser.add_argument("--out", metavar="FILE", help="write the cubins there as a pack; the cache has them anyhow")
    parser.add_argument("--kernels", metavar="N", help="of each product, predicted fastest first; 1")
    parser.add_argument("--workers", metavar="N", help="compilers at once; as many as there are cores when left out")
    _finish(parser, "legalsat.cli.build", "build", target=True)


def _add_tensor(parser: argparse.ArgumentParser, *, required: bool, tiled: bool = True) -> None:
    parser.add_argument("--shape", required=required, help="extents in elements, such as 4096x4095 or MxK%%8")
    parser.add_argument("--dtype", required=required, help="element type: bf16, fp16, fp32, e4m3, e2m1, i8, ...")
    parser.add_argument("--strides", help="in elements; row-major when left out")
    parser.add_argument(
        "--align", metavar="BYTES", help="what the address is a multiple of, in bytes; 256 when left out"
    )
    if tiled:
        parser.add_argument("--tile", help="elements of a tile along each axis, such as 128x64; chosen when left out")


def _add_forms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", action="store_true", help="answer with a page of pictures in HTML")
    parser.add_argument("--sarif", action="store_true", help="answer in SARIF 2.1.0, for code hosts and editors")


def _add_consumer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--consumer", choices=_CONSUMERS, help="who reads the tile in shared memory")


def _finish(
    parser: argparse.ArgumentParser, module: str, function: str, *, target: bool = False, output: bool = False
) -> None:
    """Add what commands share, and say which function runs this one."""
    if target:
        parser.add_argument("--target", required=True, help="a GPU such as h200 or sm_90a; see `legalsat targets`")
    if output:
        parser.add_argument("--output", "--out", metavar="FILE", help="write there instead of to standard output")
    parser.add_argument("--json", action="store_true", help="answer in JSON, errors too")
    parser.set_defaults(run=(module, function))
