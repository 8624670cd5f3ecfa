"""Writes the golden files of this folder: small programs with what eager torch makes of them, and torch's promotion table.

    python make.py        (any Python with torch)

A case is a list of statements over its inputs. What is written down: whether the result of a statement shares memory with the
statement's first argument (~), every tensor's value at the end (=>), the inputs that they share memory with (@), and, if a
statement raises, the exception's type (!).
"""

import itertools
import os
import re

import torch
import torch.nn.functional as F
import operator

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64", torch.complex128: "c128",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
NAMESPACE = {"torch": torch, "F": F, "Tensor": torch.Tensor, "operator": operator, "special": torch.special,
             "inf": float("inf"), "nan": float("nan"), "slice": slice}


def number(x):
    return str(x).lower() if isinstance(x, bool) else repr(x)


def show(t):
    values = " ".join(number(x) for x in t.detach().flatten().tolist())
    return f"{NAMES[t.dtype]}[{','.join(map(str, t.shape))}] {values}".strip()


def make_input(spec):
    """`f32[2,3]` random normal, `i64[4]<5` random below 5, `f32[2,3] 1 2 ...` literal."""
    kind, shape, below, values = re.fullmatch(r"(\w+)\[([\d,]*)\](?:<(\d+))?(.*)", spec).groups()
    shape = [int(s) for s in shape.split(",") if s]
    dtype = DTYPES[kind]
    if values.strip():
        items = [eval(v, {"inf": float("inf"), "nan": float("nan"), "true": True, "false": False}) for v in values.split()]
        return torch.tensor(items, dtype=dtype).reshape(shape)
    if below:
        return torch.randint(0, int(below), shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        # Few bits, so that the files stay small and products are exact.
        return (torch.randn(shape) * 64).round().div(32).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape).to(dtype)


def run(name, inputs, statements, out):
    torch.manual_seed(sum(map(ord, name)))
    scope = dict(NAMESPACE)
    tensors = {}
    print(f"case {name}", file=out)
    for key, spec in inputs.items():
        tensors[key] = scope[key] = make_input(spec)
        print(f"  {key}: {show(scope[key])}", file=out)
    for statement in statements:
        print(f"  {statement}", file=out)
        try:
            exec(statement, scope)
        except Exception as error:
            print(f"  ! {type(error).__name__}", file=out)
            print(file=out)
            return
        target, first = re.match(r"(?:(\w+) = )?[\w.]+\((\w*)", statement).groups()
        value = scope.get(target)
        if isinstance(value, (tuple, list)):
            for n, item in enumerate(value):
                if isinstance(item, torch.Tensor):
                    tensors[f"{target}.{n}"] = item
        elif isinstance(value, torch.Tensor):
            tensors[target] = value
            if first in tensors and value.untyped_storage().data_ptr() == tensors[first].untyped_storage().data_ptr():
                print(f"  ~ {target} {first}", file=out)
        elif target:
            print(f"  = {target} {value!r}", file=out)
    for key, value in tensors.items():
        print(f"  => {key} {show(value)}", file=out)
    for key, value in tensors.items():
        for other in inputs:
            same = value.untyped_storage().data_ptr() == tensors[other].untyped_storage().data_ptr()
            if key not in inputs and same and value.untyped_storage().size():
                print(f"  @ {key} {other}", file=out)
    print(file=out)


SPECIAL = "f32[12] nan inf -inf 0.0 -0.0 1.0 -1.0 0.5 2.5 -3.5 100.0 -100.0"


def pointwise():
    for op in ("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh "
               "atanh sigmoid erf erfc lgamma floor ceil trunc round frac abs neg sign sgn positive signbit isnan isinf isfinite "
               "isposinf isneginf deg2rad rad2deg square nan_to_num logit sinc relu").split():
        for spec in (SPECIAL, "bf16[9]", "i64[5]", "bool[4]"):
            yield f"{op}-{spec[:4].strip('[')}", {"x": spec}, [f"y = torch.{op}(x)"]
    for op in ("gelu silu mish hardswish hardsigmoid logsigmoid softplus softsign tanhshrink softshrink hardshrink relu6 hardtanh "
               "leaky_relu elu selu celu glu rrelu").split():
        for spec in (SPECIAL, "bf16[10]", "f16[4,6]"):
            if op == "gelu":  # eager's vector code gives NaN for infinity
                spec = spec.replace("-inf", "-20").replace("inf", "20")
            yield f"{op}-{spec[:4].strip('[')}", {"x": spec}, [f"y = F.{op}(x)"]
    yield "gelu-tanh", {"x": SPECIAL, "h": "bf16[20]"}, ["y = F.gelu(x, approximate='tanh')", "z = F.gelu(h, approximate='tanh')"]
    yield "softplus-beta", {"x": SPECIAL}, ["y = F.softplus(x, 2, 3.0)"]
    yield "elu-alpha", {"x": "f32[7]"}, ["y = F.elu(x, 0.5)", "z = F.celu(x, alpha=2.0)", "w = F.leaky_relu(x, negative_slope=0.2)"]
    yield "elu-inplace", {"x": "f32[7]"}, ["y = F.elu(x, inplace=True)"]
    yield "threshold", {"x": "f32[7]", "i": "i64[7]"}, ["y = F.threshold(x, 0.25, 20.0)", "z = F.threshold(i, 2, 7)"]
    yield "prelu", {"x": "f32[2,3,2]", "w": "f32[3]", "one": "f32[1]"}, ["y = F.prelu(x, w)", "z = F.prelu(x, one)"]
    yield "hardtanh-int", {"x": "i64[7]"}, ["y = F.hardtanh(x, -3, 4)"]
    yield "glu-dim", {"x": "bf16[4,3]"}, ["y = F.glu(x, 0)"]
    yield "glu-odd", {"x": "f32[3]"}, ["y = F.glu(x)"]
    yield "round-decimals", {"x": "f32[5] 1.2345 -2.5555 1e3 0.05 7"}, ["y = torch.round(x, decimals=2)", "z = torch.round(x, decimals=-2)"]
    yield "dropout-eval", {"x": "f32[3]"}, ["y = F.dropout(x, 0.5, False)", "operator.iadd(y, 1)"]
    yield "dropout-bad", {"x": "f32[3]"}, ["y = F.dropout(x, 1.5, False)"]
    yield from binary()


