"""The commands that plan: `synthesize` and `explain`."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from legalsat import api
from legalsat.analyses.ptx.text import chip_of
from legalsat.backends import OPEN_MOVEMENTS
from legalsat.cli import REFUSED, Answer
from legalsat.cli.arguments import copy_of, operator_of, tensor_map_of, tensor_of, uses_of, wholes
from legalsat.cli.explanation import explained, path_of
from legalsat.cli.gemm import explain as explain_gemm
from legalsat.cli.gemm import gemm_of
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.plan import Plan
from legalsat.targets import Target, target_of_text
from legalsat.targets import target as as_target
from legalsat.view.show import show_plan
from legalsat.view.show_explanation import show_explanation

_LAYOUT_OPTIONS = ("shape", "dtype", "strides", "align")
_A_WORD = re.compile(r"0x[0-9a-fA-F]{7,16}")  # of a descriptor
_TENSOR_OPTIONS = (*_LAYOUT_OPTIONS, "tile", "consumer", "order")
# A tile of 128 rows, each as long as the widest swizzle, is what a warpgroup's matrix instructions are fed with.


def synthesize(args: Namespace) -> Answer:
    """Plan a copy, a transpose or a padding; print the plan, or the source text of a backend."""
    operator, target = operator_of(args, args.operator), as_target(args.target)
    if args.emit is not None and args.emit not in OPEN_MOVEMENTS and operator.source.dims:
        names = ", ".join(dim.name for dim in operator.source.dims)
        raise InvalidInput(
            f"--emit {args.emit} needs every extent as a number; give --shape numbers for {names}, or emit "
            f"{', '.join(OPEN_MOVEMENTS[:-1])} or {OPEN_MOVEMENTS[-1]}"
        )
    try:
        plan = api.synthesize(operator, target, means=None if args.means is None else args.means.split(","))
    except NoLegalLayout:
        found = api.explain(operator, target)
        data = {"error": _headline(found), "kind": NoLegalLayout.__name__, **found.to_json()}
        return Answer(data, lambda look: show_explanation(found, look), REFUSED, failed=True)
    if args.emit is None:
        return Answer(plan.to_json(), lambda look: show_plan(plan, look))
    text = plan.emit(args.emit)
    return Answer({**plan.to_json(), "emitted": {args.emit: text}}, lambda _: text.rstrip("\n"))


def explain(args: Namespace) -> Answer:
    """Say what is wrong with one subject: a plan file, a pasted text, a tensor map or copy, or a tensor."""
    tensor = [f"--{option}" for option in _TENSOR_OPTIONS if getattr(args, option) is not None]
    if args.copy and args.tensor_map:  # a tensor beside them is what the map is to describe
        tensor = [option for option in tensor if option.removeprefix("--") not in _LAYOUT_OPTIONS]
    if args.layout is not None:  # which has a type and a reader
        tensor = [option for option in tensor if option not in ("--dtype", "--consumer")]
        if args.text is None and args.plan != "-":
            raise InvalidInput("--layout goes with a matrix descriptor; give its word as --text")
    if args.gemm is not None:
        tensor = ["--gemm", *(option for option in tensor if option != "--dtype")]
    given = [
        *([f"the file {args.plan}"] if args.plan is not None else []),
        *(["--text"] if args.text is not None else []),
        *(["--tensor-map"] if args.tensor_map else ["--copy"] if args.copy else []),
        *(tensor if args.gemm is not None else tensor[:1]),
    ]
    texts = [one for one in given if one == "--text" or one.startswith("the file ")]
    two = args.plan == "-" and args.text is not None  # of which none is beside the other
    if texts and 1 < len(given) <= 3 and args.layout is None and not two:
        return _explain_beside(args)
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "nothing to explain is given"
        raise InvalidInput(
            f"{what}; give one of FILE, --text, --tensor-map and --copy, --gemm and --dtype, or --shape and --dtype, "
            "or a text and what else there is of its failure"
        )
    if args.target is None and args.plan in (None, "-"):
        raise InvalidInput("--target is missing; give a GPU such as h200")
    if args.gemm is not None:
        return explain_gemm(args)
    beside = {} if args.layout is None else {name: getattr(args, name) for name in ("layout", "dtype", "consumer")}
    subject, target = _subject(args)
    found = api.explain(subject, target, uses=uses_of(args), **beside)
    file = path_of(args.plan)
    return explained(found, args, data=found.to_json(), text=lambda look: show_explanation(found, look), file=file)


def _explain_beside(args: Namespace) -> Answer:
    """Explain a text, given itself or as a file, together with what the other options describe, or with a file."""
    target = None if args.target is None else target_of_text(args.target)
    others: list[Any] = []
    subject = args.text
    if args.plan is not None:
        of_file, of_chip = (sys.stdin.read(), target) if args.plan == "-" else _in_file(args)
        target = target or of_chip
        subject, others = (of_file, []) if subject is None else (subject, [of_file])
    if target is None:
        raise InvalidInput("--target is missing; give a GPU such as h200")
    if not isinstance(subject, str):
        raise InvalidInput(f"{args.plan} is a plan, and no text; explain it alone, or give --text")
    if args.tensor_map:
        others.append(tensor_map_of(args.tensor_map))
    if args.gemm is not None:
        others.append(gemm_of(args))
    elif any(getattr(args, option) is not None for option in _TENSOR_OPTIONS):
        _with_layout(args)
        others.append(tensor_of(args))
    if args.copy:
        raise InvalidInput("--copy goes with --tensor-map alone; leave it out beside a text")
    tile = None if args.tile is None or args.gemm is not None else wholes(args.tile, "--tile")
    found = api.explain(subject, target, beside=others, tile=tile, consumer=args.consumer, uses=uses_of(args))
    return explained(found, args, data=found.to_json(), text=lambda look: show_explanation(found, look))


def _subject(args: Namespace) -> tuple[Any, Target]:
    """Return what to explain, and for which target."""
    if args.text is not None or args.plan == "-":
        return args.text if args.text is not None else sys.stdin.read(), target_of_text(args.target)
    if args.plan is not None:
        return _in_file(args)
    target = as_target(args.target)
    tensor_map = tensor_map_of(args.tensor_map) if args.tensor_map else None
    if args.copy:
        described = any(getattr(args, option) is not None for option in _LAYOUT_OPTIONS)
        return copy_of(args.copy, tensor_map, tensor_of(_with_layout(args)) if described else None), target
    if tensor_map is not None:
        return tensor_map, target
    _with_layout(args)
    if args.order is not None and args.consumer is not None:
        raise InvalidInput("--order makes it a transpose, whose consumer are threads; leave out --consumer or --order")
    return operator_of(args, "copy" if args.order is None else "transpose"), target


def _with_layout(args: Namespace) -> Namespace:
    """Return the arguments if they describe a tensor."""
    for option in ("shape", "dtype"):
        if getattr(args, option) is None:
            raise InvalidInput(f"--{option} is missing; a tensor needs --shape and --dtype")
    return args


def _in_file(args: Namespace) -> tuple[Any, Target]:
    """Return what a file holds: pasted text, PTX, which names its chip, or a plan, which has its target."""
    text = _text_of(args.plan)
    if text is None:
        try:
            plan = Plan.load(args.plan)
        except InvalidInput as error:
            raise InvalidPlan(f"{args.plan} garbles a field: {error}; synthesise it again") from None
        return plan, plan.target if args.target is None else as_target(args.target)
    wanted = args.target or chip_of(text)
    if not wanted:
        raise InvalidPlan(f"{args.plan} is no plan; if it is pasted text, give --target, a GPU such as h200")
    return text, target_of_text(wanted)


def _text_of(file: str) -> str | None:
    """Return what a file holds if that is text for people; None for a plan, which is a JSON object."""
    if not Path(file).is_file():
        if len(file.split()) > 1:
            raise InvalidInput(f"{file[:80]} is no file; what is pasted text itself goes behind --text")
        size = f"; did you mean --shape {file}?" if re.fullmatch(r"[1-9][0-9]*([x,][0-9]+)+", file) else ""
        if re.fullmatch(r"[1-9][0-9]{0,12}", file):
            size = f"; a shape is one word, such as --shape 4096x{file}"
        size = f"; a descriptor's word goes behind --text: --text {file}" if _A_WORD.fullmatch(file) else size
        raise InvalidInput(
            f"{file} is no file; give a plan that `synthesize --json --output` wrote, or one of pasted text{size}"
        )
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # reading it as a plan says what is wrong
    return None if text.lstrip().startswith("{") else text


def _headline(found: Explanation) -> str:
    reason = f": {found.diagnostics[0].message}" if found.diagnostics else ""
    return f"no legal {found.subject} on {found.target}{reason}"
