"""What people paste, recognised and explained: dumps of tensor maps, error texts, CUresults, descriptor words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from legalsat.api import violations
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.explanation import USES, Explanation
from legalsat.extract.explain.explain import explain_tensor_map
from legalsat.extract.explain.explain_word import explain_word, unit_lacking, word_of
from legalsat.pasted.arrivals import explain_arrivals, within_counts
from legalsat.pasted.beside import curing
from legalsat.pasted.code.accesses import explain_accesses
from legalsat.pasted.code.breaks import Pasted, with_code
from legalsat.pasted.code.calls import made_arrays
from legalsat.pasted.code.fragments import without_asides
from legalsat.pasted.code.host_code import encoded_maps
from legalsat.pasted.code.python import follow
from legalsat.pasted.extents import CALL
from legalsat.pasted.grammar import even, plain
from legalsat.pasted.ir import described_maps, explain_buffers
from legalsat.pasted.limits import explain_limits, within_limits
from legalsat.pasted.maps import PrintedMap, lone_boxes, printed_maps
from legalsat.pasted.multiplies import explain_multiplies, legal_multiplies
from legalsat.pasted.products import explain_products, legal_products
from legalsat.pasted.results import (
    FailedCall,
    Returned,
    explain_result,
    left_behind,
    returned_results,
)
from legalsat.pasted.sentences import OWN_LIMIT, RULE_OF, explain_causes, explain_failed_check, explain_sentences
from legalsat.pasted.shared import explain_shared, shared_memory_suffices, shared_memory_told
from legalsat.pasted.tables.program_causes import ASKED
from legalsat.pasted.tensors import explain_printed_tensors, printed_tensors
from legalsat.pasted.wording.kinds import (
    LAUNCH,
    effects,
    is_doubtful,
    is_prose,
    is_refused_launch,
    is_unknown_check,
)
from legalsat.pasted.wording.likely import tells_of_failure
from legalsat.pasted.wording.merged import TEXT, with_likely
from legalsat.pasted.wording.scope import OFTEN_BESIDE, is_strange, seen_in, speaks_of_gpus
from legalsat.pasted.words import (
    INSTRUCTION_BITS,
    InstructionWord,
    called_instructions,
    called_words,
    pasted_instruction,
    pasted_word,
    read_instruction,
)
from legalsat.rules import judge
from legalsat.rules.tma import TMA
from legalsat.targets import Target
from legalsat.units.tcgen05_sites import InstructionBits
from legalsat.units.tensor_map import TensorMap
from legalsat.units.tensor_map_bytes import decode

FORMS = (
    "the dump of a tensor map by any program (globalDim, boxDim, ...), also of a part of its fields",
    "an error text about copies or matrix units, of Triton, CUTLASS, TileLang, ptxas or another program",
    "a tensor's shape, strides and dtype",
    "a CUresult or cudaError, by number or name",
    "a 64-bit matrix descriptor of wgmma or tcgen05, or a 32-bit instruction descriptor of tcgen05",
    "the 128 bytes of a CUtensorMap as hex",
    "a type of MLIR's or Triton's IR that has strides, a descriptor or a buffer of shared memory that is too large",
)
_BETWEEN_DIGITS = re.compile(r"0[xX]|[\s,]")
_MAP_DIGITS = re.compile(r"[0-9a-fA-F]{256}")
# A product of a library that failed, or a copy, in whatever words: code may be judged by what such calls take.
_FAILED_CALL = re.compile(
    r"CUBLAS_STATUS_[A-Z]\w+|CUDNN_STATUS_[A-Z]\w+|\btma\b.{0,40}\b(?:error|fail)|misaligned", re.IGNORECASE
)
# What happens in kernels alone, and what in kernels and where arrays are handed on.
_OF_GPUS, _OF_GPUS_AND_ARRAYS = re.compile("PIPE|TMEM"), re.compile("PIPE|TMEM|TMA024")
_OF_ARRAYS = re.compile(
    r"contiguous|tensor|torch|major|kernel|mat_?[ab12]\b|\w\.strides?\b|dim(?:ension)?s?\b", re.IGNORECASE
)
_OF_ARGUMENTS = frozenset({"invalid", "misaddr"})  # what numbers show themselves by
_TORN = "how the dump's lists run, or in which unit, is not printed, and by one reading the map is illegal"
_MOST_HEX = 4096  # characters of a CUtensorMap's 128 bytes, however they are printed


def explain_pasted(text: str, target: Target, uses: int = USES, beside: str = "") -> Explanation:
    """Return what a pasted text says is wrong, and what to change.

    Numbers outweigh words: where a text prints a tensor map's or a tensor's fields, these are judged. Sentences of
    known programs outweigh what a line of another one seems to say, and that a result that is left when it failed.

    Args:
        text: what was printed.
        target: the GPU.
        uses: how often what is repaired will be used.
        beside: what else the report has. Code and sizes in it count like the text's own; its sentences only where
            the text names no cause, so that the answer is never less than that of the text.

    Raises:
        InvalidInput: nothing in the text is understood, or what is understood is garbled.
    """
    readable, rest = plain(text), plain(beside)
    if len(readable) <= _MOST_HEX:
        if _MAP_DIGITS.fullmatch(_BETWEEN_DIGITS.sub("", readable)):
            decoded = decode(readable)
            return explain_tensor_map(decoded, target, violations(decoded, target))
        of_a_word = _explain_word(readable, target)
        if of_a_word is not None:
            return of_a_word
    whole = f"{readable}\n\n{rest}" if rest.strip() else readable
    if rest.strip():
        known = _with_the_rest(readable, whole, target, uses)
    else:
        known = _explain(readable, readable, target, uses)
    found = with_likely(known, whole, target, lambda: _in_order(known, whole, target))
    if found is None:
        raise InvalidInput(f"nothing in the text is understood; paste {'; or '.join(FORMS)}")
    return found


def _in_order(known: Explanation | None, whole: str, target: Target) -> set[str]:
    """Return the rules whose numbers a text prints, all of them in order: what is judged is guessed no more.

    Where arguments were refused whose tensors are in order, nothing else is guessed.
    """
    refused = known is not None and known.diagnostics and seen_in(whole) - OFTEN_BESIDE <= _OF_ARGUMENTS
    if refused and _has_tensors(whole):
        return set(RULE_OF)
    evened = even(whole)
    suffices = {"SMEM001"} if shared_memory_suffices(evened) else set()
    # A driver that refuses a map says "invalid value": what an earlier kernel left is no field's fault.
    left = any(one.encodes and left_behind(one.number) for one in returned_results(whole))
    innocent = {code for code, rule in RULE_OF.items() if left and rule.unit is TMA and rule.refused_by == "driver"}
    return within_limits(evened, target) | within_counts(whole) | suffices | innocent


def _has_tensors(whole: str) -> bool:
    """Whether a text has tensors that are judged, by what it prints of them or by its code."""
    printed = any(len(one.shape) > 1 for one in printed_tensors(whole))
    return printed or CALL.search(whole) is not None or next(made_arrays(follow(whole).arrays), None) is not None


def _with_the_rest(readable: str, whole: str, target: Target, uses: int) -> Explanation | None:
    """Explain a text by its sentences and the whole report's numbers; by all sentences where it names no cause."""
    own: Explanation | None = None
    more: Explanation | None = None
    with suppress(InvalidInput):
        own = _explain(readable, whole, target, uses)
    # A check that nobody knows says no more than that something failed, and a program's own one no more than where.
    said = (
        {one.code for one in own.diagnostics if not is_unknown_check(one)} - {OWN_LIMIT} if own is not None else set()
    )
    if own is None or not said - effects(own.diagnostics):
        with suppress(InvalidInput):
            more = _explain(whole, whole, target, uses)
    names = more is not None and bool({one.code for one in more.diagnostics} - effects(more.diagnostics))
    found = more if names or (more is not None and own is None) else own
    if found is None:
        return _explain(readable, readable, target, uses)  # which says what is garbled
    if found is own or own is None:
        return found
    # What only the rest of a report says is likely, and not what the program printed.
    printed = {one.code for one in own.diagnostics}
    asked = f"{ASKED.message.partition('{')[0]}"  # a condition of prose need not be the one that failed
    kept = [one for one in found.diagnostics if one.code in printed or not one.message.startswith(asked)]
    likely = [one if one.code in printed else replace(one, level="warning") for one in kept]
    return replace(found, diagnostics=(*likely, *_without(likely, list(own.diagnostics))))


