"""Python in a text that is followed: names, loops, functions, and views, which numpy takes as well."""

from __future__ import annotations

import random

import numpy as np
import pytest

from legalsat.pasted.code.expressions import Called
from legalsat.pasted.code.python import follow
from legalsat.pasted.code.views import Array


def last(code: str) -> Array | None:
    """Return the array that the text uses last, as a call of something unknown is given it."""
    calls = [one for one in follow(code).calls if one.name == "use"]
    given = calls[-1].arguments[0] if calls else None
    assert given is None or isinstance(given, Array)
    return given


def called(code: str) -> list[Called]:
    return [one for one in follow(code).calls if one.name == "use"]


def step(draw: random.Random, array: np.ndarray) -> str:
    """Return a view that numpy can take of an array, as text."""
    rank = array.ndim
    axis, other = draw.randrange(rank), draw.randrange(rank)
    order = list(range(rank))
    draw.shuffle(order)
    begin = draw.randrange(array.shape[axis])
    end = draw.choice(
        ["", str(draw.randrange(begin, array.shape[axis]) + 1), "-1" if array.shape[axis] > begin + 1 else ""]
    )
    before = ":, " * axis
    kinds = [
        ".T",
        f".transpose({', '.join(map(str, order))})",
        f".swapaxes({axis}, {other - rank})",
        f"[{before}{begin}:{end}]",
        f"[{before}{begin or ''}:{end}:{draw.choice([1, 2, 3])}]",
        f"[..., {draw.randrange(array.shape[-1])}:]",
        f"[{before}None]",
        f".reshape({', '.join(map(str, regrouped(draw, array.shape)))})",
    ]
    if rank > 1:
        kinds.append(f"[{before}{begin - draw.choice([0, array.shape[axis]])}]")
    return draw.choice(kinds)