def binary():
    types = ("f32[2,3]", "bf16[2,3]", "i64[2,3]", "u8[2,3]", "bool[2,3]", "f32[]", "i32[3]")
    for op in "add sub mul div maximum minimum eq lt ge remainder floor_divide fmod pow".split():
        for a, b in itertools.product(types, types):
            if op in ("remainder", "floor_divide", "fmod") and b[0] != "f" and b[0] != "b":
                b = b + " " + " ".join("3" if n % 2 else "5" for n in range(eval("*".join(re.findall(r"\d+", b[b.index("["):])) or "1")))
            if op == "pow" and b[0] in "iu":
                b = b + "<4"
            yield f"{op}-{a}-{b}", {"x": a, "y": b}, [f"z = torch.{op}(x, y)"]
        for a, b in itertools.product(("f32[3]", "bf16[40]", "i64[3]", "u8[3]", "bool[3]"), ("2", "0.3", "True", "-1.5")):
            yield f"{op}-{a}-{b}", {"x": a}, [f"y = torch.{op}(x, {b})"]
    for op in "atan2 copysign hypot logaddexp xlogy fmax fmin logical_and logical_or logical_xor".split():
        yield f"{op}", {"x": SPECIAL, "y": "f32[12] 1 nan inf 0.0 0.0 -1 2 0.5 nan 7 -inf -inf"}, [f"z = torch.{op}(x, y)"]
        yield f"{op}-bf16", {"x": "bf16[20]", "y": "bf16[20]"}, [f"z = torch.{op}(x, y)"]
        yield f"{op}-int", {"x": "i64[5]", "y": "i32[5]"}, [f"z = torch.{op}(x, y)"]
    for op in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split():
        for dtype in ("i64", "u8", "bool", "f32"):
            if dtype == "bool" and "shift" in op:
                continue
            yield f"{op}-{dtype}", {"x": f"{dtype}[5]<7", "y": f"{dtype}[5]<4"}, [f"z = torch.{op}(x, y)"]
    signed = {"x": "i64[7] -7 7 -7 7 0 -1 5", "y": "i64[7] 3 -3 -3 3 5 4 -8"}
    for op in ("remainder", "fmod", "floor_divide"):
        yield f"{op}-signs", signed, [f"z = torch.{op}(x, y)"]
    yield "div-modes", signed, ["z = torch.div(x, y, rounding_mode='floor')", "w = torch.div(x, y, rounding_mode='trunc')"]
    yield "div-modes-float", {"x": "f32[6]", "y": "f32[6]"}, [
        "z = torch.div(x, y, rounding_mode='floor')", "w = torch.div(x, y, rounding_mode='trunc')"]
    yield "div-bad-mode", {"x": "f32[6]", "y": "f32[6]"}, ["z = torch.div(x, y, rounding_mode='up')"]
    for e in ("0", "1", "2", "3", "-1", "-2", "0.5", "-0.5", "2.5", "5"):
        yield f"pow-{e}", {"x": "f32[6] 0.5 2.0 -3.0 0.0 inf nan", "h": "bf16[64]"}, [f"y = torch.pow(x, {e})", f"z = torch.pow(h, {e})"]
    yield "pow-int-negative", {"x": "i64[3]"}, ["y = torch.pow(x, -1)"]
    yield "pow-scalar-base", {"x": "f32[4]", "i": "i64[4]<5"}, ["y = torch.pow(2, x)", "z = torch.pow(3, i)", "w = Tensor.__rpow__(x, 2.5)"]
    # Eager's tail loop rounds differently from its vector loop: whole vectors.
    yield "add-alpha", {"x": "f32[6]", "y": "f32[6]", "h": "bf16[64]", "g": "bf16[64]", "i": "i64[3]"}, [
        "z = torch.add(x, y, alpha=0.3)", "w = torch.sub(h, g, alpha=0.3)", "v = torch.add(i, i, alpha=3)", "u = torch.rsub(x, y, alpha=2)"]
    yield "add-alpha-bad", {"i": "i64[3]"}, ["v = torch.add(i, i, alpha=3.5)"]
    yield "reflected", {"x": "f32[3]", "i": "i64[3] 1 2 -3"}, [
        "a = Tensor.__rsub__(x, 2)", "b = Tensor.__rtruediv__(i, 3)", "c = Tensor.__radd__(x, 1.5)", "d = Tensor.__rmul__(x, i)"]
    yield "lerp", {"x": "f32[5]", "y": "f32[5]", "w": "f32[5]", "h": "bf16[20]", "g": "bf16[20]"}, [
        "a = torch.lerp(x, y, 0.3)", "b = torch.lerp(x, y, w)", "c = torch.lerp(h, g, 0.7)"]
    yield "addcmul", {"x": "f32[5]", "y": "f32[5]", "z": "f32[1]", "h": "bf16[20]", "g": "bf16[20]"}, [
        "a = torch.addcmul(x, y, z, value=0.5)", "b = torch.addcdiv(x, y, z, value=2)", "c = torch.addcmul(h, g, g, value=0.3)"]
    yield "clamp", {"x": SPECIAL, "i": "i64[5]", "lo": "f32[12]"}, [
        "a = torch.clamp(x, -1, 2)", "b = torch.clamp(i, min=0.5)", "c = torch.clamp(x, lo, None)", "d = torch.clamp(x, 3, 1)",
        "e = torch.clamp_min(i, 2)", "f = torch.clip(x, max=nan)"]
    yield "clamp-none", {"x": "f32[3]"}, ["a = torch.clamp(x)"]
    yield "where", {"c": "bool[2,3]", "x": "f32[3]", "i": "i64[2,1]", "h": "f16[2,3]"}, [
        "a = torch.where(c, x, i)", "b = torch.where(c, h, 2.0)", "d = torch.where(c, 1.0, 2)", "e = Tensor.where(x, c, i)"]
    yield "where-bad", {"c": "f32[2]", "x": "f32[2]"}, ["a = torch.where(c, x, x)"]
    yield "masked_fill", {"x": "f32[2,3]", "m": "bool[3]", "i": "i64[3]", "v": "f32[]"}, [
        "a = torch.masked_fill(x, m, -inf)", "b = Tensor.masked_fill(i, m, 7)", "c = torch.masked_fill(x, m, v)",
        "d = Tensor.masked_fill_(x, m, 3)"]
    yield "isclose", {"x": SPECIAL, "y": "f32[12] nan inf inf 0.0 0.0 1.000001 -1.1 0.5 2.5 -3.5 100.0001 -100.1"}, [
        "a = torch.isclose(x, y)", "b = torch.isclose(x, y, rtol=0.1, atol=0.1, equal_nan=True)"]
    yield "logical", {"x": SPECIAL, "i": "i64[12]", "u": "u8[12]<2"}, ["a = torch.logical_not(x)", "b = torch.logical_and(x, i)", "c = torch.bitwise_not(i)",
                                                         "d = operator.invert(u)"]
    yield "sub-bool", {"x": "bool[3]"}, ["a = torch.sub(x, x)"]
    yield "neg-u8", {"x": "u8[4]"}, ["a = torch.neg(x)"]
    yield "broadcast-bad", {"x": "f32[3]", "y": "f32[4]"}, ["a = torch.add(x, y)"]
    yield "div-floor-bf16", {"x": "bf16[64]", "y": "bf16[64]"}, ["a = torch.div(x, y, rounding_mode='floor')", "b = torch.div(x, y, rounding_mode='trunc')", "c = torch.floor_divide(x, 0.3)"]
    yield "logit-eps", {"x": "bf16[8] 0.25 0.75 0.1 0.9 0.0 1.0 0.5 0.6", "y": "f32[3] 0.0 0.5 1.0"}, ["a = torch.logit(x)", "b = torch.logit(y, 0.125)"]
    yield "angle", {"x": SPECIAL, "i": "i64[4]"}, ["a = torch.angle(x)", "b = torch.angle(i)", "c = torch.ldexp(x, x)", "d = F.softsign(i)", "e = F.tanhshrink(i)"]
    yield "heaviside", {"x": SPECIAL, "v": "f32[]"}, ["a = torch.heaviside(x, v)"]
    yield "xlog1py", {"x": SPECIAL, "y": "f32[12] nan inf 1 2 3 4 5 6 -0.5 1 2 3"}, ["a = special.xlog1py(x, y)"]