def _explain(readable: str, whole: str, target: Target, uses: int) -> Explanation | None:
    """Explain by the sentences of a text, and by the numbers and the code of the whole report that it is part of.

    Returns:
        None if nothing of it is understood.
    """
    results, evened, spoken = returned_results(readable), even(readable), even(without_asides(readable))
    shared = list(explain_shared(evened, target, even(whole)))
    sentences = _without(
        shared,
        [
            *explain_limits(evened, target),
            *explain_buffers(whole, target),
            *explain_products(readable, target),
            *explain_multiplies(readable, target),
            *explain_arrivals(whole, target),
            *_of_called_words(whole, target),
            *explain_sentences(spoken, target),
        ],
    )
    if shared_memory_suffices(even(whole)):  # whatever could not be set up, it was not for want of that
        sentences = [one for one in sentences if one.code != "SMEM001"]
    if any(one.code == LAUNCH and not is_refused_launch(one) for one in (*shared, *sentences)):
        sentences = [one for one in sentences if not is_refused_launch(one)]
    described = described_maps(whole)
    parts = (*described, *lone_boxes(whole))
    encoded = encoded_maps(whole)
    maps = encoded or printed_maps(whole) or [one for one in parts if _is_illegal(one, target)]
    if maps:
        told = _explain_maps(maps, results, [*shared, *sentences], readable, target)
        # Code that encodes a map which breaks no rule may stand beside the kernel that uses it.
        beside = Pasted(whole, told.diagnostics, target, uses)
        return told if told.diagnostics or not encoded else with_code(told, follow(whole), beside, failed=False) or told
    failures = _explain_results(results, target)
    # That a call failed is no cause where the text says with which result.
    known = {"CUDA001"} if failures else set()
    # Nor are words about shapes where the shapes themselves are in order.
    fits = legal_multiplies(readable, target)
    known |= {"TCGEN003", "TCGEN004"} if fits else set()
    # Or words about registers where their numbers are.
    known |= within_limits(evened, target) & {"TOOL003"}
    causes = [one for one in explain_causes(spoken, target) if one.code not in known]
    if not speaks_of_gpus(whole):  # other machines have barriers and strides too
        strange = _OF_GPUS if _OF_ARRAYS.search(whole) else _OF_GPUS_AND_ARRAYS
        causes = [one for one in causes if not strange.match(one.code)]
    if "?" in whole and not tells_of_failure(whole):  # what a question asks about is no cause
        causes = [one for one in causes if not is_doubtful(one)]
    if causes and is_strange(whole):  # nor what a text's prose says that is rather about something else
        causes = [one for one in causes if not is_prose(one) or is_unknown_check(one)]
    accesses = (
        [] if sentences or causes else explain_accesses(evened, {one.number for one in results}, target, even(whole))
    )
    # A program's own check says that its numbers are wrong, and not why.
    own = all(one.code == OWN_LIMIT for one in sentences)
    named = [*shared, *sentences, *(_without([*shared, *sentences], causes) if own else ()), *accesses]
    failures = _without(named, failures)
    said, followed = [*named, *failures], follow(whole)
    base = explain_printed_tensors(whole, followed, target, said, uses)
    if base is None and said:
        base = _of_text(named, failures, target)
    # That some check failed is told where nothing in the text says which.
    checks = [] if base is not None else list(explain_failed_check(spoken, target))
    failed = bool(said or checks) or _FAILED_CALL.search(readable) is not None
    found = with_code(base, followed, Pasted(whole, said, target, uses), failed=failed)
    if checks and (found is None or not found.diagnostics):
        return _of_text(checks, [], target)
    if not tells_of_failure(whole):
        fits += [*legal_products(readable, target), *(_box_is_legal(one) for one in described[:1])]
    return found or _of_what_fits([*fits, *shared_memory_told(evened, target)], target)