def regrouped(draw: random.Random, shape: tuple[int, ...]) -> list[int]:
    """Return other extents of as many elements: two neighbours merged, or one split; one of them may be -1."""
    sizes = list(shape)
    at = draw.randrange(len(sizes))
    if len(sizes) > 1 and draw.random() < 0.5:
        at = min(at, len(sizes) - 2)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    else:
        factor = draw.choice([n for n in range(1, sizes[at] + 1) if sizes[at] % n == 0])
        sizes[at : at + 1] = [factor, sizes[at] // factor]
    if draw.random() < 0.3 and 0 not in sizes:
        sizes[draw.randrange(len(sizes))] = -1
    return sizes


def test_chains_of_views_lie_as_numpy_lays_them() -> None:
    draw = random.Random(20260101)
    for _ in range(1500):
        shape = tuple(draw.choice([1, 2, 3, 4, 6, 8]) for _ in range(draw.randrange(1, 5)))
        text, array = f"np.zeros({shape}, dtype=np.float16)", np.zeros(shape, np.float16)
        base = array
        for _ in range(draw.randrange(1, 5)):
            more = step(draw, array)
            if array.ndim >= 8 or not array.size:
                break
            text, array = text + more, eval(f"array{more}", {"array": array})
            base = base if np.shares_memory(array, base) else array  # where a reshape had to copy
        found = last(f"import numpy as np\nx = {text}\nuse(x)")
        assert found is not None, text
        if not array.size:
            assert found.shape == array.shape, text
            continue
        assert found.shape == array.shape and found.dtype == "fp16", text
        elements = [stride // 2 for stride in array.strides]
        moving = [at for at in range(array.ndim) if array.shape[at] > 1]  # other strides are anybody's
        assert [found.strides[at] for at in moving] == [elements[at] for at in moving], text
        begin = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        assert found.offset == begin // 2, text


@pytest.mark.parametrize(
    ("code", "shape", "strides"),
    [
        ("M, N = 128, 4095\nuse(torch.randn(M, N))", (128, 4095), (4095, 1)),
        ("B, H = 2, 8\nuse(torch.empty(B * H, 64 // 4, 2**3 + 1))", (16, 16, 9), (144, 9, 1)),
        ("N = triton.cdiv(1000, 128) * 128\nuse(torch.zeros(4, N))", (4, 1024), (1024, 1)),
        ("use(torch.ones(triton.next_power_of_2(1000), 3))", (1024, 3), (3, 1)),
        ("shape = [4, 8]\nuse(torch.rand(*shape, 3))", (4, 8, 3), (24, 3, 1)),
        ("kw = dict(device='cuda', dtype=torch.half)\nuse(torch.rand(4, 8, **kw))", (4, 8), (8, 1)),
        ("import torch as th\nuse(th.randn(3, 5).t())", (5, 3), (1, 5)),
        ("from torch import randn\nuse(randn(3, 5).mT)", (5, 3), (1, 5)),
        ("q, k, v = torch.randn(2, 9, 3 * 64).chunk(3, dim=-1)\nuse(k)", (2, 9, 64), (1728, 192, 1)),
        ("a, b = torch.randn(8, 96).split([32, 64], 1)\nuse(b)", (8, 64), (96, 1)),
        ("x = torch.randn(2, 3, 4).unbind(1)[2]\nuse(x)", (2, 4), (12, 1)),
        ("use(torch.randn(6, 8).narrow(1, 2, 4))", (6, 4), (8, 1)),
        ("use(torch.randn(6, 8).select(0, 3))", (8,), (1,)),
        ("use(torch.randn(6, 1).expand(6, 16))", (6, 16), (1, 0)),
        ("use(torch.randn(6, 8).unsqueeze(1))", (6, 1, 8), (8, 8, 1)),
        ("use(torch.randn(6, 1, 8).squeeze(1))", (6, 8), (8, 1)),
        ("use(torch.randn(6, 8).t().contiguous())", (8, 6), (6, 1)),
        ("use(torch.randn(6, 8).t().clone())", (8, 6), (1, 8)),
        ("use(torch.empty_like(torch.randn(6, 8)[:, :4]))", (6, 4), (4, 1)),
        ("use(F.pad(torch.randn(6, 7), (0, 1)))", (6, 8), (8, 1)),
        ("use(torch.cat([torch.randn(6, 7), torch.randn(2, 7)]))", (8, 7), (7, 1)),
        ("use(torch.stack([torch.randn(7), torch.randn(7)], 1))", (7, 2), (2, 1)),
        ("use(jnp.zeros((6, 8)).T)", (8, 6), (6, 1)),
        ("use(jax.random.normal(key, (6, 8), dtype=jnp.bfloat16)[:, 1:])", (6, 7), (7, 1)),
        ("torch.arange(0, 9, 0)\nuse(torch.arange(1, 9, 2))", (4,), (1,)),
        ("use(torch.randn(4, 6).flatten())", (24,), (1,)),
        ("use(torch.randn(4, 6).unflatten(1, (2, 3)))", (4, 2, 3), (6, 3, 1)),
        ("x = torch.randn(4, 8)\nuse(torch.randn(x.shape[1], x.size(0)))", (8, 4), (4, 1)),
        ("use(torch.randn(4, 8) @ torch.randn(8, 5))", (4, 5), (5, 1)),
        ("use([torch.randn(4, n) for n in (3, 5)][1])", (4, 5), (5, 1)),
        # A parameter bound by a call, a default, by pytest.
        ("def f(m, n=7):\n    use(torch.randn(m, n))\nf(4)", (4, 7), (7, 1)),
        ("def make(n):\n    return torch.randn(4, n).t()\nuse(make(9))", (9, 4), (1, 9)),
        ("@pytest.mark.parametrize('n', [5, 9])\ndef test(n):\n    use(torch.randn(4, n))", (4, 9), (9, 1)),
        (
            "@pytest.mark.parametrize('m,n', [(2, 3), (4, 9)])\ndef test(m, n):\n    use(torch.randn(m, n))",
            (4, 9),
            (9, 1),
        ),
        ("for n in [5, 9]:\n    use(torch.randn(4, n))", (4, 9), (9, 1)),
        ("if __name__ == '__main__':\n    use(torch.randn(4, 9))", (4, 9), (9, 1)),
        # Among prose, prompts, logs and lines that are no Python.
        ("It fails with this:\n>>> x = torch.randn(4, 9)\n>>> use(x)\nand so on (see above).", (4, 9), (9, 1)),
        ("Traceback:\n  File x.py, line 3 in <module>\nx = torch.randn(4, 9)\nuse(x)\nTypeError: no", (4, 9), (9, 1)),
        ("def f(:\n    x = torch.randn(4, 9)\n    use(x)\n", (4, 9), (9, 1)),
        ("    x = torch.randn(\n        4,\n        9,\n    )\n    use(x)", (4, 9), (9, 1)),
    ],
)
def test_what_code_makes_is_followed(code: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    found = last(code)
    assert found is not None and (found.shape, found.strides) == (shape, strides)


@pytest.mark.parametrize(
    "code",
    [
        "use(torch.randn(n, 8))",
        "n = int(input())\nuse(torch.randn(4, n))",
        "n = 8\nif cuda:\n    n = 9\nuse(torch.randn(4, n))",
        "n = 8\nwhile busy():\n    n += 1\nuse(torch.randn(4, n))",
        "for n in lengths:\n    use(torch.randn(4, n))",
        "def f(n=8):\n    use(torch.randn(4, n))",  # nobody says that it is called without
        "def f(x):\n    if x:\n        return 8\n    return 9\nuse(torch.randn(4, f(y)))",
        "x = torch.randn(4, 9)\nx = pad(x)\nuse(x)",
        "use(torch.randn(4, 9)[mask])",
        "use(torch.randn(4, 9)[:, :n])",
    ],
)
def test_what_is_not_certain_stays_unknown(code: str) -> None:
    found = last(code)
    assert found is None or None in found.shape


def test_a_loop_and_an_autotuner_give_each_of_their_values() -> None:
    loop = "x = torch.randn(4, 4)\nfor m in (1, 2):\n    for n in range(3, 5):\n        use(m * n)"
    assert [one.arguments[0] for one in called(loop)] == [3, 4, 6, 8]
    tuned = (
        "@triton.autotune(configs=[triton.Config({'B': 64}, num_stages=3), triton.Config({'B': 96})], key=[])\n"
        "@triton.jit\ndef kernel(x_ptr, n, B: tl.constexpr):\n    use(n * B)\n"
        "kernel[(1,)](torch.randn(4, 4), 2)"
    )
    assert [one.arguments[0] for one in called(tuned)] == [128, 192]


def test_types_and_offsets_are_followed() -> None:
    for code, dtype, offset in (
        ("use(torch.randn(8, 16).to(torch.float8_e4m3fn)[:, 1:])", "e4m3", 1),
        ("use(torch.randn(8, 16, dtype=torch.bfloat16)[1:, 3:])", "bf16", 19),
        ("use(torch.randn(8, 16)[:, 1:].half())", "fp16", 0),  # a cast copies
        ("use(torch.randn(8, 16)[:, 1:].float())", "fp32", 1),  # one to its own type does not
        ("use(torch.randn(8, 16)[:, 1:] + 1)", "fp32", 0),
        ("use(torch.randn(8, 16)[:, 1:].cuda())", "fp32", None),  # a copy if it was not there
        ("use(torch.randn(8, 16).to(dtype))", None, 0),
        ("use(torch.randn(8, 16, dtype=dtype))", None, 0),
        ("use(torch.randn(8, 16).view(torch.int8)[:, 4:])", "i8", 4),
        ("use(torch.as_strided(torch.zeros(999), (4, 4), (9, 1), 3))", "fp32", 3),
        ("use(np.zeros((4, 4)))", "fp64", 0),
        ("use(jnp.zeros((4, 4)))", "fp32", 0),
    ):
        found = last(code)
        assert found is not None and (found.dtype, found.offset) == (dtype, offset), code


@pytest.mark.parametrize(
    "line",
    [
        "def f(): torch.randn(1, 1)\n",
        "for x in [1, 2, 3]:\n",
        "x = torch.randn(4, 4)[0:2].t()\n",
        "@pytest.mark.parametrize('n', [1, 2])\n",
        '"""torch.randn(4, 4)\n',
        "f(f(f(torch.randn(4, 4), [\n",
        "x = -" + "-" * 900 + "torch.randn(1)\n",
    ],
)
def test_following_is_bounded(line: str) -> None:
    for text in (line * (200_000 // len(line)), "".join(" " * (at % 300) + line for at in range(3000))):
        follow(text)


def test_functions_that_call_themselves_end() -> None:
    follow("def f(n):\n    f(n + 1)\n    f(n + 2)\n    return torch.randn(n, n)\nf(0)")
    follow("x = [torch.randn(2, 2)] * 30\n" * 50)
    follow("n = 1\n" + "n = n * n + 9\n" * 200 + "torch.randn(n, n)")
