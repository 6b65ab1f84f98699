"""What a PyTorch model computes, as rows of a sweep: `with legalsat.torch.record() as shapes: model(x)`.

    with legalsat.torch.record() as shapes, torch.no_grad():
        model(x)                               # on the CPU, on a GPU, or on device="meta" without any memory
    print(shapes)                              # the operators, how often each runs, and what was passed over
    legalsat.sweep(shapes, "h200", out="model.parquet")
    shapes.save("model.json")                  # for `legalsat sweep model.json`

Recorded are products of matrices, attention (as one operator, not as the products inside it), convolutions, copies,
transposes and padding, with strides, element types and addresses as they are. What runs is what would run without it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from legalsat import files
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.sweeps.problem import problem_of
from legalsat.torch.rows import CannotSay, Reader, Row, attention, reader, storage_of

FUSED = "fused; torch.backends.mha.set_fastpath_enabled(False) shows its products"
BACKWARD = "backward"  # the name of what no module calls, since autograd does


class Recording:
    """The operators that ran, as rows that `legalsat.sweep` takes; equal ones are one row with a `count`.

    Attributes:
        passed_over: what ran besides and is no row, with how often: operators that no tensor map concerns, as sums and
            activations, and those that rows cannot say, with the reason.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[Any, ...], tuple[Row, list[int]]] = {}
        self.passed_over: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Row]:
        for row, count in self._rows.values():
            plain = {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}
            yield {**plain, "count": count[0]}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row, called: str) -> None:
        """Count a row; one that makes no problem is passed over, with the reason."""
        known = self._rows.get(key := tuple(row.items()))
        if known is not None:
            known[1][0] += 1
            return
        try:
            problem_of(row, 1)
        except LegalSatError as error:
            self.passed_over[f"{called}: {error}"] += 1
        else:
            self._rows[key] = (row, [1])

    def save(self, path: str | Path) -> None:
        """Write the rows as JSON, which `legalsat sweep` reads.

        Raises:
            InvalidInput: the name does not end in .json, or no file can be written there.
        """
        file = Path(path)
        if file.suffix.lower() != ".json":
            raise InvalidInput(f"{file.name} does not end in .json; name it so, since files are read by their suffix")
        text = "[\n" + ",\n".join(map(json.dumps, self)) + "\n]\n"
        files.write(file, text)

    def __str__(self) -> str:
        from legalsat.view.show import table  # noqa: PLC0415 - which stands above this module

        if not self._rows and not self.passed_over:
            return "no operator was recorded"
        found = [problem_of(row, 1) for row in self]
        lines = table([(f"{one.count} x", str(one.operator), one.name) for one in found], indent="") if found else []
        lines += [f"passed over: {count} x {what}" for what, count in self.passed_over.most_common()]
        return "\n".join(lines)


@contextmanager
def record() -> Iterator[Recording]:
    """Record the operators that this thread runs in PyTorch, and those of backward passes that it starts.

    Rows have the path of the module that ran them as `name`, "backward" where autograd did. `offset`s are those of the
    addresses past multiples of 16 bytes; on meta tensors, which have none, those of views into their storage. Weights
    that need no gradients, as under torch.no_grad(), are `constant_b`. No tensor is kept.

    Operators are seen as PyTorch dispatches them one by one, so functions of torch.compile run uncompiled meanwhile.
    Attention is one row where it is called as torch.nn.functional.scaled_dot_product_attention or flex_attention, or
    where PyTorch has one kernel for it. The fused kernels of torch.nn.MultiheadAttention and
    torch.nn.TransformerEncoderLayer are passed over, and it is said how to switch them off.
    """
    found, paths = Recording(), _Paths()
    recorder = _Recorder(found, paths)
    attend = torch.nn.functional.scaled_dot_product_attention
    attended = _one_operator(attend, recorder)
    hooks = register_module_forward_pre_hook(paths.enter), register_module_forward_hook(paths.leave, always_call=True)
    torch.nn.functional.scaled_dot_product_attention = attended
    try:
        with _uncompiled(), recorder:
            yield found
    finally:
        if torch.nn.functional.scaled_dot_product_attention is attended:
            torch.nn.functional.scaled_dot_product_attention = attend
        for hook in hooks:
            hook.remove()


