"""``options={"pad_to": ...}``: sizes of arguments are padded to buckets, and results are cut back.

    oxytorch.compile(model, options={"pad_to": {"input_ids": {1: 64}, "attention_mask": {1: [32, 128, 512]}, "labels": {1: (64, -100)}}})

By parameter and dimension: a multiple, a list of sizes, or one of them with the value to pad with (0 otherwise). That padding is safe, because
what is padded is masked for example, is the user's word. The padded sizes are variables of the trace; a dimension of a result is cut exactly if
its size is such a variable in the graph, whatever numbers happen to be equal. One that is made of it otherwise (flattened, doubled) is an error,
and so are a function that breaks and a result that is neither a tensor, a plain value, nor a tuple, list, dict or dataclass of them.

What the function writes to a padded argument is copied back, and a result that is the argument is the caller's own tensor. Beyond that the function
works on a copy: a view of an argument that it returns is a view of the copy; side effects, and numbers that it takes from sizes, are those of
the padded sizes.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import inspect
from typing import Any, Callable, Iterator, Mapping

import torch
import torch.nn as nn

from oxytorch._oxytorch import size_relation


PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
"""What holds no tensor."""


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The sizes that one dimension may have."""

    name: str
    dim: int
    sizes: tuple[int, ...]
    """One of them for multiples of it."""
    multiple: bool
    value: float

    def size(self, actual: int) -> int:
        if self.multiple:
            return max(-(-actual // self.sizes[0]), 1) * self.sizes[0]
        at = bisect.bisect_left(self.sizes, actual)
        if at == len(self.sizes):
            raise ValueError(
                f"oxytorch: pad_to: dimension {self.dim} of {self.name} is {actual}, above its largest bucket, {self.sizes[-1]}"
            )
        return self.sizes[at]


def buckets(pad_to: Any, parameters: list[str]) -> list[Bucket]:
    """Raises TypeError or ValueError for what cannot be meant."""
    if not isinstance(pad_to, Mapping):
        raise TypeError("oxytorch: pad_to is a dict of parameters' names, as in {'input_ids': {1: 64}}")
    found = []
    for name, dims in pad_to.items():
        if name not in parameters:
            raise ValueError(f"oxytorch: pad_to: there is no parameter {name!r}; there are {', '.join(parameters)}")
        if not isinstance(dims, Mapping):
            raise TypeError(f"oxytorch: pad_to: {name} needs a dict of its dimensions, as in {{1: 64}}")
        for dim, how in dims.items():
            found.append(_bucket(name, dim, how))
    return found


def _bucket(name: str, dim: Any, how: Any) -> Bucket:
    place = f"oxytorch: pad_to: {name}, dimension {dim}"
    if not _is_int(dim):
        raise TypeError(f"{place}: a dimension is a number")
    how, value = how if isinstance(how, tuple) and len(how) == 2 else (how, 0)
    if isinstance(value, (str, bytes)) or not isinstance(value, (int, float)):
        raise TypeError(f"{place}: padded with {value!r}, which is no number")
    sizes = tuple(how) if isinstance(how, list) else (how,)
    if not sizes or not all(map(_is_int, sizes)):
        raise TypeError(f"{place}: takes a multiple, a list of sizes, or (one of them, value), not {how!r}")
    if min(sizes) < 2:
        raise ValueError(f"{place}: a bucket is 2 or more, not {min(sizes)}")
    return Bucket(name, dim, tuple(sorted(sizes)), not isinstance(how, list), value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def padded(function: Callable[..., Any], pad_to: Any, shapes: Any, capture: Callable[..., Any]) -> Callable[..., Any]:
    """``capture(function, shapes)``, called with padded arguments."""
    signature = inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    wanted = buckets(pad_to, [p.name for p in signature.parameters.values() if not p.kind.name.startswith("VAR_")])
    by_place = [p.name for p in signature.parameters.values() if p.kind.name.startswith("POSITIONAL")]
    declared = {name: dict(dims) for name, dims in (shapes or {}).items()}
    for bucket in wanted:
        declared.setdefault(bucket.name, {}).setdefault(bucket.dim, None)

    def traced(*args, **kwargs):
        sizes = [_argument(bucket.name, by_place, args, kwargs).shape[bucket.dim] for bucket in given(args, kwargs)]
        result = function(*args, **kwargs)
        return result, [[_relation(size, sizes) for size in tensor.shape] for tensor in _tensors(result)]

    def given(args, kwargs):
        return [bucket for bucket in wanted if _argument(bucket.name, by_place, args, kwargs) is not None]

    traced.__signature__ = signature
    captured = capture(traced, declared)

    @functools.wraps(function if not isinstance(function, nn.Module) else function.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        here = given(args, kwargs)
        everything = (args, kwargs)
        args, kwargs, lost, copies = _pad(here, by_place, args, kwargs)
        result, relations = captured(*args, **kwargs)
        _check_equal(captured, here, by_place, args, kwargs, lost)
        known = {}
        for copy in copies:
            copy.write_back(everything)
            known[id(copy.padded)], known[id(copy.given)] = (copy.padded, copy.given), (copy.given, copy.given)
        return _cut(result, iter(relations), here, lost, known)

    call.stats, call.report, call.show, call.reset = captured.stats, captured.report, captured.show, captured.reset
    return call


def _argument(name: str, by_place: list[str], args: tuple, kwargs: dict) -> Any:
    if name in kwargs:
        found = kwargs[name]
    else:
        place = by_place.index(name) if name in by_place else len(args)
        found = args[place] if place < len(args) else None
    return found if isinstance(found, torch.Tensor) else None


class Copy:
    """An argument, and the padded copy that the function gets."""

    def __init__(self, name: str, given: torch.Tensor, padded: torch.Tensor) -> None:
        self.name, self.given, self.padded = name, given, padded
        self.versions, self.shape = self._versions(), padded.shape

    def _versions(self) -> tuple[int, int]:
        return 0 if self.given.is_inference() else self.given._version, self.padded._version

    def write_back(self, everything: Any) -> None:
        """``everything`` holds the arguments as they were given: a write must be seen by all that share memory, but copies share none."""
        given, padded = self._versions()
        if given != self.versions[0]:
            raise ValueError(f"oxytorch: pad_to: {self.name} is padded, and its memory is written to under another name; pad outside")
        if padded == self.versions[1]:
            return
        memory = _memory(self.given)
        if memory and sum(_memory(tensor) == memory for tensor in _tensors(everything)) > 1:
            raise ValueError(f"oxytorch: pad_to: {self.name} is padded and written to, and shares memory with another argument; pad outside")
        if self.padded.shape != self.shape:
            raise ValueError(f"oxytorch: pad_to: {self.name} is padded, and the function gives it another shape; pad outside")
        self.given.copy_(self.padded[tuple(map(slice, self.given.shape))])


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _pad(here: list[Bucket], by_place: list[str], args: tuple, kwargs: dict) -> tuple[tuple, dict, list[int], list[Copy]]:
    """With how much each bucket has added."""
    given = {bucket.name: _argument(bucket.name, by_place, args, kwargs) for bucket in here}
    tensors, lost, seen = dict(given), [], set()
    for bucket in here:
        tensor = tensors[bucket.name]
        rank = tensor.dim()
        if not -rank <= bucket.dim < rank:
            raise ValueError(f"oxytorch: pad_to: {bucket.name} has {rank} dimensions; there is no dimension {bucket.dim}")
        if (bucket.name, bucket.dim % rank) in seen:
            raise ValueError(f"oxytorch: pad_to: dimension {bucket.dim % rank} of {bucket.name} has two buckets")
        seen.add((bucket.name, bucket.dim % rank))
        size = tensor.shape[bucket.dim]
        lost.append(bucket.size(size) - size)
        if lost[-1]:
            behind = rank - 1 - bucket.dim % rank
            tensors[bucket.name] = _pad_tensor(tensor, [0, 0] * behind + [0, lost[-1]], bucket.value)
    by_name = {name: tensor for name, tensor in tensors.items() if name in kwargs}
    found = {by_place.index(name): tensor for name, tensor in tensors.items() if name not in kwargs}
    args = tuple(found.get(place, argument) for place, argument in enumerate(args))
    copies = [Copy(name, given[name], tensor) for name, tensor in tensors.items() if tensor is not given[name]]
    return args, {**kwargs, **by_name}, lost, copies


def _pad_tensor(tensor: torch.Tensor, widths: list[int], value: float) -> torch.Tensor:
    if not torch.is_inference_mode_enabled():
        return nn.functional.pad(tensor, widths, value=value)
    # A tensor that is made in inference mode does not count its writes.
    with torch.inference_mode(False), torch.no_grad():
        return nn.functional.pad(tensor, widths, value=value)


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    """Those in tuples, lists, dicts and dataclasses, in their order."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, dict):
        for item in result.values():
            yield from _tensors(item)
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _tensors(item)
    elif _is_record(result):
        for field in dataclasses.fields(result):
            yield from _tensors(getattr(result, field.name, None))


def _is_record(result: Any) -> bool:
    return dataclasses.is_dataclass(result) and not isinstance(result, type)


def _relation(size: Any, sizes: list[Any]) -> tuple[int, int]:
    """To the first padded size that it is, or is made of: the place of that, and how."""
    other = (-1, 0)
    for place, padded_size in enumerate(sizes):
        how = size_relation(size, padded_size)
        if how == 1:
            return place, 1
        if how != 0:
            other = (place, how)
    return other


def _cut(result: Any, relations: Iterator[list], here: list[Bucket], lost: list[int], known: dict) -> Any:
    again = lambda item: _cut(item, relations, here, lost, known)
    if isinstance(result, torch.Tensor):
        relation = next(relations)
        if id(result) not in known:
            cut = _cut_tensor(result, relation, here, lost)
            # A container that is met twice holds the cut tensor the second time.
            known[id(result)], known[id(cut)] = (result, cut), (cut, cut)
        return known[id(result)][1]
    if isinstance(result, dict) and not any(isinstance(key, torch.Tensor) for key in result):
        for key, item in list(result.items()):
            if (cut := again(item)) is not item:
                result[key] = cut
        return result
    if isinstance(result, list):
        result[:] = [again(item) for item in result]
        return result
    if isinstance(result, tuple):
        items = [again(item) for item in result]
        return type(result)._make(items) if hasattr(result, "_make") else type(result)(items)
    if _is_record(result):
        for field in dataclasses.fields(result):
            item = getattr(result, field.name, None)
            if (cut := again(item)) is not item:
                # Frozen ones as well: the function has just made it.
                object.__setattr__(result, field.name, cut)
        return result
    if isinstance(result, PLAIN):
        return result
    what = "a dict with tensors as keys" if isinstance(result, dict) else f"of type {type(result).__module__}.{type(result).__qualname__}"
    raise TypeError(
        f"oxytorch: pad_to: a result is {what}, in which padded tensors are not looked for; return them in tuples, lists, dicts or dataclasses"
    )


def _cut_tensor(tensor: torch.Tensor, relations: list, here: list[Bucket], lost: list[int]) -> torch.Tensor:
    for dim, (place, how) in enumerate(relations):
        if how == 3 and lost[place]:
            raise ValueError(
                f"oxytorch: pad_to: which dimensions of the results are dimension {here[place].dim} of {here[place].name} cannot be told, since "
                "the function is no single graph; oxytorch.explain shows where it breaks"
            )
        if how == 2 and lost[place]:
            raise ValueError(
                f"oxytorch: pad_to: dimension {dim} of a result, {tensor.shape[dim]}, is made of dimension {here[place].dim} of "
                f"{here[place].name}, which is padded, in a way that cannot be cut back; pad outside, or return it in another shape"
            )
        if how == 1 and lost[place]:
            tensor = tensor.narrow(dim, 0, tensor.shape[dim] - lost[place])
    return tensor


def _check_equal(captured: Any, here: list[Bucket], by_place: list[str], args: tuple, kwargs: dict, lost: list[int]) -> None:
    """What eager would refuse because two sizes differ must not pass because both are padded to one."""
    if len(set(lost)) < 2:
        return

    def show(bucket: Bucket) -> str:
        tensor = _argument(bucket.name, by_place, args, kwargs)
        place = f"kwarg[{bucket.name!r}]" if bucket.name in kwargs else f"arg{by_place.index(bucket.name)}"
        return f"{place}.shape[{bucket.dim % tensor.dim()}]"

    places = {show(bucket): n for n, bucket in enumerate(here)}
    for one, other in captured.equal_sizes(*args, **kwargs):
        a, b = places.get(one), places.get(other)
        if a is not None and b is not None and lost[a] != lost[b]:
            first, second = here[a], here[b]
            raise ValueError(
                f"oxytorch: pad_to: dimension {first.dim} of {first.name} and dimension {second.dim} of {second.name} must be equal, "
                "but are not before they are padded"
            )
