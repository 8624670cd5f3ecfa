"""Programs whose surroundings change between calls, compared with CPython in results, exceptions and effects."""

import textwrap

import pytest
import torch
from oxytorch import _oxytorch

# What the program is, and what is done to it between calls.
PROGRAMS = {
    "a metaclass says what is an instance": (
        """
        class Meta(type):
            def __instancecheck__(cls, object):
                return object in allowed
            def __subclasscheck__(cls, other):
                return answer
        class Kind(metaclass=Meta):
            pass
        allowed, answer, value = [1], True, 1
        def step(t):
            return t + 1, isinstance(value, Kind), isinstance(value, (str, Kind)), issubclass(int, Kind)
        """,
        ["value = 2", "allowed.append(2)", "answer = False", "value = Kind()"],
    ),
    "a metaclass says what is of a union": (
        """
        class Meta(type):
            def __instancecheck__(cls, object):
                return answer
        class Kind(metaclass=Meta):
            pass
        answer, value = True, "a"
        def step(t):
            return t + 1, isinstance(value, int | Kind)
        """,
        ["answer = False", "value = 1", "value = 'a'", "answer = True"],
    ),
    "a class is registered with an abstract one": (
        """
        import abc
        class Base(abc.ABC):
            pass
        class Other:
            pass
        value = Other()
        def step(t):
            return t + 1, isinstance(value, Base), issubclass(Other, Base), isinstance(value, (int, Base))
        """,
        ["Base.register(Other)", "value = 3", "value = Other()"],
    ),
    "a protocol looks at attributes": (
        """
        import typing
        @typing.runtime_checkable
        class Counts(typing.Protocol):
            n: int
        class Plain:
            pass
        value = Plain()
        value.n = 1
        def step(t):
            return t + 1, isinstance(value, Counts), isinstance(value, int | Counts), isinstance(t, Counts)
        """,
        ["del value.n", "value.n = 3", "Plain.n = 1; del value.n"],
    ),
    "a slot is filled and emptied": (
        """
        class Slots:
            __slots__ = ("a", "b")
        slots = Slots()
        slots.a = 1
        def step(t):
            try:
                return t * slots.a + slots.b
            except AttributeError as error:
                return t * slots.a, str(error)
        """,
        ["slots.b = 3", "slots.a = 2", "del slots.b", "del slots.a"],
    ),
    "a slot is emptied by the program": (
        """
        class Slots:
            __slots__ = ("a",)
        slots = Slots()
        def step(t):
            had = hasattr(slots, "a")
            slots.a = 1
            del slots.a
            return t + 1, had, hasattr(slots, "a")
        """,
        ["slots.a = 3", "slots = Slots()"],
    ),
    "another module has the name": (
        """
        import sys, types
        def put(**names):
            sys.modules["put_there"] = module = types.ModuleType("put_there")
            vars(module).update(names)
        put(k=1)
        def step(t):
            try:
                import put_there
                from put_there import k
            except ImportError as error:
                return t, str(error), error.name
            return t * put_there.k + k
        """,
        ["put(k=7)", "put()", "del sys.modules['put_there']", "put(k=2)"],
    ),
    "members are found by code of the program's": (
        """
        import enum
        class Color(enum.Enum):
            RED = 1
            BLUE = 2
            @classmethod
            def _missing_(cls, value):
                return cls[default]
        default, value = "RED", 7
        def step(t):
            return t + 1, Color(value).name, Color(2).name
        """,
        ["default = 'BLUE'", "value = 1"],
    ),
    "an enumeration is made in every call": (
        """
        import enum
        kept = []
        class Kept(list):
            def __repr__(self):
                kept.append(self[0])
                return str(len(set(map(id, kept))))
        def step(t):
            return t + 1, Kept([enum.Enum("Color", "RED BLUE")])
        """,
        ["kept.clear()"],
    ),
    "a class gets a hash": (
        """
        class Late:
            __hash__ = None
            def __eq__(self, other):
                return True
        value = Late()
        def step(t):
            try:
                return t + 1, len({value}), value in {1: 2}
            except TypeError as error:
                return t, str(error)
        """,
        ["Late.__hash__ = lambda self: 1", "value = 5", "value = []"],
    ),
    "a class is asked for an item": (
        """
        class Meta(type):
            def __getitem__(cls, key):
                return "meta", key, k
        class ByMeta(metaclass=Meta):
            pass
        class Own:
            def __class_getitem__(cls, key):
                return cls.__name__, key, k
        k = 1
        def step(t):
            return t + 1, ByMeta["a"], Own[int], list[int], dict[str, int]
        """,
        ["k = 2", "class Own(Own): pass"],
    ),
    "a module gets a name that was not there": (
        """
        import types
        module = types.ModuleType("module")
        def step(t):
            try:
                found = module.late
            except AttributeError as error:
                found = str(error)
            return t + 1, found, hasattr(module, "late"), getattr(module, "late", "none")
        """,
        ["module.late = 3", "del module.late", "module.__getattr__ = str.upper", "del module.__getattr__"],
    ),
    "a module computes its attributes": (
        """
        import types
        module = types.ModuleType("module")
        value, asked = 1, []
        def compute(name):
            asked.append(name)
            if name == "found":
                return value
            raise AttributeError("not " + name)
        module.__getattr__ = compute
        def step(t):
            return t * module.found, hasattr(module, "other"), len(asked)
        """,
        ["value = 2", "module.found = 5", "del module.found", "module.__getattr__ = lambda name: 7"],
    ),
    "a module is of a class with properties": (
        """
        import types
        class Module(types.ModuleType):
            fast = property(lambda self: self.speed > 1, lambda self, value: vars(self).update(speed=value))
            def __getattr__(self, name):
                return name * self.speed
        module = Module("module")
        module.speed = 1
        def step(t):
            return t + 1, module.fast, module.other, module.speed
        """,
        ["module.speed = 2", "module.other = 3", "Module.fast = 5", "del module.other", "module.fast = 1"],
    ),
    "torch's flags are read": (
        """
        flags = torch.backends
        def step(t):
            return t + 1, flags.cudnn.benchmark, flags.cudnn.deterministic, flags.mkldnn.enabled, flags.cuda.matmul.allow_tf32
        """,
        [
            # Not by assignment, which torch's own tests forbid to the whole process.
            "before = flags.cudnn.benchmark; torch._C._set_cudnn_benchmark(not before)",
            "torch._C._set_cudnn_benchmark(before); torch._C._set_cudnn_deterministic(not flags.cudnn.deterministic)",
            "torch._C._set_cudnn_deterministic(not flags.cudnn.deterministic)",
        ],
    ),
    "a module is asked for what is imported of it": (
        """
        import sys, types
        module = sys.modules["asked_module"] = types.ModuleType("asked_module")
        value, asked = 1, []
        def compute(name):
            asked.append(name)
            if name == "found":
                return value
            raise AttributeError("not " + name)
        module.__getattr__ = compute
        def step(t):
            from asked_module import found
            try:
                from asked_module import other
            except ImportError as error:
                other = str(error), error.name, error.path
            return t * found, other, list(asked)
        """,
        ["value = 2", "module.__path__ = []", "module.other = 3", "del module.other, module.__path__"],
    ),
    "a metaclass computes attributes of its classes": (
        """
        class Meta(type):
            def __getattr__(cls, name):
                asked.append(name)
                return cls.__name__ + name * k
        class Kind(metaclass=Meta):
            pass
        k, asked = 1, []
        def step(t):
            return t + 1, Kind.a, len(asked)
        """,
        ["k = 2", "Kind.a = 3", "del Kind.a", "Meta.__getattr__ = lambda cls, name: name"],
    ),
    "a metaclass has properties": (
        """
        class Meta(type):
            @property
            def both(cls):
                asked.append(cls.__name__)
                return k
            def __getattribute__(cls, name):
                return k if name == "hooked" else super().__getattribute__(name)
        class Plain(type):
            alone = property(lambda cls: k)
        class Kind(metaclass=Meta):
            both, hooked = 5, 6
        class Other(metaclass=Plain):
            pass
        k, asked = 1, []
        def step(t):
            return t + 1, Kind.both, Kind.hooked, Kind().both, Other.alone, len(asked)
        """,
        ["k = 2", "Plain.alone = 3", "del Meta.both", "Kind.both = 9"],
    ),
    "an object with a hook is told of in the reason for a trace": (
        """
        asked = []
        class Owner:
            def __getattr__(self, name):
                asked.append(name)
                return k
            @property
            def __name__(self):
                asked.append("its name")
        owner = Owner()
        k, table = 1, {owner: 1}
        def step(t):
            return t + k, owner in table, list(table.values()), list(asked)
        """,
        ["table[Owner()] = 2", "k = 2", "del table[owner]"],
    ),
    "entries of a dict are stored by its own method": (
        """
        class Config(dict):
            __getattr__, __setattr__, __delattr__ = dict.get, dict.__setitem__, dict.__delitem__
        config = Config(n=1)
        def step(t):
            config.n = config.n + 1
            config.last = t.shape[0]
            made = Config()
            made.size = config.n
            del config.last
            return t * made.size, list(config.items()), vars(config), list(made.items()), vars(made)
        """,
        ["config.n = 7", "config = Config(n=2)"],
    ),
    "a metaclass says what is set on its classes": (
        """
        class Kept:
            def __get__(self, cls, meta):
                return cls._kept, meta.__name__
            def __set__(self, cls, value):
                cls._kept = value
        class Meta(type):
            kept = Kept()
            fixed = property(lambda cls: 1)
            @property
            def twice(cls):
                return cls._n
            @twice.setter
            def twice(cls, value):
                cls._n = 2 * value
            @twice.deleter
            def twice(cls):
                cls._n = 0
        class Kind(metaclass=Meta):
            _n, _kept = 1, 0
        def step(t):
            Kind.twice = Kind.twice + 1
            Kind.kept = Kind._n + 1
            try:
                Kind.fixed = 2
            except AttributeError as error:
                told = str(error)
            if Kind._n > 40:
                del Kind.twice
            return t + Kind._n, Kind.twice, Kind.kept, told
        """,
        ["Kind._n = 30", "Kind.twice = 3"],
    ),
    "a module that computes attributes has what all modules have": (
        """
        import types
        class Own(types.ModuleType):
            def __getattr__(self, name):
                raise AttributeError(name)
        own, plain = Own("own"), types.ModuleType("plain")
        exec("def __getattr__(name): raise AttributeError(name)", vars(plain))
        own.k = plain.k = 1
        def step(t):
            return t + 1, [(m.__dict__["k"], m.__class__.__name__, m.__getattribute__("k"), hasattr(m, "none")) for m in (own, plain)]
        """,
        ["own.k = plain.k = 2", "own.none = 1"],
    ),
    "a slot and a cell are empty": (
        """
        class Base:
            __slots__ = ("x",)
        class Kept(Base):
            __slots__ = ("y", "__dict__")
        def made():
            def read():
                return late
            def change(*given):
                nonlocal late
                if given:
                    late, = given
                else:
                    del late
            late = 0
            del late
            return read, change
        kept, (read, change) = Kept(), made()
        def step(t):
            told = []
            for find in (lambda: kept.x, lambda: kept.y, read):
                try:
                    told.append(find())
                except (AttributeError, NameError) as error:
                    told.append(str(error))
            return t + 1, told
        """,
        ["kept.x = 1", "kept.y = 2", "change(3)", "del kept.x", "change()", "kept = Kept()", "kept.__class__ = type('Other', (Kept,), {'__slots__': ()})"],
    ),
    "a property that was computed is forgotten": (
        """
        import functools
        class Owner:
            n = 0
            @functools.cached_property
            def kept(self):
                self.n += 1
                return self.n
            def count(self):
                self.n += 1
                return self.n
        owner = Owner()
        def step(t):
            return t + 1, owner.count(), owner.kept, owner.n
        """,
        ["del owner.kept", "owner = Owner()", "owner.kept = 7"],
    ),
    "counts are kept in a list": (
        """
        class Owner:
            n, kept = 0, []
        owner = Owner()
        owner.kept = []
        def step(t):
            owner.n += 1
            owner.kept.append(owner.n)
            owner.kept.append(owner.n * 2)
            if read:
                return t + owner.kept[-1], owner.kept[-2:], len(owner.kept), owner.n in owner.kept, sum(owner.kept)
            return t + 1, owner.kept
        read = False
        """,
        ["owner.n = 10", "read = True", "owner.n = 20", "owner.kept.clear()", "read = False", "owner.kept = [0]"],
    ),
    "a name comes later": (
        """
        import builtins
        def step(t):
            try:
                return t * late
            except NameError as error:
                return t, str(error), error.name
        """,
        ["late = 3", "del late", "builtins.late = 7", "del builtins.late"],
    ),
    "tensors of a class of the program's are told what is asked": (
        """
        class Told(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                log.append(function.__name__)
                return super().__torch_function__(function, types, args, kwargs or {})
        log = []
        told = torch.ones(2).as_subclass(Told)
        def step(t):
            y = (t + told).sum() * 2
            asked = list(log)
            log.clear()
            return y.as_subclass(torch.Tensor), asked
        """,
        ["told = torch.zeros(2)", "told = torch.ones(2).as_subclass(Told)"],
    ),
    "a function is given other parts": (
        """
        def f(t, a=1, *, b=2):
            return t * a + b
        def other(t, a=1, *, b=2, **rest):
            return t * a - b
        def step(t):
            return f(t), f.__name__, f.__qualname__, f.__defaults__, f.__code__.co_varnames, list(f.__annotations__)
        """,
        [
            "f.__defaults__ = (3,)",
            "f.__kwdefaults__ = {'b': 5}",
            "f.__kwdefaults__['b'] = 6",
            "f.__code__ = other.__code__",
            "f.__name__ = 'g'",
            "f.__qualname__ = 'h'",
            "f.__annotations__['a'] = int",
            "f.__annotations__ = {}",
            "f.__defaults__ = None",
        ],
    ),
    "a function that others wrap is given other parts": (
        """
        import functools
        def keeps(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs), function.__name__, function.__kwdefaults__
            return wrapper
        def f(t, a=1, *, b=2):
            return t * a + b
        def other(t, a=1, *, b=2):
            return t * a - b
        inner, f = f, keeps(f)
        def step(t):
            return f(t)
        """,
        ["inner.__defaults__ = (3,)", "inner.__kwdefaults__ = {'b': 5}", "inner.__code__ = other.__code__", "inner.__name__ = 'g'"],
    ),
    "the dict of an instance is read": (
        """
        class Owner:
            pass
        class Other:
            pass
        owner = Owner()
        owner.n = 1
        def step(t):
            return t * owner.__dict__["n"], "m" in owner.__dict__, list(vars(owner)), type(owner).__name__
        """,
        ["owner.n = 2", "owner.m = 1", "owner.__dict__ = {'n': 7}", "owner.__dict__['n'] = 8", "owner.__class__ = Other", "owner.m = 3", "del owner.m"],
    ),
    "the dict of an instance is read that the program counts in": (
        """
        class Owner:
            pass
        owner = Owner()
        owner.n = 1
        def step(t):
            owner.n += 1
            return t * 2, "n" in owner.__dict__, "m" in owner.__dict__, len(owner.__dict__), owner.__dict__["n"]
        """,
        ["owner.n = 2", "owner.m = 1", "owner.__dict__ = {'n': 7}", "del owner.n"],
    ),
    "a slot becomes something else": (
        """
        class Slots:
            __slots__ = ("a", "b")
        slots = Slots()
        slots.a, slots.b = 1, None
        def step(t):
            return t * slots.a, slots.b is None
        """,
        ["slots.b = 1", "slots.a = 2", "kept = Slots.a; Slots.a = property(lambda self: 9)", "Slots.a = kept", "slots = Slots(); slots.a = slots.b = 4"],
    ),
    "an ordered dict has other keys": (
        """
        import collections
        first, second = collections.OrderedDict(), collections.OrderedDict(a=1, b=2)
        def step(t):
            return t + 1, list(first), list(second)
        """,
        ["first['x'] = 1", "second.move_to_end('a')", "first['y'] = 1", "first.move_to_end('x')", "first.clear()", "second.popitem()"],
    ),
    "the bases of a class change": (
        """
        class Base:
            def factor(self):
                return 1
        class Kind(Base):
            pass
        class Other:
            def factor(self):
                return 5
        kind = Kind()
        def step(t):
            return t * kind.factor()
        """,
        ["Base.factor = lambda self: 2", "Kind.factor = lambda self: 3", "del Kind.factor", "class Third(Base): factor = Other.factor\nkind.__class__ = Third", "del Third.factor"],
    ),
}


def outcomes(source, changes, wrap):
    names, told = {"__name__": "program", "torch": torch}, []
    exec(textwrap.dedent(source), names)
    step = wrap(names["step"])
    for change in ["", "", *(each for change in changes for each in (change, ""))]:
        exec(change, names)
        try:
            told.append(repr(step(torch.ones(2))))
        except Exception as error:
            told.append(repr(error))
    return told


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_goes_on_as_in_cpython(name):
    captured = outcomes(*PROGRAMS[name], lambda step: _oxytorch.capture(step, settings=[("recompile_limit", 100)]))
    assert captured == outcomes(*PROGRAMS[name], lambda step: step)