def views():
    three = {"x": "f32[2,3,4]"}
    yield "reshape", three, ["a = Tensor.view(x, 6, 4)", "b = Tensor.reshape(x, (-1, 2))", "c = torch.reshape(x, [24])", "d = Tensor.view(x, -1)"]
    for bad in ("5, 5", "-1, 5", "-1, -1", "-2, 12"):
        yield f"view-{bad}", three, [f"a = Tensor.view(x, {bad})"]
    yield "reshape-empty", {"x": "f32[0,3]"}, ["a = Tensor.view(x, 3, 0)", "b = torch.flatten(x)"]
    yield "reshape-empty-open", {"x": "f32[0,3]"}, ["a = Tensor.view(x, -1, 0)"]
    yield "flatten", three, ["a = torch.flatten(x)", "b = torch.flatten(x, 1)", "c = Tensor.flatten(x, 0, -2)", "d = torch.ravel(x)"]
    yield "flatten-0d", {"x": "f32[]"}, ["a = torch.flatten(x)"]
    yield "unflatten", three, ["a = Tensor.unflatten(x, 2, (2, 2))", "b = Tensor.unflatten(x, -1, (-1, 4))"]
    yield "permute", three, ["a = Tensor.permute(x, 2, 0, 1)", "b = torch.permute(x, (-1, 0, 1))", "c = torch.transpose(x, 0, -1)",
                             "d = torch.movedim(x, 0, -1)", "e = torch.movedim(x, (0, 2), (1, 0))", "f = torch.swapaxes(x, 1, 2)", "g = torch.adjoint(x)"]
    yield "permute-twice", three, ["a = Tensor.permute(x, 0, 0, 1)"]
    yield "permute-range", three, ["a = Tensor.permute(x, 0, 1, 3)"]
    yield "t", {"x": "f32[2,3]"}, ["a = Tensor.t(x)", "b = Tensor.t_(a)"]
    yield "t-3d", three, ["a = torch.t(x)"]
    yield "expand", {"x": "f32[3,1]", "y": "f32[2,3,4]"}, ["a = Tensor.expand(x, -1, 4)", "b = Tensor.expand(x, 2, 3, 4)", "c = Tensor.expand_as(x, y)",
                                       "d = torch.broadcast_to(x, (2, 3, 1))"]
    yield "expand-bad", {"x": "f32[3,1]"}, ["a = Tensor.expand(x, 4, 4)"]
    yield "expand-write", {"x": "f32[3,1]"}, ["a = Tensor.expand(x, 3, 4)", "operator.iadd(a, 1)"]
    yield "squeeze", {"x": "f32[1,3,1]"}, ["a = torch.squeeze(x)", "b = torch.squeeze(x, 0)", "c = Tensor.squeeze(x, (0, 2))", "d = torch.unsqueeze(x, -1)",
                                            "e = torch.unsqueeze(x, 1)", "f = torch.squeeze(x, 1)"]
    yield "unsqueeze-range", {"x": "f32[3]"}, ["a = torch.unsqueeze(x, 3)"]
    yield "select", three, ["a = torch.select(x, 1, -1)", "b = torch.select(x, dim=-1, index=0)", "c = torch.narrow(x, 1, 1, 2)", "d = Tensor.narrow(x, 2, -3, 2)"]
    yield "select-range", three, ["a = torch.select(x, 1, 3)"]
    yield "narrow-range", three, ["a = torch.narrow(x, 1, 2, 2)"]
    for index in ("0", "-1", "slice(None, None, 2)", "slice(1, None)", "slice(-1, None)", "slice(0, 100)", "slice(5, 2)", "None", "...",
                  "(..., 0)", "(slice(None), None, 1)", "(0, 1, 2)", "(..., slice(None, None, 3))", "(1, ..., None)", "(None, 0, ..., None, 2)"):
        yield f"getitem-{index}", three, [f"a = operator.getitem(x, {index})"]
    yield "getitem-range", three, ["a = operator.getitem(x, 2)"]
    yield "getitem-many", three, ["a = operator.getitem(x, (0, 0, 0, 0))"]
    yield "getitem-step", three, ["a = operator.getitem(x, slice(None, None, -1))"]
    idx = {"x": "f32[4,5,6]", "i": "i64[2,1] 3 -1", "j": "i64[3] 0 1 -2", "k": "i64[2] 0 3"}
    for index in ("i", "(i, j)", "(slice(None), i, j)", "(i, slice(None), j)", "(0, i)", "(slice(None), 0, j)", "(k, 1)", "(..., j)", "(i, None, j)",
                  "[0, 2]", "(slice(1, 3), [0, 1, 4])", "(0, slice(None), j)"):
        yield f"getitem-{index}", idx, [f"a = operator.getitem(x, {index})"]
    yield "getitem-broadcast-bad", idx, ["a = operator.getitem(x, (k, j))"]
    yield "getitem-float", {"x": "f32[3]", "i": "f32[3]"}, ["a = operator.getitem(x, i)"]
    for size in ("2", "[1, 3]", "3", "4"):
        yield f"split-{size}", three, [f"a = torch.split(x, {size}, dim=2)"]
    yield "split-bad", three, ["a = torch.split(x, [1, 1], 2)"]
    for chunks in ("1", "2", "3", "5"):
        yield f"chunk-{chunks}", {"x": "f32[7,2]"}, [f"a = torch.chunk(x, {chunks})", f"b = torch.tensor_split(x, {chunks})"]
    yield "tensor_split-at", {"x": "f32[7,2]"}, ["a = torch.tensor_split(x, (2, 5))", "b = torch.tensor_split(x, (-2, 20))"]
    yield "hsplit", {"x": "f32[4,4]", "v": "f32[4]", "c": "f32[2,2,2]"}, [
        "a = torch.hsplit(x, 2)", "b = torch.vsplit(x, (1, 3))", "d = torch.hsplit(v, 2)", "e = torch.dsplit(c, 2)"]
    yield "hsplit-uneven", {"x": "f32[4,3]"}, ["a = torch.hsplit(x, 2)"]
    yield "copies-of-views", {"x": "f32[4,3]"}, ["a = torch.permute_copy(x, (1, 0))", "b = torch.view_copy(x, (12,))", "Tensor.add_(a, 1)"]
    yield "squeeze-nothing", {"x": "f32[1,1]"}, ["a = torch.squeeze(x, ())"]
    yield "diag", {"x": "f32[3]", "m": "f32[3,4]", "c": "f32[2,3]"}, [
        "a = torch.diag(x)", "b = torch.diag(x, -2)", "d = torch.diag(m, 1)", "e = torch.diag_embed(c)", "f = torch.diag_embed(c, 1, 0, 2)", "g = torch.diagflat(c, -1)"]
    yield "unbind", {"x": "f32[3,2]"}, ["a = torch.unbind(x)", "b = torch.unbind(x, 1)", "c = Tensor.split(x, 2)"]
    yield "diagonal", {"x": "f32[3,4]", "y": "f32[2,3,4]"}, ["a = torch.diagonal(x)", "b = torch.diagonal(x, 1)", "c = torch.diagonal(y, -1, 0, 2)", "d = torch.diagonal(x, 9)"]
    yield "unfold", {"x": "f32[7,2]"}, ["a = Tensor.unfold(x, 0, 3, 2)", "b = Tensor.unfold(x, 1, 2, 1)"]
    yield "unfold-bad", {"x": "f32[2]"}, ["a = Tensor.unfold(x, 0, 3, 1)"]
    yield "diff", {"x": "f32[2,5]", "i": "i64[4]", "p": "i64[1]", "m": "bool[6]"}, [
        "a = torch.diff(x)", "b = torch.diff(i, prepend=p)", "c = torch.diff(x, n=2, dim=0)", "d = torch.diff(m)", "e = torch.diff(x, 2)"]