def _is_illegal(described: PrintedMap, target: Target) -> bool:
    """Whether every map that a descriptor's type may be of is illegal; a dump is rarely about its legal types."""
    return target.tma is not None and all(
        any(one.level == "error" for one in violations(reading, target)) for reading in described.readings
    )


def _box_is_legal(described: PrintedMap) -> str:
    box = " x ".join(map(str, described.tensor_map.box))
    return f"a box of {box} {described.tensor_map.dtype}, innermost first, breaks no rule"


def _of_what_fits(fits: list[str], target: Target) -> Explanation | None:
    """Return what of a text is in order that says nothing else, in words."""
    says = "whether the rest of the kernel is legal the text does not say"
    return Explanation(TEXT, str(target), False, (), values=tuple(fits), undecided=says) if fits else None


def _without(told: list[Diagnostic], more: list[Diagnostic]) -> list[Diagnostic]:
    """Return those of `more` whose rules are not told already: one cause, one error."""
    codes = {diagnostic.code for diagnostic in told}
    return [diagnostic for diagnostic in more if diagnostic.code not in codes]


def _of_text(named: list[Diagnostic], failures: list[Diagnostic], target: Target) -> Explanation:
    """Return what sentences name, and after it what the program returned; advice alone decides nothing."""
    told = (*worst_first(named), *failures)
    if any(diagnostic.level == "error" for diagnostic in told):
        return Explanation(TEXT, str(target), False, told)
    says = "the text advises; whether what it is about is legal it does not say"
    return Explanation(TEXT, str(target), False, told, undecided=says)


