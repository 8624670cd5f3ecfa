"""Attributes, items, operators, collections and patterns."""

import operator
import types

from variables import NULL

BINARY = {
    "+": "add", "&": "and_", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul", "%": "mod", "|": "or_",
    "**": "pow", ">>": "rshift", "-": "sub", "/": "truediv", "^": "xor",
}  # fmt: skip
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}
UNARY = {"+": operator.pos, "-": operator.neg, "~": operator.invert, "not": operator.not_}


class Attributes:
    def LoadAttr(self, index):
        self.push(getattr(self.pop(), self.name(index)))

    def LoadMethod(self, index):
        self.push_method(getattr(self.pop(), self.name(index)))

    def push_method(self, found):
        """Both forms are right for a bound method; this one shows that the second is understood."""
        if isinstance(found, types.MethodType):
            self.push(found.__func__, found.__self__)
        else:
            self.push(NULL, found)

    def StoreAttr(self, index):
        value, target = self.take(2)
        setattr(target, self.name(index), value)

    def DeleteAttr(self, index):
        delattr(self.pop(), self.name(index))

    def LoadSuperAttr(self, index, *flags):
        function, class_, self_ = self.take(3)
        made = function(class_, self_) if function is super or "arguments" in flags else self.call(function)
        found = getattr(made, self.name(index))
        self.push_method(found) if "method" in flags else self.push(found)

    def BinarySubscr(self):
        a, key = self.take(2)
        self.push(a[key])

    def StoreSubscr(self):
        value, a, key = self.take(3)
        a[key] = value

    def DeleteSubscr(self):
        a, key = self.take(2)
        del a[key]

    def BuildSlice(self, n):
        self.push(slice(*self.take(n)))


class Operators:
    def Unary(self, op):
        self.push(UNARY[op](self.pop()))

    def Binary(self, op):
        in_place = op.endswith("=")
        name = BINARY[op.rstrip("=")]
        self.push(getattr(operator, "i" + name.rstrip("_") if in_place else name)(*self.take(2)))

    def Compare(self, op):
        self.push(COMPARE[op](*self.take(2)))

    def Is(self, *negated):
        a, b = self.take(2)
        self.push((a is b) != bool(negated))

    def Contains(self, *negated):
        item, container = self.take(2)
        self.push((item in container) != bool(negated))

    def ToBool(self):
        self.push(bool(self.pop()))


class Collections:
    def BuildTuple(self, n):
        self.push(tuple(self.take(n)))

    def BuildList(self, n):
        self.push(self.take(n))

    def BuildSet(self, n):
        self.push(set(self.take(n)))

    def BuildMap(self, n):
        flat = self.take(2 * n)
        self.push(dict(zip(flat[::2], flat[1::2])))

    def BuildConstKeyMap(self, n):
        *values, keys = self.take(n + 1)
        self.push(dict(zip(keys, values, strict=True)))

    def BuildString(self, n):
        self.push("".join(self.take(n)))

    def ListAppend(self, n):
        value = self.pop()
        self.stack[-n].append(value)

    def SetAdd(self, n):
        value = self.pop()
        self.stack[-n].add(value)

    def MapAdd(self, n):
        key, value = self.take(2)
        self.stack[-n][key] = value

    def ListExtend(self, n):
        value = self.pop()
        self.stack[-n].extend(value)

    def SetUpdate(self, n):
        value = self.pop()
        self.stack[-n].update(value)

    DictUpdate = SetUpdate

    def DictMerge(self, n):
        value = self.pop()
        target, function = self.stack[-n], self.stack[-n - 2]
        for key in value:
            if key in target:
                raise TypeError(f"{self.full_name(function)}() got multiple values for keyword argument {key!r}")
        target.update(value)

    @staticmethod
    def full_name(function):
        return f"{function.__module__}.{function.__qualname__}"

    def UnpackSequence(self, n):
        values = list(self.pop())
        if len(values) != n:
            raise ValueError(f"unpacked {len(values)} values, not {n}")
        self.push(*reversed(values))

    def UnpackEx(self, before, after):
        values = list(self.pop())
        split = len(values) - after
        self.push(*reversed(values[split:]), values[before:split], *reversed(values[:before]))

    def ConvertValue(self, conversion):
        self.push({"str": str, "repr": repr, "ascii": ascii}[conversion](self.pop()))

    def FormatSimple(self):
        self.push(format(self.pop()))

    def FormatWithSpec(self):
        self.push(format(*self.take(2)))


class Patterns:
    def GetLen(self):
        self.push(len(self.stack[-1]))

    def MatchMapping(self):
        self.push(isinstance(self.stack[-1], dict))

    def MatchSequence(self):
        self.push(isinstance(self.stack[-1], (list, tuple)))

    def MatchKeys(self):
        subject, keys = self.stack[-2:]
        self.push(tuple(subject[k] for k in keys) if all(k in subject for k in keys) else None)

    def MatchClass(self, n):
        subject, class_, names = self.take(3)
        if not isinstance(subject, class_):
            self.push(None)
            return
        itself = n == 1 and not hasattr(class_, "__match_args__")
        first = () if itself else getattr(class_, "__match_args__", ())[:n]
        found = [getattr(subject, name, NULL) for name in (*first, *names)]
        self.push(None if NULL in found else ((subject,) * itself + tuple(found)))