def joins():
    pair = {"x": "f32[2,3]", "y": "f32[2,3]", "i": "i64[2,3]", "e": "f32[0]"}
    yield "cat", pair, ["a = torch.cat([x, y])", "b = torch.cat((x, i), -1)", "c = torch.cat([e, x], dim=1)", "d = torch.concat([x], axis=0)"]
    yield "cat-bad", {"x": "f32[2,3]", "y": "f32[3,2]"}, ["a = torch.cat([x, y])"]
    yield "cat-0d", {"x": "f32[]"}, ["a = torch.cat([x, x])"]
    yield "stack", pair, ["a = torch.stack([x, y])", "b = torch.stack((x, y), -1)", "c = torch.hstack([x, y])", "d = torch.vstack([x, y])", "f = torch.dstack([x, y])"]
    yield "stack-1d", {"x": "f32[3]", "y": "f32[3]", "z": "f32[]"}, ["a = torch.hstack([x, y])", "b = torch.vstack([x, y])", "c = torch.dstack([x, y])", "d = torch.stack([z, z])"]
    yield "stack-bad", {"x": "f32[2]", "y": "f32[3]"}, ["a = torch.stack([x, y])"]
    yield "repeat", {"x": "f32[2,3]"}, ["a = Tensor.repeat(x, 2, 1)", "b = Tensor.repeat(x, 2, 1, 3)", "c = torch.tile(x, (2,))", "d = torch.repeat_interleave(x, 2)",
                                          "e = torch.repeat_interleave(x, 3, dim=1)", "f = Tensor.repeat(x, (0, 1))"]
    yield "repeat-bad", {"x": "f32[2,3]"}, ["a = Tensor.repeat(x, 2)"]
    yield "roll", {"x": "f32[3,4]"}, ["a = torch.roll(x, 1)", "b = torch.roll(x, -1, 0)", "c = torch.roll(x, (1, 6), (0, 1))", "d = torch.flip(x, (0,))",
                                        "e = Tensor.flip(x, 0, 1)", "f = torch.fliplr(x)", "g = torch.flipud(x)"]
    yield "flip-is-a-copy", {"x": "f32[3]"}, ["a = torch.flip(x, (0,))", "operator.iadd(a, 1)"]
    yield "rot90", {"x": "f32[3,4]"}, [f"{n} = torch.rot90(x, {k}, {dims})" for n, k, dims in (("a", 1, "(0, 1)"), ("b", 2, "(0, 1)"), ("c", -1, "(0, 1)"), ("d", 1, "(1, 0)"), ("e", 4, "(0, 1)"))]
    yield "atleast", {"x": "f32[]", "y": "f32[3]"}, ["a = torch.atleast_1d(x)", "b = torch.atleast_2d(y)", "c = torch.atleast_3d(y)", "d = torch.atleast_2d(x, y)"]
    yield "column_stack", {"x": "f32[3]", "y": "f32[3,2]"}, ["a = torch.column_stack([x, y])"]
    yield "pad-circular-cut", {"x": "f32[1,1,4,4]"}, ["a = F.pad(x, (-1, 1, -2, 1), 'circular')"]
    yield "meshgrid", {"x": "f32[3]", "y": "f32[2]"}, ["a = torch.meshgrid(x, y, indexing='ij')", "b = torch.meshgrid([x, y], indexing='xy')"]
    yield "broadcast_tensors", {"x": "f32[3,1]", "y": "f32[2]"}, ["a = torch.broadcast_tensors(x, y)"]
    image = {"x": "f32[1,2,3,4]"}
    yield "pad", image, ["a = F.pad(x, (1, 2))", "b = F.pad(x, (1, 2, 0, 1), value=2.5)", "c = F.pad(x, (-1, 1))", "d = F.pad(x, (1, 1, 2, 2, 1, 0))"]
    yield "pad-int", {"x": "i64[3]"}, ["a = F.pad(x, (1, 2), 'constant', 7)"]
    for mode in ("reflect", "replicate", "circular"):
        yield f"pad-{mode}", image, [f"a = F.pad(x, (2, 1, 1, 2), mode='{mode}')"]
    yield "pad-reflect-bad", image, ["a = F.pad(x, (4, 1, 1, 2), mode='reflect')"]
    yield "pad-odd", image, ["a = F.pad(x, (4,))"]
    yield "pad-negative", image, ["a = F.pad(x, (-3, -3))"]