def _uncompiled() -> AbstractContextManager[Any]:
    """Return what runs functions of torch.compile as they are; torch 2.5 and earlier do so while somebody looks on."""
    stance = getattr(torch.compiler, "set_stance", None)
    found: AbstractContextManager[Any] = nullcontext() if stance is None else stance("force_eager")
    return found


class _Paths:
    """Which module is at work, by its path from the outermost one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._stack: list[tuple[Any, str]] = []

    def enter(self, module: Any, _inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if not self._stack:
            self._stack.append((module, ""))
            return
        parent, path = self._stack[-1]
        names = (name for name, one in parent.named_modules(remove_duplicate=False) if one is module and name)
        name = next(names, type(module).__name__)
        self._stack.append((module, f"{path}.{name}" if path else name))

    def leave(self, module: Any, _inputs: Any, _output: Any) -> None:
        places = [place for place, (one, _) in enumerate(self._stack) if one is module]
        if places and threading.get_ident() == self._thread:
            del self._stack[places[-1] :]

    @property
    def name(self) -> str:
        if self._stack:
            return self._stack[-1][1]
        return BACKWARD if torch._C._current_autograd_node() is not None else ""

    def constant(self, storage: int) -> bool:
        """Whether a storage is of a parameter of a module at work that needs no gradient now."""
        parameters = (one for module, _ in self._stack for one in module.parameters(recurse=False))
        return any(
            storage_of(one) == storage for one in parameters if not (one.requires_grad and torch.is_grad_enabled())
        )


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operator below autograd, notes it, and runs it."""

    supports_higher_order_operators = True

    def __init__(self, found: Recording, paths: _Paths) -> None:
        super().__init__()
        self.found, self.paths, self.silent = found, paths, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):  # takes functions, as flex_attention does
            result = func(*args, **kwargs)
            if str(func) == "flex_attention":
                self.note(attention, str(func), dict(zip(("query", "key", "value"), args, strict=False)), result)
            else:
                self.found.passed_over[str(func)] += 1
            return result
        known = reader(func)
        if known is None and _composite(func):  # in inference mode those come whole
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        called = str(func.overloadpacket)
        if known is not None:
            self.note(known, called, _named(func, args, kwargs), result)
        elif not _only_a_view(func):
            self.found.passed_over[f"{called}: {FUSED}" if called in _FUSED else called] += 1
        return result

    def note(self, read: Reader, called: str, given: dict[str, Any], result: Any) -> None:
        """Add the row of an operator."""
        try:
            row = read(given, result)
        except (CannotSay, LegalSatError) as error:
            self.found.passed_over[f"{called}: {error}"] += 1
            return
        storage = row.pop("storage", None)
        if storage and self.paths.constant(storage):
            row["constant_b"] = True
        self.found.add({**row, "name": self.paths.name}, called)


def _one_operator(attend: Any, recorder: _Recorder) -> Any:
    """Return attention that is recorded as a whole: PyTorch has no operator for it where it has no kernel for it."""
    thread = threading.get_ident()

    def scaled_dot_product_attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.silent or torch.compiler.is_compiling() or threading.get_ident() != thread:
            return attend(query, key, value, *args, **kwargs)
        recorder.silent = True
        try:
            result = attend(query, key, value, *args, **kwargs)
        finally:
            recorder.silent = False
        given = dict(zip(("attn_mask", "dropout_p", "is_causal"), args, strict=False))
        given |= {"query": query, "key": key, "value": value, **kwargs}
        recorder.note(attention, "scaled_dot_product_attention", given, result)
        return result

    return scaled_dot_product_attention


def _named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return an operator's arguments by name."""
    arguments = func._schema.arguments
    given = {one.name: one.default_value for one in arguments if one.has_default_value()}
    return {**given, **{one.name: value for one, value in zip(arguments, args, strict=False)}, **kwargs}


@lru_cache(maxsize=4096)
def _composite(func: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


@lru_cache(maxsize=4096)
def _only_a_view(func: Any) -> bool:
    """Whether an operator touches no element of an existing tensor."""
    name = func._schema.name.removeprefix("aten::")
    views = any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
    return views or name in _NO_WORK or name.startswith(("empty", "new_empty", "sym_"))


_NO_WORK = ("_unsafe_view", "detach", "lift_fresh", "_local_scalar_dense")
_FUSED = ("aten._native_multi_head_attention", "aten._transformer_encoder_layer_fwd")
