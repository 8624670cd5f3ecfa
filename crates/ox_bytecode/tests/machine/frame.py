"""A frame of the machine."""

import inspect
import types

from calls import Calls, Intrinsics
from flow import Exceptions, Jumps
from generators import AsyncGenerator, Coroutine, Delegation, Generator, outcome
from values import Attributes, Collections, Operators, Patterns
from variables import NULL, Stack, Variables

STARTED = object()


class Frame(Stack, Variables, Attributes, Operators, Collections, Patterns, Calls, Intrinsics, Jumps, Delegation, Exceptions):
    """Runs a code object. Each instruction is the method of its name."""

    # The names of the instructions that any frame has run.
    ran = set()

    def __init__(self, programs, code, globals_, locals_, closure):
        self.programs = programs
        self.code, self.globals, self.locals, self.closure = code, globals_, locals_, closure
        self.program = programs.of(code)
        extra = [c for c in code.co_cellvars if c not in code.co_varnames]
        self.slot_names = [*code.co_varnames, *extra, *code.co_freevars]
        self.slots = [NULL] * len(self.slot_names)
        self.stack, self.at = [], 0

    def bind(self, function, args, kwargs):
        # Functions that the compiler made up (comprehensions, scopes of type parameters) have parameters whose names are none.
        if any(name.startswith(".") for name in self.code.co_varnames[: self.code.co_argcount]):
            self.slots[: len(args)] = args
            return
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            self.slots[self.code.co_varnames.index(name)] = value

    def start(self):
        run = self.run()
        try:
            first = next(run)
        except StopIteration as end:
            return outcome(end.value)
        assert first is STARTED
        kinds = {0x20: Generator, 0x80: Coroutine, 0x200: AsyncGenerator}
        return next(kind for flag, kind in kinds.items() if self.code.co_flags & flag)(run, self)

    def run(self):
        """Yields what the frame yields; returns whether it ended well, and its result or exception."""
        while True:
            index = self.at
            name, operands = self.program.instructions[index]
            self.at += 1
            self.ran.add(name)
            try:
                if name == "ReturnGenerator":
                    self.push((yield STARTED))
                elif name == "YieldValue":
                    self.push((yield self.pop()))
                elif name == "ReturnValue":
                    result = self.pop()
                    assert not self.stack, "the stack is empty at the end"
                    return True, result
                else:
                    getattr(self, name)(*operands)
            except BaseException as error:
                if name in ("ReturnGenerator", "YieldValue"):
                    self.push(None)
                handler = self.program.handler(index)
                if handler is None:
                    return False, error
                _, _, self.at, depth, push_index = handler
                self.stack[depth:] = [index, error] if push_index else [error]

    def call(self, function, *args, **kwargs):
        """Calls anything; on the machine where that is possible."""
        if isinstance(function, types.MethodType):
            return self.call(function.__func__, function.__self__, *args, **kwargs)
        if not isinstance(function, types.FunctionType) or self.programs.of(function.__code__) is None:
            return function(*args, **kwargs)
        frame = Frame(self.programs, function.__code__, function.__globals__, None, function.__closure__ or ())
        frame.bind(function, args, kwargs)
        return frame.start()