def creates():
    yield "arange", {"x": "f32[2]"}, ["a = torch.arange(5)", "b = torch.arange(2, 9, 3)", "c = torch.arange(5, 0, -2)", "d = torch.arange(0.5, 2.0, 0.25)",
                        "e = torch.arange(0, 4, dtype=torch.float32)", "f = torch.arange(1, 2, 0.3, dtype=torch.bfloat16)", "g = torch.arange(3, 3)"]
    yield "arange-bad", {"x": "f32[2]"}, ["a = torch.arange(0, 5, -1)"]
    yield "arange-zero", {"x": "f32[2]"}, ["a = torch.arange(0, 5, 0)"]
    yield "fill", {"x": "i32[2,3]"}, ["a = torch.zeros(2, 3)", "b = torch.ones((2,), dtype=torch.int64)", "c = torch.full((2, 2), 3)", "d = torch.full([2], 1.5)",
                      "e = torch.full((1,), True)", "f = torch.zeros_like(x)", "g = torch.full_like(x, 7)", "h = Tensor.new_zeros(x, 2)",
                      "i = Tensor.new_ones(x, (2, 1), dtype=torch.float32)", "j = Tensor.new_full(x, (2,), 9)", "k = torch.ones_like(x, dtype=torch.bool)"]
    yield "fill-overflow", {"x": "u8[2]"}, ["a = torch.full_like(x, 300)"]
    yield "zeros-negative", {"x": "u8[2]"}, ["a = torch.zeros(2, -1)"]
    yield "linspace", {"x": "f32[2]"}, ["a = torch.linspace(0, 1, 5)", "b = torch.linspace(-3, 10, 7)", "c = torch.linspace(0, 5, 1)", "d = torch.linspace(1, 0, 4, dtype=torch.float64)", "e = torch.linspace(-5, 3, 50, dtype=torch.bfloat16)"]
    yield "eye", {"x": "f32[2]"}, ["a = torch.eye(3)", "b = torch.eye(2, 4, dtype=torch.int64)"]
    yield "tensor", {"x": "f32[2]"}, ["a = torch.tensor(3)", "b = torch.tensor([1, 2.5])", "c = torch.tensor([[1, 2], [3, 4]])", "d = torch.tensor([True, False])", "e = torch.tensor([])",
                        "f = torch.scalar_tensor(2)", "g = torch.tensor([1, 2], dtype=torch.bfloat16)"]
    yield "tri", {"x": "f32[3,4]", "y": "i64[2,3,3]"}, ["a = torch.tril(x)", "b = torch.triu(x, 1)", "c = torch.tril(y, -1)", "d = torch.triu(y, diagonal=-1)"]
    yield "tri-1d", {"x": "f32[3]"}, ["a = torch.tril(x)"]
    yield "one_hot", {"x": "i64[2,3]<4"}, ["a = F.one_hot(x, 4)", "b = F.one_hot(x, num_classes=6)"]


