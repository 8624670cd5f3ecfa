"""Writes down what eager torch computes for small calls, one call a line, for the tests of the torch surface.

    python scripts/golden_surface.py                 # rewrites crates/ox_testing/tests/surface_golden/*.txt
    python scripts/golden_surface.py --op-db FOLDER  # writes the samples of torch's own operator database, far too many to keep

The second kind is checked by `OXYTORCH_GOLDEN=FOLDER cargo test -p ox_testing --test surface_golden -- --ignored --nocapture`.

A line reads `F.softmax(f32[2,2]{1 2 3 4}, dim=1) -> f32[2,2]{...}`; a call that raises ends in `-> !RuntimeError`, one that
writes its arguments in `; 1 = f32[3]{...}` for each positional tensor that it changed; a call in half precision may end in
`~ f64[2]{...}`, what it gives in double. The cases stand in `golden/`,
one file a subject, each line a Python expression over the makers below.
"""

import math
import pathlib
import sys
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "crates" / "ox_testing" / "tests" / "surface_golden"
NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip
NAMESPACES = {
    "torch": torch, "F": F, "Tensor": torch.Tensor, "linalg": torch.linalg, "special": torch.special,
}  # fmt: skip
inf, nan = math.inf, math.nan
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
u8, i32, i64, i16, i8 = torch.uint8, torch.int32, torch.int64, torch.int16, torch.int8


class Maker:
    """Deterministic tensors of short decimals, new ones at each call within a case."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, shape, low, high):
        return torch.randint(low, high, shape, generator=self.generator)

    def x(self, *shape, dtype=f32):
        """Floats between -3 and 3, exact in every float type."""
        return (self.draw(shape, -24, 25).double() / 8).to(dtype)

    def pos(self, *shape, dtype=f32):
        return (self.draw(shape, 1, 25).double() / 8).to(dtype)

    def unit(self, *shape, dtype=f32):
        """Between 0 and 1, without the ends."""
        return (self.draw(shape, 1, 16).double() / 16).to(dtype)

    def ints(self, *shape, low=-5, high=6, dtype=i64):
        return self.draw(shape, low, high).to(dtype)

    def bools(self, *shape):
        return self.draw(shape, 0, 2).bool()

    def signs(self, *shape, dtype=f32):
        return (self.draw(shape, 0, 2) * 2 - 1).to(dtype)

    def with_values(self, *values, dtype=f32):
        return torch.tensor(values, dtype=dtype)


def number(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return "nan" if math.isnan(value) else f"{value:.9g}"


def text(value):
    if isinstance(value, torch.Tensor):
        shape = ",".join(map(str, value.shape))
        return f"{NAMES[value.dtype]}[{shape}]{{{' '.join(number(v) for v in value.reshape(-1).tolist())}}}"
    if isinstance(value, torch.dtype):
        return f"@{NAMES[value]}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(text, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    raise TypeError(f"no text for {type(value)}")


def find(name, *default):
    namespace, _, function = name.partition(".")
    return getattr(NAMESPACES[namespace], function, *default)


def clone(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(clone, value))
    return value.clone() if isinstance(value, torch.Tensor) else value


def line(name, args, kwargs):
    shown = ", ".join([text(a) for a in args] + [f"{k}={text(v)}" for k, v in kwargs.items()])
    given = clone(args)
    try:
        result = text(find(name)(*given, **clone_kwargs(kwargs)))
    except Exception as error:
        kind = type(error).__name__
        return f"{name}({shown}) -> !{kind}"
    changed = ""
    for n, (before, after) in enumerate(zip(args, given)):
        if isinstance(before, torch.Tensor) and not torch.equal(before.nan_to_num(), after.nan_to_num()):
            changed += f"; {n} = {text(after)}"
    return f"{name}({shown}) -> {result}{changed}"


def doubled(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(doubled, value))
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in (bf16, f16) else value
    return f64 if value in (bf16, f16) else value


def exact(name, args, kwargs):
    """What the call gives in double precision, where it computes in half."""
    try:
        return f" ~ {text(find(name)(*map(doubled, args), **{k: doubled(v) for k, v in kwargs.items()}))}"
    except Exception:
        return ""


def clone_kwargs(kwargs):
    return {name: clone(value) for name, value in kwargs.items()}


def call(name, *args, **kwargs):
    return name, args, kwargs


def run(path):
    lines = []
    for n, source in enumerate(path.read_text().splitlines()):
        source = source.strip()
        if not source or source.startswith("#"):
            continue
        maker = Maker(n)
        scope = {m: getattr(maker, m) for m in ("x", "pos", "unit", "ints", "bools", "signs", "with_values")}
        name, _, rest = source.partition("(")
        lines.append(line(*eval(f"call({name!r}, {rest}", {**globals(), **scope})))
    (OUT / path.with_suffix(".txt").name).write_text("\n".join(lines) + "\n")
    print(f"{path.stem}: {len(lines)} calls")


def database_name(name):
    """The name under which a program calls what the database calls `nn.functional.x`."""
    for prefix, namespace in (("nn.functional.", "F."), ("linalg.", "linalg."), ("special.", "special.")):
        if name.startswith(prefix):
            return namespace + name.removeprefix(prefix)
    return f"torch.{name}" if hasattr(torch, name) else f"Tensor.{name}"


def small(value):
    if isinstance(value, torch.Tensor):
        return value.numel() <= 400 and value.layout == torch.strided and value.dtype in NAMES
    return all(map(small, value)) if isinstance(value, (list, tuple)) else True


def database_lines(op, dtype):
    name = database_name(op.name)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        args = (sample.input, *sample.args)
        if small(args) and small(list(sample.kwargs.values())):
            try:
                torch.manual_seed(0)
                found = line(name, args, sample.kwargs)
                yield found + (exact(name, args, sample.kwargs) if dtype == bf16 and "; " not in found else "")
            except (TypeError, AttributeError, KeyError):
                continue  # an argument or result that has no text


def run_database(folder):
    from torch.testing._internal.common_methods_invocations import op_db

    folder.mkdir(parents=True, exist_ok=True)
    for op in op_db:
        if "empty" in op.name or not callable(find(database_name(op.name), None)):
            continue  # no values to compare, or an attribute
        lines = []
        for dtype in (f32, i64, torch.bool, bf16):
            if op.supports_dtype(dtype, "cpu"):
                try:
                    lines += database_lines(op, dtype)
                except Exception as error:
                    print(f"{op.name}: {error}")
        (folder / f"{op.name}.{op.variant_test_name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--op-db"]:
        run_database(pathlib.Path(sys.argv[2]))
    else:
        for path in sorted((HERE / "golden").glob("*.cases")):
            run(path)
