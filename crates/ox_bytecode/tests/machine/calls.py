"""Calls, functions and classes."""

import sys
import types
import typing

from generators import Wrapped, stopped
from variables import NULL


class Calls:
    def Call(self, n, keywords=None):
        first, second, *args = self.take(n + 2)
        function, args = (second, args) if first is NULL else (first, [second, *args])
        names = () if keywords is None else self.code.co_consts[keywords]
        kwargs = dict(zip(names, args[len(args) - len(names) :]))
        args = args[: len(args) - len(names)]
        if function is super and not args:
            args = self.super_arguments()
        self.push(self.call(function, *args, **kwargs))

    def super_arguments(self):
        first = self.slots[0]
        first = first.cell_contents if isinstance(first, types.CellType) else first
        return [self.slots[self.slot_names.index("__class__")].cell_contents, first]

    def CallFunctionEx(self, *keywords):
        kwargs = self.pop() if keywords else {}
        null, function, args = self.take(3)
        assert null is NULL
        self.push(self.call(function, *args, **kwargs))

    def MakeFunction(self):
        code = self.pop()
        # The interpreter wants a closure of the right size at once.
        empty = tuple(types.CellType() for _ in code.co_freevars)
        self.push(types.FunctionType(code, self.globals, closure=empty))

    def SetFunctionAttribute(self, attribute):
        value, made = self.take(2)
        if attribute == "closure":
            new = types.FunctionType(made.__code__, made.__globals__, closure=value)
            new.__defaults__, new.__kwdefaults__, new.__annotations__ = made.__defaults__, made.__kwdefaults__, made.__annotations__
            made = new
        elif attribute == "annotations":
            made.__annotations__ = dict(zip(value[::2], value[1::2]))
        else:
            setattr(made, f"__{attribute}__", value)
        self.push(made)

    def build_class(self, body, name, *bases, **kwargs):
        def run(namespace):
            type(self)(self.programs, body.__code__, body.__globals__, namespace, body.__closure__ or ()).start()

        return types.new_class(name, bases, kwargs, run)


class Intrinsics:
    def CallIntrinsic1(self, name):
        self.push(getattr(self, "intrinsic_" + name.replace("-", "_"))(self.pop()))

    def CallIntrinsic2(self, name):
        self.push(getattr(self, "intrinsic_" + name.replace("-", "_"))(*self.take(2)))

    def intrinsic_print(self, value):
        sys.displayhook(value)

    def intrinsic_import_star(self, module):
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        self.locals.update({name: getattr(module, name) for name in names})

    def intrinsic_stop_iteration_error(self, error):
        return stopped(error, self.code.co_flags)

    def intrinsic_async_gen_wrap(self, value):
        return Wrapped(value)

    def intrinsic_list_to_tuple(self, value):
        return tuple(value)

    def intrinsic_type_var(self, name):
        return typing.TypeVar(name, infer_variance=True)

    def intrinsic_param_spec(self, name):
        return typing.ParamSpec(name, infer_variance=True)

    def intrinsic_type_var_tuple(self, name):
        return typing.TypeVarTuple(name)

    def intrinsic_subscript_generic(self, parameters):
        unpacked = [typing.Unpack[p] if isinstance(p, typing.TypeVarTuple) else p for p in parameters]
        return typing.Generic[tuple(unpacked)]

    def intrinsic_type_alias(self, parts):
        name, parameters, compute = parts
        return typing.TypeAliasType(name, self.call(compute), type_params=parameters or ())

    def intrinsic_prep_reraise_star(self, original, raised):
        left = [error for error in raised if error is not None]
        return left[0] if len(left) == 1 else BaseExceptionGroup("", left) if left else None

    def intrinsic_type_var_with_bound(self, name, compute):
        return typing.TypeVar(name, bound=self.call(compute), infer_variance=True)

    def intrinsic_type_var_with_constraints(self, name, compute):
        return typing.TypeVar(name, *self.call(compute), infer_variance=True)

    def intrinsic_set_function_type_params(self, function, parameters):
        function.__type_params__ = parameters
        return function

    def intrinsic_set_type_param_default(self, parameter, compute):
        return type(parameter)(parameter.__name__, default=self.call(compute), infer_variance=True)
