"""What autocast does to a call, found out by making the call on fake tensors: torch's own lists decide, not a copy of them."""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only


class _Operators(TorchDispatchMode):
    """Notes the operators that compute below autocast, and the types of their tensors. A view and a conversion change places freely."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is not torch.ops.aten._to_copy.default and not func.is_view and _types(result):
            self.seen.append((func, _types((args, kwargs))))
        return result


def _types(tree):
    return [leaf.dtype for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _operators(function, args, kwargs, dtype):
    # What the function makes by itself must be fake, too, and of the same kind.
    modes = (leaf.fake_mode for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, FakeTensor))
    fakes = next(modes, contextlib.nullcontext())
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None, cache_enabled=False), fakes, _Operators() as operators:
        result = function(*args, **kwargs)
    return operators.seen, _types(result)


def _converted(tree, dtype):
    def convert(tensor):
        eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
        return tensor.to(dtype) if eligible else tensor

    return tree_map_only(torch.Tensor, convert, tree)


def _without(function, args, kwargs):
    """The same without autocast; None if the call has no meaning then: that of several types, which autocast makes one."""
    try:
        return _operators(function, args, kwargs, None)
    except RuntimeError:
        return None


def conversion(function, args, kwargs, dtype):
    """The type to which autocast converts the arguments' floating point tensors (not those of float64); None if it does nothing.
    Raises NotImplementedError for a call of which only parts are converted, or whose inside is not seen."""
    wanted = _operators(function, args, kwargs, dtype)
    for operator, _ in wanted[0]:
        if operator.namespace not in ("aten", "prims"):
            raise NotImplementedError(f"autocast may convert inside of {operator}")
    if _without(function, args, kwargs) == wanted:
        return None
    for target in (dtype, torch.float32):
        if _without(function, *_converted((args, kwargs), target)) == wanted:
            return target
    raise NotImplementedError("autocast converts inside of it")


_known = {}


def conversion_of_shadows(function, args, kwargs, dtype):
    """The same for tensors of the meta device that stand for tensors of the CPU, which autocast does not see as such."""
    leaves = tree_flatten((args, kwargs))[0]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not any(tensor.is_floating_point() and tensor.dtype != torch.float64 for tensor in tensors):
        return None
    # What is no tensor may decide, too: a type that is given, or what the call leaves out.
    others = tuple(leaf if isinstance(leaf, torch.dtype) else type(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor))
    key = (function, dtype, len(args), tuple(kwargs), others, tuple((t.dtype, t.ndim, t.requires_grad) for t in tensors))
    if key not in _known:
        with FakeTensorMode(allow_non_fake_inputs=True):
            stand_in = lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
            args, kwargs = tree_map_only(torch.Tensor, stand_in, (args, kwargs))
            args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
        try:
            _known[key] = conversion(function, args, kwargs, dtype)
        except NotImplementedError as error:
            _known[key] = error
    found = _known[key]
    if isinstance(found, Exception):
        raise found
    return found
