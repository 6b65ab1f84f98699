"""What people paste, recognised and explained: dumps of tensor maps, error texts, CUresults, descriptor words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from legalsat.api import violations
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.explanation import USES, Explanation
from legalsat.extract.explain import explain_tensor, explain_tensor_map
from legalsat.extract.explain_word import explain_word, unit_lacking, word_of
from legalsat.pasted_maps import PrintedMap, printed_maps
from legalsat.pasted_results import (
    FailedCall,
    Returned,
    explain_result,
    left_behind,
    returned_results,
)
from legalsat.pasted_sentences import explain_sentences
from legalsat.pasted_tensors import printed_copy
from legalsat.pasted_words import (
    INSTRUCTION_BITS,
    InstructionWord,
    pasted_instruction,
    pasted_word,
    read_instruction,
)
from legalsat.rules import judge
from legalsat.targets import Target
from legalsat.tcgen05_sites import InstructionBits
from legalsat.tensor_map import TensorMap
from legalsat.tensor_map_bytes import decode

FORMS = (
    "the dump of a tensor map by CUTLASS, TileLang, TensorRT-LLM or Triton (globalDim, boxDim, ...)",
    "an error text of Triton, TileLang, CUTLASS or PyTorch about one",
    "a tensor's shape, strides and dtype",
    "a CUresult or cudaError, by number or name",
    "a 64-bit matrix descriptor of wgmma or tcgen05, or a 32-bit instruction descriptor of tcgen05",
    "the 128 bytes of a CUtensorMap as hex",
)
_BETWEEN_DIGITS = re.compile(r"0[xX]|[\s,]")
_MAP_DIGITS = re.compile(r"[0-9a-fA-F]{256}")


def explain_pasted(text: str, target: Target, uses: int = USES) -> Explanation:
    """Return what a pasted text says is wrong, and what to change.

    Numbers outweigh words: where a text prints a tensor map's or a tensor's fields, these are judged.

    Raises:
        InvalidInput: nothing in the text is understood, or what is understood is garbled.
    """
    readable = text.replace("\\n", "\n")  # as logs print the text of an exception
    if _MAP_DIGITS.fullmatch(_BETWEEN_DIGITS.sub("", readable)):
        decoded = decode(readable)
        return explain_tensor_map(decoded, target, violations(decoded, target))
    of_a_word = _explain_word(readable, target)
    if of_a_word is not None:
        return of_a_word
    results, sentences = returned_results(readable), list(explain_sentences(readable, target))
    maps = printed_maps(readable)
    if maps:
        return _explain_maps(maps, results, sentences, target)
    copy = printed_copy(readable)
    if copy is not None:
        found = explain_tensor(copy, target, alone=True, uses=uses)
        more = _unsaid(sentences, found.diagnostics)
        return replace(found, legal=found.legal and not more, diagnostics=(*found.diagnostics, *more))
    if sentences:
        return _explanation("the pasted text", target, sentences)
    if results:
        return _explanation("the pasted text", target, _explain_results(results, target))
    raise InvalidInput(f"nothing in the text is understood; paste {'; or '.join(FORMS)}")


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
    calls = [FailedCall(n, any(r.encodes for r in results if r.number == n)) for n in numbers]
    return [diagnostic for call in calls for diagnostic in explain_result(call, target)]


def _explain_maps(
    maps: list[PrintedMap], results: list[Returned], sentences: list[Diagnostic], target: Target
) -> Explanation:
    """Return the explanation of all different maps; what many dumps repeat is said once."""
    asked = dict.fromkeys(
        (replace(printed.tensor_map, map_offset=printed.tensor_map.map_offset % 64), number)
        for printed, number in zip(maps, _numbers(maps, results), strict=True)
    )
    places: dict[Diagnostic, list[str]] = {}
    for index, (tensor_map, number) in enumerate(asked):
        for diagnostic in _explain_map(tensor_map, number, target):
            at = diagnostic.where if len(asked) == 1 else f"map {index + 1}: {tensor_map}"
            places.setdefault(replace(diagnostic, where=""), []).append(at)
    found = [
        replace(diagnostic, where=at[0] + (f", and {len(at) - 1} more" if len(at) > 1 else ""))
        for diagnostic, at in places.items()
    ]
    found += _unsaid(sentences, found)
    first = next(iter(asked))[0]
    if len(asked) > 1:
        return _explanation(f"{len(asked)} tensor maps", target, found)
    alone = explain_tensor_map(first, target, [d for d in found if d in violations(first, target)])
    told = tuple(worst_first(found))
    legal = not any(d.level == "error" for d in told)
    return replace(alone, legal=legal, diagnostics=told, obligations=alone.obligations if legal else ())


def _explain_map(tensor_map: TensorMap, number: int | None, target: Target) -> list[Diagnostic]:
    found = violations(tensor_map, target)
    if number is None:
        return found
    meaning = list(explain_result(FailedCall(number, encodes=True, address=tensor_map.address), target))
    if left_behind(number):
        return [*(replace(diagnostic, level="warning") for diagnostic in meaning), *found]
    refused = any(diagnostic.refused_by == "driver" and diagnostic.level == "error" for diagnostic in found)
    # What the driver refuses a map for is the cause of its answer, so the answer itself is not told once more.
    return found if refused or target.tma is None else [*meaning, *found]


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


def _unsaid(sentences: Iterable[Diagnostic], found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the sentences whose rules the numbers do not break already: one cause, one error."""
    codes = {diagnostic.code for diagnostic in found}
    return [sentence for sentence in sentences if sentence.code not in codes]
