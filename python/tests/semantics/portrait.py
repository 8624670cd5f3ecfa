"""What can be seen of a program's values: a tree of plain parts in which each object with an identity has a number.

Two sides are alike if their portraits are equal: then types, values, order, aliasing and object identity are. Numbers are given in the
order of the walk, so equal graphs of objects get equal numbers. Numbers (NumPy's too), strings and tuples of them have no identity
worth keeping.
"""

import collections
import functools
import inspect
import types

from .values import torch

ATOMS = {int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), range, slice, types.GenericAlias}
TUPLES = {tuple, frozenset}
BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType)
ITERATORS_LIMIT = 100

try:
    import numpy
except ImportError:
    pass
else:  # numbers like any others
    ATOMS |= {kind for kind in vars(numpy).values() if isinstance(kind, type) and issubclass(kind, (numpy.number, numpy.bool_))}


class Painter:
    """Numbers objects across many portraits: an object that is met again, in a later call too, is the same object."""

    def __init__(self):
        self.numbers = {}
        self.seen = set()
        self.storages = {}
        self.kept = []  # no id may be used again

    def begin(self):
        """A new portrait: objects keep their numbers, but what they hold may have changed."""
        self.seen = set()

    def paint(self, value):
        if type(value) in ATOMS:
            return atom(value)
        if type(value) in TUPLES and is_constant(value):
            return paint_items(self, value)
        number = self.number(value)
        if number in self.seen:
            return ("again", number)
        self.seen.add(number)
        return (number, *paint_object(self, value))

    def number(self, value):
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.numbers)
            self.kept.append(value)
        return self.numbers[id(value)]

    def storage(self, tensor):
        """Tensors that share memory share this number."""
        address = tensor.untyped_storage().data_ptr()
        return self.storages.setdefault(address, len(self.storages)) if tensor.numel() else None


def is_constant(value):
    """Whether it is the same for ever: then it makes no difference whether it is the same object."""
    if type(value) in TUPLES:
        return all(map(is_constant, value))
    return type(value) in ATOMS or isinstance(value, (type, *BUILTIN))


def atom(value):
    if isinstance(value, slice):
        return ("slice", atom(value.start), atom(value.stop), atom(value.step))
    return (type(value).__name__, repr(value))


def paint_items(painter, value):
    items = [painter.paint(item) for item in value]
    return (type(value).__qualname__, *(sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items))


def paint_object(painter, value):
    for kind, paint in PAINTERS:
        if isinstance(value, kind):
            return paint(painter, value)
    if is_iterator(value):
        return (type(value).__qualname__, *[painter.paint(item) for item, _ in zip(value, range(ITERATORS_LIMIT))])
    return paint_instance(painter, value)


def is_iterator(value):
    return hasattr(value, "__next__") and type(value).__module__ in ("builtins", "itertools", "_collections", "_functools")


def paint_instance(painter, value, *more):
    """An instance: its class, its attributes in order, its slots."""
    slots = [(name, painter.paint(getattr(value, name))) for name in slot_names(type(value)) if hasattr(value, name)]
    attributes = [(name, painter.paint(held)) for name, held in vars(value).items()] if hasattr(value, "__dict__") else []
    return (f"{type(value).__module__}.{type(value).__qualname__}", *more, ("dict", *attributes), ("slots", *slots))


def slot_names(cls):
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def paint_mapping(painter, value):
    items = [(painter.paint(key), painter.paint(held)) for key, held in value.items()]
    extra = [painter.paint(value.default_factory)] if isinstance(value, collections.defaultdict) else []
    return with_attributes(painter, value, (type(value).__qualname__, *extra, *items))


def paint_sequence(painter, value):
    extra = (("maxlen", value.maxlen),) if isinstance(value, collections.deque) else ()
    return with_attributes(painter, value, paint_items(painter, value) + extra)


def with_attributes(painter, value, portrait):
    """A subclass of a container has attributes of its own."""
    return portrait + (paint_instance(painter, value) if hasattr(value, "__dict__") else ())


def paint_exception(painter, value):
    links = [painter.paint(link) for link in (value.__cause__, value.__context__)]
    group = [painter.paint(error) for error in value.exceptions] if isinstance(value, BaseExceptionGroup) else []
    text = ("text", str(value), value.__suppress_context__)
    return paint_instance(painter, value, text, painter.paint(value.args), *links, *group)


def paint_class(painter, value):
    if value.__module__ in ("builtins", "torch") or "<locals>" not in value.__qualname__:
        return ("class", value.__module__, value.__qualname__)
    hidden = ("__module__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__static_attributes__", "__firstlineno__")
    held = [(name, painter.paint(item)) for name, item in vars(value).items() if name not in hidden]
    return ("class", value.__qualname__, *[painter.paint(base) for base in value.__bases__], *held)


def paint_function(painter, value):
    defaults = painter.paint(value.__defaults__), painter.paint(value.__kwdefaults__)
    cells = [painter.paint(cell) for cell in value.__closure__ or ()]
    return ("function", value.__qualname__, *defaults, *cells, *[(name, painter.paint(held)) for name, held in vars(value).items()])