def converts():
    yield "to", {"x": "f32[6] 1.5 -2.7 0.0 300.0 nan 1e10"}, [
        "a = Tensor.to(x, torch.bfloat16)", "b = Tensor.to(x, dtype=torch.float64)", "c = Tensor.bool(x)", "d = Tensor.to(x, torch.float32)", "e = Tensor.half(x)", "f = Tensor.float(x)"]
    yield "to-int", {"x": "f32[4] 1.5 -2.7 0.0 100.0", "i": "i64[3] 300 -1 5"}, ["a = Tensor.long(x)", "b = Tensor.to(i, torch.uint8)", "c = Tensor.int(i)", "d = Tensor.type_as(i, x)", "e = Tensor.type(x, torch.int16)"]
    yield "copies", {"x": "f32[3]"}, ["a = torch.clone(x)", "b = Tensor.contiguous(x)", "c = Tensor.detach(x)", "operator.iadd(x, 1)", "operator.imul(b, 2)", "operator.imul(a, 3)"]
    yield "copy_", {"x": "f32[2,3]", "y": "i64[3]"}, ["a = Tensor.copy_(x, y)", "b = Tensor.fill_(y, 4)", "c = Tensor.zero_(y)"]
    yield "sizes", {"x": "f32[2,3]"}, ["a = Tensor.size(x, 0)", "b = Tensor.dim(x)", "c = torch.numel(x)"]


