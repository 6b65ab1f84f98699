"""Compiling ahead: the kernels of many products at once, into the cache or into a pack."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from legalsat import files
from legalsat.checks import integer
from legalsat.errors import LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.runtime.choice import candidates
from legalsat.runtime.packs import write_pack
from legalsat.targets import Target


@dataclass(frozen=True, slots=True)
class Built:
    """What was compiled ahead.

    Attributes:
        products: whose kernels there are now. texts: that they share, those of operands' relayouts among them.
        refused: products without a kernel, and texts that were refused, each with the reason.
        compiler: that made them. seconds: that it took. bytes: of the cubins, or of the pack.
    """

    products: int
    texts: int
    refused: tuple[tuple[str, str], ...]
    compiler: str
    seconds: float
    bytes: int


def build(
    products: Iterable[Gemm],
    target: Target,
    *,
    pack: str | Path | None = None,
    kernels: int = 1,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Built:
    """Compile the kernels of products that cute prints, several at once: compilers are processes of their own.

    Args:
        products: of any extents and strides.
        target: the GPU.
        pack: a file to write the cubins to; they are in the cache besides.
        kernels: of each product, predicted fastest first.
        workers: compilers at once; as many as there are cores when left out.
        on_progress: is told how many texts are compiled, and of how many.

    Raises:
        InvalidInput: a number is less than 1, or the pack cannot be written.
        LegalSatError: the compiler is missing.
    """
    integer(kernels, "kernels", low=1)
    if workers is not None:
        integer(workers, "workers", low=1)
    from legalsat.backends.cute.compile import cubin_of, nvcc_version  # noqa: PLC0415 - backends make programs

    begun, compiler, refused = time.monotonic(), nvcc_version(), list[tuple[str, str]]()
    if pack is not None:
        files.writable(pack)
    users: dict[tuple[str, str], set[str]] = {}
    names = list[str]()
    for product in products:
        name = str(product)
        names.append(name)
        found = [program for _, _, program in candidates(product, target, kernels)]
        if not found:
            refused.append((name, f"cute prints no kernel of it for {target.name}"))
        for one in (one for program in found for one in program.in_order):
            users.setdefault((one.text, one.architecture), set()).add(name)
    cubins = dict[tuple[str, str], bytes]()
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        coming = {pool.submit(cubin_of, *text): text for text in users}
        for done in as_completed(coming):
            text = coming[done]
            try:
                cubins[text] = done.result()
            except LegalSatError as error:
                refused += [(name, str(error)) for name in sorted(users[text])]
            if on_progress is not None:
                on_progress(len(cubins), len(users))
    size = sum(map(len, cubins.values()))
    if pack is not None:
        about = {"target": target.name, "compiler": compiler, "kernels": len(cubins), "products": names}
        size = write_pack(pack, ((*text, cubin) for text, cubin in cubins.items()), about)
    lost = {name for name, _ in refused}
    whole = sum(name not in lost for name in names)
    return Built(whole, len(cubins), tuple(refused), compiler, time.monotonic() - begun, size)
