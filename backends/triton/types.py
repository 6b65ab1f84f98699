"""Element types as Triton names them: in signatures, and in `gl`."""

TYPES = {
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16"),
    "fp32": ("fp32", "float32"),
    "tf32": ("fp32", "float32"),
    "e4m3": ("fp8e4nv", "float8e4nv"),
    "e5m2": ("fp8e5", "float8e5"),
    "i8": ("i8", "int8"),
    "i32": ("i32", "int32"),
}
