"""What autocast does to a call, found out by making the call on fake tensors: torch's own lists decide, not a copy of them."""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only


class _Operators(TorchDispatchMode):
    """Notes the operators that compute below autocast, and the types in which they do it. A view and a conversion change places freely."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is not torch.ops.aten._to_copy.default and not func.is_view and _types(result):
            self.seen.append((func, _computed(func, args, kwargs)))
        return result


def _computed(func, args, kwargs):
    """A type that an operator is given is the one that it converts floating point tensors to before it computes."""
    given = kwargs.get("dtype")
    if func in _SOFTMAX and args[2]:
        given = torch.float32
    is_given = isinstance(given, torch.dtype) and given.is_floating_point
    return [given if is_given and dtype.is_floating_point else dtype for dtype in _types((args, kwargs))]


# The last argument asks for a result in float32, of half types on a GPU.
_SOFTMAX = torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default


def _types(tree):
    return [leaf.dtype for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


@contextlib.contextmanager
def _autocast(device, dtype):
    """`torch.autocast` asks for a GPU before it lets a region begin, and fake tensors of one need none."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()
    _set_autocast(device, dtype is not None, dtype or before[1], False)
    try:
        yield
    finally:
        _set_autocast(device, *before)


def _set_autocast(device, enabled, dtype, cache):
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache)


def _operators(function, args, kwargs, device, dtype):
    # What the function makes by itself must be fake, too, and of the same kind.
    modes = (leaf.fake_mode for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, FakeTensor))
    fakes = next(modes, contextlib.nullcontext())
    with _autocast(device, dtype), fakes, _Operators() as operators:
        result = function(*args, **kwargs)
    return operators.seen, _types(result)


def _converted(tree, dtype):
    def convert(tensor):
        eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
        return tensor.to(dtype) if eligible else tensor

    return tree_map_only(torch.Tensor, convert, tree)


def _without(function, args, kwargs, device):
    """The same without autocast; None if the call has no meaning then: that of several types, which autocast makes one."""
    try:
        return _operators(function, args, kwargs, device, None)
    except RuntimeError:
        return None


def conversion(function, args, kwargs, device, dtype):
    """The type to which autocast on this kind of device converts the arguments' floating point tensors (not those of float64); None if it does nothing.
    Raises NotImplementedError for a call of which only parts are converted, or whose inside is not seen."""
    wanted = _operators(function, args, kwargs, device, dtype)
    for operator, _ in wanted[0]:
        if operator.namespace not in ("aten", "prims"):
            raise NotImplementedError(f"autocast may convert inside of {operator}")
    plain = _without(function, args, kwargs, device)
    if plain == wanted:
        return None
    for target in (dtype, torch.float32):
        whole = _without(function, *_converted((args, kwargs), target), device)
        if whole == wanted:
            return target
    # It only widens, and only a part (of a cross entropy): widened as a whole, the call rounds less.
    if plain and whole and _widens(plain, wanted) and _widens(wanted, whole) and wanted[1] == whole[1]:
        return torch.float32
    raise NotImplementedError("autocast converts inside of it")


def _widens(narrow, wide):
    """Whether the same operators compute in the same types, or in wider ones."""
    pairs = [(a, b) for (_, first), (_, second) in zip(narrow[0], wide[0]) for a, b in zip(first, second)]
    return [f for f, _ in narrow[0]] == [f for f, _ in wide[0]] and all(torch.promote_types(a, b) == b for a, b in pairs)


_known = {}


def conversion_of_shadows(function, args, kwargs, device, dtype):
    """The same for tensors of the meta device that stand for tensors of this kind of device, which autocast does not see as such."""
    leaves = tree_flatten((args, kwargs))[0]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not any(tensor.is_floating_point() and tensor.dtype != torch.float64 for tensor in tensors):
        return None
    # What is no tensor may decide, too: a type that is given, or what the call leaves out.
    others = tuple(leaf if isinstance(leaf, torch.dtype) else type(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor))
    key = (function, device, dtype, len(args), tuple(kwargs), others, tuple((t.dtype, t.ndim, t.requires_grad) for t in tensors))
    if key not in _known:
        with FakeTensorMode(allow_non_fake_inputs=True):
            stand_in = lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
            args, kwargs = tree_map_only(torch.Tensor, stand_in, (args, kwargs))
            args, kwargs = tree_map_only(torch.device, lambda _: torch.device(device), (args, kwargs))
        try:
            _known[key] = conversion(function, args, kwargs, device, dtype)
        except NotImplementedError as error:
            _known[key] = error
    found = _known[key]
    if isinstance(found, Exception):
        raise found
    return found
