"""A printed kernel of a product on the PTX machine: launched, recorded, and compared with its program."""

from __future__ import annotations

import math
from dataclasses import replace

from legalsat.analyses.ptx_machine import Run
from legalsat.analyses.ptx_machine_events import Recorder
from legalsat.analyses.ptx_machine_program import compile_kernel
from legalsat.analyses.ptx_text import parse
from legalsat.extract.conformance import conformance
from legalsat.extract.kernel_launches import Launch
from legalsat.extract.kernel_program import kernel_program
from legalsat.extract.product_maps import result_lies, result_map, source_maps
from legalsat.gemm import Gemm
from legalsat.pipeline import Pipeline
from legalsat.product_kernel import ProductKernel
from legalsat.tensor_map import TensorMap

MAP_BYTES = 128  # of a tensor map among the parameters
MOST_WORK = 20_000_000  # instructions of a run


class PrintedKernel:
    """The PTX of a kernel, made ready to run.

    Args:
        ptx: what nvcc makes of the text that backend cute prints for the kernel.
        gemm: a product that the kernel computes.
        kernel: how it does.

    Attributes:
        program: what the kernel does, which backends print.
        events: that the last run recorded, of all warps together. warnings: what the machine found in it.

    Raises:
        NotPtx: the text is none.
        Undecided: it uses what the machine does not follow.
    """

    def __init__(self, ptx: str, gemm: Gemm, kernel: ProductKernel) -> None:
        module = parse(ptx)
        (entry,) = module.kernels
        self.gemm, self.kernel = gemm, kernel
        self.program = kernel_program(kernel, gemm.out_dtype.bytes)
        shape = replace(entry, cluster=(kernel.cluster_blocks, 1, 1), threads=(kernel.threads, 1, 1))
        self._machine = compile_kernel(module, shape)
        self._recorder = Recorder(self._machine)
        self._names = [one.name for one in entry.parameters]
        (self._base,) = (self._machine.symbols[name] for name in self._machine.shared)
        maps = [one.map for found in source_maps(gemm, kernel) for one in found]
        maps += [one.map for one in result_map(gemm, kernel)] if kernel.store == "tma" else []
        self._boxes = {
            self._names[0] + (f"+{MAP_BYTES * n}" if n else ""): _box_bytes(one) for n, one in enumerate(maps)
        }
        self.events = 0
        self.warnings: list[str] = []

    def differences(self, launch: Launch, program: Pipeline | None = None) -> list[str]:
        """Run a launch, and return in words where the text does not do what its program, or another one, says.

        Raises:
            Undecided: the text depends on what is not known, or does not end.
        """
        numbers = dict(zip(self._names[1:], launch.numbers, strict=True))
        self._recorder.clear()
        run = Run(self._machine, launch.blocks | numbers, self._boxes, MOST_WORK)
        run.run()
        streams = self._recorder.streams
        self.events = sum(event.what != "lanes" for stream in streams.values() for event in stream)
        self.warnings = [one.message for one in run.order.findings.values()]
        along_rows, _ = result_lies(self.gemm, self.kernel)
        return conformance(
            program or self.program, launch.values, self.kernel, streams, along_rows=along_rows, base=self._base
        )


def _box_bytes(tensor_map: TensorMap) -> int:
    return math.prod(tensor_map.box) * tensor_map.element_bytes