def paint_cell(painter, value):
    try:
        return ("cell", painter.paint(value.cell_contents))
    except ValueError:
        return ("cell", "empty")


def paint_bound(painter, value):
    return ("method", painter.paint(value.__func__), painter.paint(value.__self__))


def paint_builtin(painter, value):
    owner = getattr(value, "__self__", None)
    bound = () if owner is None or isinstance(owner, types.ModuleType) else (painter.paint(owner),)
    return ("builtin", value.__qualname__, *bound)


def paint_partial(painter, value):
    return ("partial", painter.paint(value.func), painter.paint(value.args), painter.paint(value.keywords))


def paint_generator(painter, value):
    state = inspect.getgeneratorstate(value)
    return ("generator", value.__qualname__, state, *[painter.paint(item) for item, _ in zip(value, range(ITERATORS_LIMIT))])


def paint_coroutine(painter, value):
    """A coroutine that was not awaited; closed, so that nobody is told of it."""
    state = inspect.getcoroutinestate(value)
    value.close()
    return ("coroutine", value.__qualname__, state)


def paint_property(painter, value):
    return (type(value).__name__, *[painter.paint(getattr(value, name, None)) for name in ("fget", "fset", "fdel", "__func__")])


PAINTERS = [
    (type, paint_class),
    (BaseException, paint_exception),
    (types.FunctionType, paint_function),
    (types.MethodType, paint_bound),
    (BUILTIN, paint_builtin),
    (types.ModuleType, lambda painter, value: ("module", value.__name__)),
    (types.CellType, paint_cell),
    (types.GeneratorType, paint_generator),
    (types.CoroutineType, paint_coroutine),
    (functools.partial, paint_partial),
    ((property, staticmethod, classmethod), paint_property),
    ((dict, types.MappingProxyType), paint_mapping),
    ((list, tuple, set, frozenset, collections.deque), paint_sequence),
    ((type({}.keys()), type({}.values()), type({}.items())), lambda painter, value: (type(value).__name__, *map(painter.paint, value))),
    ((bytearray, memoryview), lambda painter, value: (type(value).__name__, bytes(value))),
]  # fmt: skip


class Values:
    """The elements of a tensor, compared by the rule of the case."""

    def __init__(self, tensor):
        self.tensor = tensor.detach().clone()

    def alike(self, other, close):
        if close:
            try:
                torch.testing.assert_close(self.tensor, other.tensor, equal_nan=True)
            except AssertionError:
                return False
            return True
        return torch.equal(self.bits(), other.bits())

    def bits(self):
        """Floats by their bits: zeros have signs. All that are not a number are alike."""
        tensor = torch.view_as_real(self.tensor.resolve_conj()) if self.tensor.is_complex() else self.tensor
        if not tensor.is_floating_point():
            return tensor
        return torch.where(tensor.isnan(), torch.nan, tensor).contiguous().view(INTEGERS[tensor.itemsize])

    def __repr__(self):
        return repr(self.tensor.tolist())


def paint_tensor(painter, value):
    strides = tuple(stride for stride, size in zip(value.stride(), value.shape) if size > 1)  # others reach nothing
    kind = (type(value).__name__, str(value.dtype), tuple(value.shape), ("strides", strides), str(value.device))
    grad = ("grad", value.requires_grad, value.is_leaf, value.is_inference())
    return (*kind, grad, ("storage", painter.storage(value)), Values(value), *with_python_attributes(painter, value))


def with_python_attributes(painter, value):
    return [(name, painter.paint(held)) for name, held in vars(value).items()]


def paint_array(painter, value):
    return (type(value).__name__, str(value.dtype), value.shape, repr(value.tolist()))


if torch is not None:
    import numpy

    INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    ATOMS |= {torch.dtype, torch.device, torch.layout, torch.memory_format}
    TUPLES |= {torch.Size}
    PAINTERS[:0] = [
        (torch.Tensor, paint_tensor),
        ((numpy.ndarray, numpy.generic), paint_array),
        (torch.Generator, lambda painter, value: ("generator", tuple(value.get_state().tolist()))),
    ]


def differences(got, want, close=False, where=""):
    """The places in which two portraits differ, in the order of the walk: the first is the cause, numbers behind it may be its effect."""
    if isinstance(got, Values) and isinstance(want, Values):
        return [] if got.tensor.shape == want.tensor.shape and got.alike(want, close) else [f"{where}: {got} instead of {want}"]
    if type(got) is tuple and type(want) is tuple and len(got) == len(want):
        return [line for place, pair in enumerate(zip(got, want)) for line in differences(*pair, close, f"{where}.{place}")]
    return [] if got == want else [f"{where}: {short(got)} instead of {short(want)}"]


def short(portrait, limit=300):
    text = repr(portrait)
    return text if len(text) <= limit else text[:limit] + "..."
