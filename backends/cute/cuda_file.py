"""One `.cu` of a program in CUDA C++: kernels as `compile()` compiles them, what launches them, and how to use it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from legalsat.backends.cute.compile import OPTIONS
from legalsat.backends.host.launcher import Launcher, described
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import Program
from legalsat.runtime.schedule import Schedule

HEADERS = '-I "$CUTLASS_PATH/include"'
_FIRST = re.compile(r"^#(?:include <.*>|define CUTE_\w+)$", re.MULTILINE)  # what stands in front of all texts
_INDENT = "    "


def command(launcher: Launcher, *options: str) -> str:
    """Return the nvcc line of a file, with the options that say what to make of it."""
    number = launcher.schedule.architecture.removeprefix("sm_")
    includes = [HEADERS] if _needs_headers(launcher) else []
    first = " ".join(["nvcc", *OPTIONS, f"-gencode=arch=compute_{number},code=sm_{number}"])
    return f"{first} \\\n{2 * _INDENT}{' '.join([*includes, *options])}"


def _needs_headers(launcher: Launcher) -> bool:
    return any("<cute/" in text for text in launcher.texts)


def cuda_file(
    program: Program | Schedule | OpenProgram,
    title: str,
    name: str,
    self_test: str = "",
    *,
    notes: Sequence[str] = (),
    kernels: Mapping[tuple[str, str], str] | None = None,
    in_place_of: Mapping[str, str] | None = None,
) -> str:
    """Return a file that compiles by the line in it, and is called by the lines in it.

    Args:
        program: of CUDA C++, relayouts in front too, but for texts that others stand in place of; or several; or one of
            open dims, which every function of the file takes, too.
        title: what the file is, a line.
        name: under which it is to be saved, without ".cu".
        self_test: C++ with a `main` that tries it out; none when empty.
        notes: lines that end the comment.
        kernels: as of `Launcher.text`.
        in_place_of: for texts in another language what stands there for them.
    """
    launcher, named, other = Launcher(program), dict(kernels or {}), in_place_of or {}
    shown = {text: other.get(text, text) for text in launcher.texts}
    printed = list(shown.values())
    if len(printed) > 1 and _shared_names(printed):
        found = dict.fromkeys(line for text in printed for line in _FIRST.findall(text))
        first = sorted(found, key=lambda line: line.startswith("#include"))  # what headers are told comes first
        apart = (_apart(number, *one, named) for number, one in enumerate(shown.items()))
        printed = ["\n".join([*first, ""]), *apart]
    head = [*_head(launcher, title, name, tested=bool(self_test)), *([""] if notes else []), *notes]
    parts = [_comment(head), *printed, launcher.text(named)]
    if self_test:
        parts.append(f"#ifdef LEGALSAT_MAIN\n{self_test}#endif")
    return "\n".join([*parts, ""]).rstrip("\n") + "\n"


def _shared_names(texts: list[str]) -> bool:
    """Whether texts have in common a kernel's name, the namespace of what a plan fixes, or a text in PTX's."""
    spaces = (re.findall(r"^namespace plan\b|^static char const ptx\b", text, re.MULTILINE) for text in texts)
    names = [name for found in (*map(_entries, texts), *spaces) for name in found]
    return len(set(names)) < len(names)


def _entries(text: str) -> list[str]:
    found = re.findall(r'extern "C" __global__[^;{]*?(\w+)\s*\([^()]*\)\s*\{', text)
    return [str(name) for name in found]


def _apart(number: int, text: str, shown: str, kernels: dict[tuple[str, str], str]) -> str:
    """Return what is shown of a text with names of its own in a file; writes down what its kernels are then.

    It is in a namespace. What it includes has been included before; its kernels, which are C's and so know no
    namespaces, are called otherwise by macros. Macros that it defines end with it: the next may have a part of it too.
    """
    space, names = f"text_{number}", _entries(shown)
    for (of, entry), found in kernels.items():
        if of == text:
            kernels[of, entry] = f"{space}::{found}"
    for entry in names:
        kernels[text, entry] = f"reinterpret_cast<void const *>({space}::{entry}_{number})"
    begin = [*(f"#define {name} {name}_{number}" for name in names), f"namespace {space} {{"]
    macros = dict.fromkeys((*names, *re.findall(r"^#define (\w+)", shown, re.MULTILINE)))
    return "\n".join([*begin, shown, f"}}  // namespace {space}", *(f"#undef {name}" for name in macros), ""])


def _comment(lines: list[str]) -> str:
    """Return a comment whose lines one can copy."""
    return "\n".join(["/*", *(line.rstrip() for line in lines), "*/", ""])


def _head(launcher: Launcher, title: str, name: str, *, tested: bool) -> list[str]:
    lines = [title, "Written by LegalSAT, which it needs no more. Needs nvcc of CUDA 12.8 or later."]
    if _needs_headers(launcher):
        lines += ["CUTLASS_PATH is a checkout of CUTLASS 4, or the folder `cutlass_library/source` of nvidia-cutlass."]
    lines += ["", f"Save it as {name}.cu. A shared library, an object" + ", a program that tests it:" * tested]
    lines += [_INDENT + command(launcher, "-shared", "-Xcompiler=-fPIC", f"-o lib{name}.so", f"{name}.cu")]
    lines += [_INDENT + command(launcher, "-c", f"-o {name}.o", f"{name}.cu")]
    if tested:
        lines += [_INDENT + command(launcher, "-DLEGALSAT_MAIN", f"-o {name}", f"{name}.cu")]
    lines += ["", *described(launcher.schedule)]
    if launcher.open:
        lines += [f"{dim}: an extent, given at the call" for dim in launcher.dims]
        lines += [f"`run` takes extents where {launcher.open.guard}, and refuses others"]
        if len(launcher.ways) > 1:
            lines += [f"It launches one of {len(launcher.ways)} kernels, by the extents."]
        size = "what `workspace_bytes` says of the extents"
    else:
        bytes_needed = launcher.ways[0].bytes
        size = f"{bytes_needed} bytes" if bytes_needed else "none"
    lines += [f"workspace: {size}; calls that may run at once need one each", "", "From C++, linked with the object:"]
    lines += [f"{_INDENT}{line}" for line in declarations(launcher)]
    lines += ["From Python, with arrays that torch owns:", *(f"{_INDENT}{line}" for line in _python(launcher, name))]
    lines += [
        "`run` returns 0, a cudaError_t, or a code below 0, all of which `message` puts into words. It launches in the",
        "stream and does not wait.",
    ]
    if launcher.prepares:
        lines += ["`prepare` lays out what is constant, once for all calls of `run` with that workspace."]
    return lines


def declarations(launcher: Launcher) -> list[str]:
    """Return the functions of a launcher as another C++ file declares them."""
    found = [
        f"std::size_t workspace_bytes({', '.join(launcher.sizes)});",
        f"int run({', '.join(launcher.parameters)});",
    ]
    if launcher.prepares:
        found.append(f"int prepare({', '.join(launcher.prepared)});")
    return [f'extern "C" {line}' for line in [*found, "char const *message(int code);"]]


def _python(launcher: Launcher, name: str) -> list[str]:
    sizes = [f"ctypes.c_int64({dim})" for dim in launcher.dims]

    def call(function: str, parameters: list[str]) -> list[str]:
        names = [re.findall(r"\w+", one)[-1] for one in parameters[: len(parameters) - 1 - len(sizes)]]
        pointers = f"*(ctypes.c_void_p(one.data_ptr()) for one in ({', '.join(names)}))"
        code = f"code = library.{function}({', '.join([pointers, *sizes, 'stream'])})"
        return [code, "assert code == 0, library.message(code)"]

    return [
        "import ctypes, torch",
        f'library = ctypes.CDLL("./lib{name}.so")',
        "library.workspace_bytes.restype, library.message.restype = ctypes.c_size_t, ctypes.c_char_p",
        f'workspace = torch.empty(library.workspace_bytes({", ".join(sizes)}), dtype=torch.uint8, device="cuda")',
        "stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)",
        *(call("prepare", launcher.prepared) if launcher.prepares else []),
        *call("run", launcher.parameters),
    ]
