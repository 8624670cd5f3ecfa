"""Generators, coroutines and what they are made of."""

import types


class Delegation:
    def Resume(self, where):
        pass

    def GetYieldFromIter(self):
        value = self.pop()
        self.push(value if isinstance(value, (Generator, Coroutine)) else iter(value))

    def GetAwaitable(self, of):
        self.push(awaited(self.pop()))

    def Send(self, label):
        receiver, value = self.stack[-2:]
        try:
            self.stack[-1] = next(receiver) if value is None else receiver.send(value)
        except StopIteration as end:
            self.stack[-2:] = [end.value]
            self.at = label

    def delegate(self):
        """Whom the suspended frame delegates to."""
        name, operands = self.program.instructions[self.at]
        delegates = name == "Resume" and operands[0] in ("yield-from", "await")
        # The value that was yielded is not on the stack any more.
        return self.stack[-1] if delegates else None

    def CleanupThrow(self):
        _, _, error = self.take(3)
        if not isinstance(error, StopIteration):
            raise error
        self.push(error.value)

    def GetAiter(self):
        self.push(self.pop().__aiter__())

    def GetAnext(self):
        self.push(awaited(self.stack[-1].__anext__()))

    def EndAsyncFor(self):
        _, error = self.take(2)
        if not isinstance(error, StopAsyncIteration):
            raise error


def outcome(result):
    ended, value = result
    if ended:
        return value
    raise value


def stopped(error, flags):
    """What an exception becomes that leaves a generator."""
    kinds = (StopIteration, StopAsyncIteration) if flags & 0x200 else StopIteration
    if not isinstance(error, kinds):
        return error
    what = {0x20: "generator", 0x80: "coroutine", 0x200: "async generator"}[flags & 0x2A0]
    new = RuntimeError(f"{what} raised {type(error).__name__}")
    new.__cause__ = error
    return new


class Generator:
    def __init__(self, run, frame):
        self.run, self.frame, self.ended, self.begun = run, frame, False, False

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        return self.resume(lambda: self.run.send(value))

    def resume(self, step):
        if self.ended:
            raise StopIteration
        self.begun = True
        try:
            return step()
        except StopIteration as end:
            self.ended = True
            done, result = end.value
        if done:
            raise StopIteration(result)
        raise stopped(result, self.frame.code.co_flags)

    def throw(self, error):
        receiver = self.frame.delegate() if self.begun and not self.ended else None
        if isinstance(error, GeneratorExit) and hasattr(receiver, "close"):
            receiver.close()
        elif hasattr(receiver, "throw"):
            try:
                return receiver.throw(error)
            except BaseException as raised:
                error = raised
        if self.ended:
            raise error
        return self.resume(lambda: self.run.throw(error))

    def close(self):
        try:
            self.throw(GeneratorExit())
        except (GeneratorExit, StopIteration):
            self.ended = True
        else:
            raise RuntimeError("generator ignored GeneratorExit")


class Coroutine(Generator):
    def __await__(self):
        return self


class Wrapped:
    def __init__(self, value):
        self.value = value


class AsyncGenerator(Generator):
    def __aiter__(self):
        return self

    def __anext__(self):
        return self.asend(None)

    @types.coroutine
    def asend(self, value):
        try:
            got = self.send(value)
            while not isinstance(got, Wrapped):
                got = self.send((yield got))
        except StopIteration:
            raise StopAsyncIteration from None
        return got.value


def awaited(value):
    if isinstance(value, Coroutine):
        return value
    # Native coroutines are their own iterators for the instruction; others ask `__await__`.
    return value.__await__() if hasattr(type(value), "__await__") else value