def indexes():
    rows = {"x": "f32[4,3]", "i": "i64[3] 3 0 3"}
    yield "index_select", rows, ["a = torch.index_select(x, 0, i)", "b = torch.index_select(x, -2, i)"]
    yield "index_select-negative", {"x": "f32[4,3]", "i": "i64[1] -1"}, ["a = torch.index_select(x, 0, i)"]
    yield "gather", {"x": "f32[3,4]", "i": "i64[2,4]<3", "j": "i64[3,2]<4", "k": "i64[3,1]<4"}, ["a = torch.gather(x, 0, i)", "b = torch.gather(x, 1, j)", "c = Tensor.gather(x, -1, k)"]
    yield "gather-expanded", {"x": "f32[3,4]", "k": "i64[5,1]<3"}, ["e = Tensor.expand(k, 5, 4)", "a = torch.gather(x, 0, e)"]
    yield "gather-range", {"x": "f32[3]", "i": "i64[1] 3"}, ["a = torch.gather(x, 0, i)"]
    yield "gather-dtype", {"x": "f32[3]", "i": "i16[1] 2"}, ["a = torch.gather(x, 0, i)"]
    yield "take_along_dim-wraps", {"x": "f32[3,4]", "i": "i64[3,2] -1 4 0 -5 9 2"}, ["a = torch.take_along_dim(x, i, 1)"]
    yield "zero-dim", {"x": "f32[]", "i": "i64[] 0", "s": "f32[]", "j": "i32[2] 0 0"}, [
        "a = torch.gather(x, 0, i)", "b = torch.index_select(x, 0, i)", "c = torch.scatter_add(x, 0, i, s)", "d = torch.index_add(x, 0, i, s)", "e = torch.index_fill(x, 0, i, 4.0)"]
    yield "gather-int32", {"x": "f32[3]", "i": "i32[2] 2 0"}, ["a = torch.gather(x, 0, i)"]
    yield "take", {"x": "f32[3,2]", "i": "i64[2,2] 0 5 -1 3", "j": "i64[3,1]<2"}, ["a = torch.take(x, i)", "b = torch.take_along_dim(x, j, 1)", "c = torch.take_along_dim(x, j)"]
    yield "embedding", {"w": "f32[5,3]", "i": "i64[2,2]<5"}, ["a = F.embedding(i, w)", "b = torch.embedding(w, i)"]
    yield "embedding-negative", {"w": "f32[5,3]", "i": "i64[1] -1"}, ["a = F.embedding(i, w)"]
    scatter = {"x": "f32[3,4]", "i": "i64[2,4]<3", "s": "f32[2,4]", "big": "f32[5,5]"}
    yield "scatter_add", scatter, ["a = torch.scatter_add(x, 0, i, s)", "b = torch.scatter_add(x, 0, i, big)", "Tensor.scatter_add_(x, 0, i, s)"]
    yield "scatter_add-expanded", {"x": "f32[3,4]", "k": "i64[5,1]<3", "s": "f32[5,4]"}, ["e = Tensor.expand_as(k, s)", "Tensor.scatter_add_(x, 0, e, s)"]
    yield "scatter", {"x": "f32[2,4]", "i": "i64[2,2] 0 3 2 1", "s": "f32[2,2]"}, [
        "a = torch.scatter(x, 1, i, s)", "b = torch.scatter(x, 1, i, 9.0)", "c = Tensor.scatter(x, 1, i, value=1)", "d = torch.scatter(x, 1, i, s, reduce='multiply')", "e = Tensor.scatter_(x, 1, i, 7.0)"]
    yield "scatter-range", {"x": "f32[2,4]", "i": "i64[1,1] 4"}, ["b = torch.scatter(x, 1, i, 9.0)"]
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        yield f"scatter_reduce-{reduce}", scatter, [f"a = torch.scatter_reduce(x, 0, i, s, '{reduce}')", f"b = torch.scatter_reduce(x, 0, i, s, reduce='{reduce}', include_self=False)"]
    yield "index_add", {**rows, "s": "f32[3,3]"}, ["a = torch.index_add(x, 0, i, s)", "b = torch.index_add(x, 0, i, s, alpha=2)", "Tensor.index_add_(x, 0, i, s)"]
    yield "index_add-negative", {"x": "f32[4]", "i": "i64[1] -1", "s": "f32[1]"}, ["a = torch.index_add(x, 0, i, s)"]
    yield "index_copy", {"x": "f32[4,3]", "i": "i64[2] 3 0", "s": "f32[2,3]"}, ["a = torch.index_copy(x, 0, i, s)", "b = torch.index_fill(x, 0, i, 2.5)"]
    yield "index_put", {"x": "f32[4,3]", "i": "i64[2] 3 0", "j": "i64[2] 1 -1", "v": "f32[2]", "d": "i64[2] 1 1"}, [
        "a = torch.index_put(x, (i, j), v)", "b = torch.index_put(x, (d, d), v, accumulate=True)", "c = Tensor.index_put_(x, (i, j), v)"]
    for index in ("0", "(slice(None), 1)", "(slice(0, 2), slice(1, None))", "...", "i", "(slice(None), j)", "(i, j)", "m", "(slice(None), n)", "None"):
        yield f"setitem-{index}", {"x": "f32[4,3]", "i": "i64[2] 3 0", "j": "i64[2] 1 -1", "m": "bool[4,3]", "n": "bool[3]"}, [f"operator.setitem(x, {index}, 7.5)"]
    yield "setitem-tensor", {"x": "f32[4,3]", "v": "i64[1,1,3]", "w": "f32[1,2,3]", "i": "i64[2] 3 0"}, ["operator.setitem(x, slice(1, 3), v)", "operator.setitem(x, i, w)"]
    yield "setitem-dtype", {"x": "f32[4]", "v": "i64[]", "i": "i64[2] 3 0"}, ["operator.setitem(x, i, v)"]
    yield "setitem-mask-dtype", {"x": "f32[4]", "v": "i64[]", "m": "bool[4]"}, ["operator.setitem(x, m, v)"]
    yield "setitem-bad", {"x": "f32[4,3]", "v": "f32[2]"}, ["operator.setitem(x, 0, v)"]
    yield "scatter-views", {"x": "f32[3,4]", "r": "f32[4]", "c": "f32[3,2]", "d": "f32[3]"}, [
        "a = torch.select_scatter(x, r, 0, 1)", "b = torch.slice_scatter(x, c, 1, 1, 3)", "e = torch.diagonal_scatter(x, d)", "f = Tensor.fill_diagonal_(x, 5)"]


