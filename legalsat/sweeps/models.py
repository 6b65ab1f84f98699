"""Public models as rows: the products and the attention of each layer, for a prompt and for the next token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

PROMPT = 4096  # tokens
REQUESTS = (1, 16, 128)  # that decode their next token together
Config = Mapping[str, Any]
Row = dict[str, Any]


def layers(config: Config) -> Iterator[Row]:
    """Yield a model's operators as rows, named "layer/phase"; `count` is how many of its layers have each.

    Phases are "prefill", a prompt of 4096 tokens or of as many as the model takes, and "decode N", the next token of N
    requests after such a prompt. Q, K and V are one product, and so are gate and up, as engines of inference fuse them.

    Args:
        config: an entry of data/models.json.
    """
    tokens = config.get("tokens", PROMPT)
    for requests in (0, *REQUESTS):
        phase, rows = (f"decode {requests}", requests) if requests else ("prefill", tokens)
        for row in _FAMILIES[config["family"]](config, rows, requests, tokens):
            yield {**row, "name": f"{row['name']}/{phase}"}


def _product(config: Config, name: str, m: int, n: int, k: int, **more: Any) -> Row:
    """Return x W^T, W being a weight."""
    said = {"operator": "gemm", "name": name, "m": m, "n": n, "k": k, "dtype": config["dtype"], "constant_b": True}
    return {**said, "count": config["layers"], **more}


def _attention(config: Config, requests: int, tokens: int, **more: Any) -> Row:
    """Return attention over a prompt, or of the next token to a cache that ends with it."""
    queries, keys = (1, tokens + 1) if requests and tokens == PROMPT else (1 if requests else tokens, tokens)
    return {
        "operator": "attention",
        "name": "attention",
        "batch": requests or 1,
        "heads": config["heads"],
        "queries": queries,
        "keys": keys,
        "head": config["head"],
        "dtype": "bf16" if config["dtype"] == "e4m3" else config["dtype"],
        "kv_heads": config.get("kv_heads", config["heads"]),
        "causal": not requests,
        "count": config["layers"],
        **more,
    }


def _itself(config: Config, m: int, requests: int, tokens: int, **more: Any) -> Iterator[Row]:
    """Yield attention with its products."""
    hidden, head = config["hidden"], config["head"]
    heads = config["heads"] + 2 * config["kv_heads"]
    yield _product(config, "qkv", m, heads * head, hidden, **more)
    yield _attention(config, requests, tokens)
    yield _product(config, "o", m, hidden, config["heads"] * head, **more)


def _gated(config: Config, m: int, width: int, name: str = "", **more: Any) -> Iterator[Row]:
    yield _product(config, f"{name}gate_up", m, 2 * width, config["hidden"], **more)
    yield _product(config, f"{name}down", m, config["hidden"], width, **more)


def _experts(config: Config, m: int, width: int, **more: Any) -> Iterator[Row]:
    """Yield the products of experts that share tokens evenly, all of a layer at once."""
    chosen = m * config["experts_of_token"]
    busy = min(config["experts"], chosen)
    yield _product(config, "router", m, config["experts"], config["hidden"], **{**more, "dtype": "bf16"})
    yield from _gated(config, -(-chosen // busy), width, "experts.", batch=busy, **more)


def _words(config: Config, m: int, **more: Any) -> Row:
    """Return the product that gives a next token after each token, as training and scoring ask for."""
    return _product(config, "lm_head", m, config["vocabulary"], config["hidden"], **{**more, "count": 1})


def _dense(config: Config, m: int, requests: int, tokens: int) -> Iterator[Row]:
    yield from _itself(config, m, requests, tokens)
    yield from _gated(config, m, config["intermediate"])
    yield _words(config, m)


def _mixture(config: Config, m: int, requests: int, tokens: int) -> Iterator[Row]:
    yield from _itself(config, m, requests, tokens)
    yield from _experts(config, m, config["intermediate"])
    yield _words(config, m)


def _deepseek(config: Config, m: int, requests: int, tokens: int) -> Iterator[Row]:
    """Yield latent attention: expanded to heads for a prompt, on the latent vectors themselves for the next token."""
    hidden, heads, value = config["hidden"], config["heads"], config["v_head"]
    latent, rope = config["kv_rank"], config["rope_head"]
    yield _product(config, "q_a", m, config["q_rank"], hidden)
    yield _product(config, "q_b", m, heads * config["head"], config["q_rank"])
    yield _product(config, "kv_a", m, latent + rope, hidden)
    if requests:
        yield _attention(config, requests, tokens, head=latent + rope, v_head=latent, kv_heads=1)
    else:
        yield _product(config, "kv_b", m, heads * (config["head"] - rope + value), latent)
        yield _attention(config, requests, tokens, v_head=value)
    yield _product(config, "o", m, hidden, heads * value)
    plain = config["dense_layers"]
    yield from _gated(config, m, config["intermediate"], "dense.", count=plain)
    yield from _gated(config, m, config["expert_intermediate"], "shared.", count=config["layers"] - plain)
    yield from _experts(config, m, config["expert_intermediate"], count=config["layers"] - plain)
    yield _words(config, m, dtype="bf16")


def _gpt2(config: Config, m: int, requests: int, tokens: int) -> Iterator[Row]:
    yield from _itself(config, m, requests, tokens, b_major="N")
    yield _product(config, "up", m, config["intermediate"], config["hidden"], b_major="N")
    yield _product(config, "down", m, config["hidden"], config["intermediate"], b_major="N")
    yield _words(config, m)


def _whisper(config: Config, m: int, requests: int, tokens: int) -> Iterator[Row]:
    """Yield the encoder for one recording, and the decoder with its attention to the recording's frames."""
    hidden, wide, frames = config["hidden"], config["intermediate"], config["frames"]
    heard = (requests or 1) * frames
    if not requests:
        for row in _itself(config, frames, 0, frames):
            yield {**row, "name": f"encoder.{row['name']}"} | ({"causal": False} if "causal" in row else {})
        yield _product(config, "encoder.up", frames, wide, hidden)
        yield _product(config, "encoder.down", frames, hidden, wide)
        yield _product(config, "cross.kv", heard, 2 * hidden, hidden)
    yield from _itself(config, m, requests, tokens)
    yield _product(config, "cross.q", m, hidden, hidden)
    yield _attention(config, requests, tokens, name="cross.attention", keys=frames, causal=False)
    yield _product(config, "cross.o", m, hidden, hidden)
    yield _product(config, "up", m, wide, hidden)
    yield _product(config, "down", m, hidden, wide)
    yield _words(config, m)


_FAMILIES: Mapping[str, Callable[[Config, int, int, int], Iterator[Row]]] = {
    "dense": _dense,
    "experts": _mixture,
    "deepseek": _deepseek,
    "gpt2": _gpt2,
    "whisper": _whisper,
}