def _explanation(subject: str, target: Target, found: Iterable[Diagnostic]) -> Explanation:
    diagnostics = tuple(worst_first(found))
    return Explanation(subject, str(target), not any(d.level == "error" for d in diagnostics), diagnostics, ())


def _explain_word(text: str, target: Target) -> Explanation | None:
    """Return the explanation of a descriptor's word; None if the text is none."""
    instruction = pasted_instruction(text)
    if instruction is not None:
        return _explain_instruction(instruction, target)
    word = pasted_word(text)
    if word is None:
        return None
    found = explain_word(word_of(word, target), target)
    upper = InstructionWord(word >> INSTRUCTION_BITS, None)
    if found.legal or word % (1 << INSTRUCTION_BITS) or not read_instruction(upper)[0]:
        return found
    said = f"its upper half, {upper.word:#010x}, is an instruction descriptor of tcgen05: explain that half alone"
    return replace(found, values=(said,), repairs=())


def _of_called_words(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what descriptors' words break that a report calls so, where it says that something fails."""
    if not tells_of_failure(text):
        return
    found = [explain_word(word_of(word, target), target) for word in called_words(text)]
    found += [_explain_instruction(one, target) for one in called_instructions(text)]
    yield from (one for explanation in found for one in explanation.diagnostics if one.level == "error")


def _explain_instruction(pasted: InstructionWord, target: Target) -> Explanation:
    """Return the explanation of an instruction descriptor as the kind that breaks the fewest rules, if none is said."""
    readings, refusals = read_instruction(pasted)
    bits = InstructionBits(pasted.word, "" if readings else "; ".join(refusals))
    lacking = list(unit_lacking("tcgen05", target, str(bits)))
    says = () if not lacking else ("32 bits are read as an instruction descriptor; a matrix descriptor has 64",)
    if not readings:
        return replace(_explanation(f"tcgen05 {bits}", target, lacking or judge(bits, target)), values=says)
    judged = [(one, lacking or violations(one, target)) for one in readings]
    descriptor, found = min(judged, key=lambda one: sum(d.level == "error" for d in one[1]))
    others = [str(other.table) for other, _ in judged if other is not descriptor]
    if pasted.kind is None:
        names = f"; it fits {' and '.join(others)} too" if others else ", and it fits no other"
        kinds = f"the word does not say its kind: {descriptor.table} is taken{names}; write the kind before the word"
        says = (kinds, *says)
    said = f"tcgen05 {bits}: {descriptor}"
    return replace(_explanation(said, target, found), values=says, of=descriptor)


def _explain_results(results: list[Returned], target: Target) -> list[Diagnostic]:
    numbers = dict.fromkeys(returned.number for returned in results)
    calls = [
        FailedCall(n, any(one.encodes for one in of), launches=any(one.launches for one in of))
        for n in numbers
        if (of := [one for one in results if one.number == n])
    ]
    return [diagnostic for call in calls for diagnostic in explain_result(call, target)]


def _explain_maps(
    maps: list[PrintedMap], results: list[Returned], sentences: list[Diagnostic], text: str, target: Target
) -> Explanation:
    """Return the explanation of all different maps; what many dumps repeat is said once."""
    asked = {
        (_readings(printed), number): printed for printed, number in zip(maps, _numbers(maps, results), strict=True)
    }
    places: dict[Diagnostic, list[str]] = {}
    for index, (readings, number) in enumerate(asked):
        for diagnostic in _explain_map(asked[readings, number], readings, number, target):
            at = diagnostic.where if len(asked) == 1 else f"map {index + 1}: {readings[0]}"
            at = "the fields that are printed" if maps[0].missing else at
            places.setdefault(replace(diagnostic, where=""), []).append(at)
    found = [
        replace(diagnostic, where=at[0] + (f", and {len(at) - 1} more" if len(at) > 1 else ""))
        for diagnostic, at in places.items()
    ]
    found += _without(found, sentences)
    undecided = next((why for printed in asked.values() if (why := _left_open(printed, target))), "")
    if len(asked) > 1:
        return _undecided(_explanation(f"{len(asked)} tensor maps", target, found), undecided)
    readings, printed = next((readings, printed) for (readings, _), printed in asked.items())
    if printed.missing:
        return _undecided(_explanation("part of a tensor map's fields", target, found), undecided)
    first = readings[0]
    alone = explain_tensor_map(first, target, [d for d in found if d in violations(first, target)])
    alone = curing(alone, found, text)
    told = tuple(worst_first(found))
    legal = not any(d.level == "error" for d in told)
    whole = replace(alone, legal=legal, diagnostics=told, obligations=alone.obligations if legal else ())
    return _undecided(whole, undecided)


def _readings(printed: PrintedMap) -> tuple[TensorMap, ...]:
    """Return the maps that a dump may be of, without where their objects lay, which changes from run to run."""
    return tuple(replace(one, map_offset=one.map_offset % 64) for one in printed.readings)


def _left_open(printed: PrintedMap, target: Target) -> str:
    """Return why a dump's map cannot be called legal though no error is certain; empty if it can."""
    broken = [any(d.level == "error" for d in violations(one, target)) for one in printed.readings]
    torn = any(broken) and not all(broken)
    if printed.missing:
        lacks = " and ".join(filter(None, (", ".join(printed.missing[:-1]), printed.missing[-1])))
        are = "is" if printed.missing in (("the type",), ("the box",), ("the address",), ("the swizzle",)) else "are"
        by_one = f"; {_TORN}" if torn else ""
        return f"what is printed was judged; {lacks} {are} not printed, so nobody can call the map legal{by_one}"
    return _TORN if torn else ""


def _undecided(found: Explanation, why: str) -> Explanation:
    """Return `found` as undecided for a reason, unless it has errors or there is no reason."""
    if not why or any(d.level == "error" for d in found.diagnostics):
        return replace(found, values=(*found.values, why)) if why else found
    return replace(found, legal=False, undecided=why, obligations=())


def _explain_map(
    printed: PrintedMap, readings: tuple[TensorMap, ...], number: int | None, target: Target
) -> list[Diagnostic]:
    """Return what every map breaks that a dump may be of, and what its call returned."""
    first = readings[0]
    found = list(_certain([violations(one, target) for one in readings], first))
    if number is None:
        return found
    doubtful = not first.address and (len(readings) > 1 or "the address" in printed.missing)
    call = FailedCall(number, encodes=True, address=None if doubtful else first.address)
    meaning = list(explain_result(call, target))
    if left_behind(number):
        return [*(replace(diagnostic, level="warning") for diagnostic in meaning), *found]
    refused = any(diagnostic.refused_by == "driver" and diagnostic.level == "error" for diagnostic in found)
    # What the driver refuses a map for is the cause of its answer, so the answer itself is not told once more.
    return found if refused or target.tma is None else [*meaning, *found]


def _certain(judged: list[list[Diagnostic]], first: TensorMap) -> Iterator[Diagnostic]:
    """Yield what every reading of a dump breaks, in the words of the first; numbers that differ are said to be its.

    Readings that are all illegal, by different rules, leave nothing that is legal: what the first breaks is told then.
    """
    errors = [{d.code for d in found if d.level == "error"} for found in judged]
    if all(errors) and not set.intersection(*errors):
        others = ", ".join(sorted(set.union(*errors[1:])))
        for diagnostic in judged[0]:
            if diagnostic.level == "error":
                said = f"{diagnostic.message}, read as {first}; read any other way it breaks {others}"
                yield replace(diagnostic, message=said)
        return
    for diagnostic in judged[0]:
        same = [next((d for d in found if d.code == diagnostic.code), None) for found in judged]
        if None not in same:
            differ = len({d.message for d in same if d is not None}) > 1
            said = (
                f"{diagnostic.message}, read as {first.dtype}; so read any other way" if differ else diagnostic.message
            )
            yield replace(diagnostic, message=said)


def _numbers(maps: list[PrintedMap], results: list[Returned]) -> list[int | None]:
    """Return what the encode call of each map returned: in order if every one is told, else the nearest in the text."""
    told: list[Returned] = []
    for returned in results:
        # One line may tell it thrice: 1 (CUDA_ERROR_INVALID_VALUE: invalid argument).
        if not told or returned.number != told[-1].number or returned.at - told[-1].at > 80:
            told.append(returned)
    if len(told) == len(maps):
        return [returned.number for returned in told]
    return [
        min(told, key=lambda one: max(printed.begin - one.at, one.at - printed.end)).number if told else None
        for printed in maps
    ]