def aliasing():
    x = {"x": "f32[4,3]"}
    yield "write-view-of-input", x, ["a = operator.getitem(x, 1)", "operator.iadd(a, 10)", "b = torch.mul(x, 2)"]
    yield "write-base-read-view", x, ["a = Tensor.t(x)", "b = operator.getitem(a, (slice(None), 2))", "Tensor.mul_(x, 3)", "c = torch.add(b, 1)"]
    yield "two-views", x, ["a = operator.getitem(x, slice(0, 3))", "b = operator.getitem(x, slice(1, 4))", "operator.iadd(a, 1)", "operator.imul(b, 2)"]
    yield "view-chain", x, ["a = Tensor.view(x, 2, 6)", "b = Tensor.permute(a, 1, 0)", "c = operator.getitem(b, slice(None, None, 2))", "operator.setitem(c, (0, 1), 100.0)", "Tensor.zero_(c)"]
    yield "temporary", x, ["a = torch.add(x, 1)", "b = Tensor.view(a, 12)", "Tensor.mul_(b, 2)", "Tensor.relu_(a)"]
    yield "clone-then-write", x, ["a = torch.clone(x)", "Tensor.add_(a, 1)"]
    yield "diagonal-write", {"x": "f32[3,3]"}, ["a = torch.diagonal(x)", "Tensor.fill_(a, 9.0)"]
    yield "unfold-write", {"x": "f32[6]"}, ["a = Tensor.unfold(x, 0, 2, 2)", "Tensor.mul_(a, 2)"]
    yield "split-write", x, ["p = torch.split(x, 2)", "a = operator.getitem(p, 1)", "Tensor.neg_(a)"]
    yield "inplace-int-float", {"x": "i64[3]"}, ["Tensor.add_(x, 1.5)"]
    yield "inplace-broadcast", {"x": "f32[3]", "y": "f32[2,3]"}, ["Tensor.add_(x, y)"]
    yield "inplace-promote", {"x": "f32[3]", "y": "f64[3]"}, ["Tensor.add_(x, y)"]
    yield "inplace-bool", {"x": "bool[3]"}, ["Tensor.add_(x, 1)"]
    yield "inplace-compare", {"x": "f32[3]"}, ["Tensor.gt_(x, 0)"]
    yield "gather-accumulate", {"y": "f32[4]", "i": "i64[3] 0 0 2"}, ["a = operator.getitem(y, i)", "b = operator.iadd(a, a)", "operator.setitem(y, i, b)"]
    yield "relu-inplace", x, ["a = F.relu(x, inplace=True)", "b = torch.add(a, 1)"]
    yield "out", {"x": "f32[3]", "o": "f32[3]"}, ["a = torch.add(x, 1, out=o)"]
    yield "out-cast", {"x": "f32[3]", "o": "i64[3]"}, ["a = torch.add(x, 1, out=o)"]
    yield "unsqueeze_", x, ["a = torch.add(x, 1)", "b = Tensor.unsqueeze_(a, 0)", "Tensor.mul_(a, 2)"]
    yield "contiguous-of-transposed", x, ["a = Tensor.t(x)", "b = Tensor.contiguous(a)", "Tensor.add_(b, 1)"]
    yield "reshape-of-transposed", x, ["a = Tensor.t(x)", "b = Tensor.reshape(a, 12)", "Tensor.add_(b, 1)"]
    yield "to-same-dtype", x, ["a = Tensor.to(x, torch.float32)", "Tensor.add_(a, 1)"]
    yield "to-other-dtype", x, ["a = Tensor.to(x, torch.float64)", "Tensor.add_(a, 1)"]
    yield "detach-write", x, ["a = Tensor.detach(x)", "Tensor.sub_(a, 1)"]
    yield "overlapping-setitem", {"x": "f32[5]"}, [
        "a = operator.getitem(x, slice(0, 2))", "b = operator.getitem(x, slice(2, 4))", "operator.setitem(x, slice(2, 4), a)", "c = torch.add(b, 1)"]


def promotion():
    types = list(NAMES)
    values = {"tensor": lambda d: torch.ones(2, dtype=d), "zero": lambda d: torch.ones((), dtype=d)}
    with open(os.path.join(HERE, "promote.txt"), "w") as out:
        for (ka, fa), (kb, fb) in itertools.product(values.items(), values.items()):
            for a, b in itertools.product(types, types):
                common = NAMES.get(torch.result_type(fa(a), fb(b)))
                if common:  # not complex32
                    print(f"{ka} {NAMES[a]} {kb} {NAMES[b]} {common}", file=out)
        for (ka, fa), (number, kind) in itertools.product(values.items(), ((1, "i64"), (1.5, "f32"), (True, "bool"))):
            for a in types:
                print(f"{ka} {NAMES[a]} number {kind} {NAMES[torch.result_type(fa(a), number)]}", file=out)
        for a, b in itertools.product(types, types):
            print(f"cast {NAMES[a]} {NAMES[b]} {str(torch.can_cast(a, b)).lower()}", file=out)


def main():
    torch.set_num_threads(1)
    for subject in (pointwise, views, joins, creates, converts, indexes, aliasing):
        with open(os.path.join(HERE, subject.__name__ + ".txt"), "w") as out:
            for name, inputs, statements in subject():
                run(name, inputs, statements, out)
    promotion()


main()
