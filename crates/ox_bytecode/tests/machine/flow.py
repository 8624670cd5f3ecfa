"""Jumps, loops, exceptions and context managers."""

import types

CONDITIONS = {
    "true": lambda a: bool(a),
    "false": lambda a: not a,
    "None": lambda a: a is None,
    "not-None": lambda a: a is not None,
}


class Jumps:
    def Jump(self, label):
        self.at = label

    def JumpIf(self, condition, label):
        if CONDITIONS[condition](self.pop()):
            self.at = label

    def GetIter(self):
        self.push(iter(self.pop()))

    def ForIter(self, label):
        try:
            self.push(next(self.stack[-1]))
        except StopIteration:
            self.pop()
            self.at = label


class Exceptions:
    # The exception that is being handled, whichever frame does so.
    handled = None

    def PushExcInfo(self):
        error = self.pop()
        self.push(Exceptions.handled, error)
        Exceptions.handled = error

    def PopExcept(self):
        Exceptions.handled = self.pop()

    def CheckExcMatch(self):
        kind = self.pop()
        self.push(isinstance(self.stack[-1], kind))

    def CheckEgMatch(self):
        error, kind = self.take(2)
        if error is None:
            self.push(None, None)
            return
        group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
        match, rest = group.split(kind)
        self.push(*((error, None) if match is None else (rest, match)))
        if match is not None:
            Exceptions.handled = match

    def Raise(self, n):
        if n == 0:
            raise Exceptions.handled or RuntimeError("No active exception to reraise")
        error, *cause = self.take(n)
        error = error() if isinstance(error, type) else error
        if not cause:
            raise error
        raise error from cause[0]

    def Reraise(self, n):
        error = self.pop()
        assert n == 0 or isinstance(self.stack[-n], int)
        raise error

    def BeforeWith(self):
        manager = self.pop()
        exit_ = types.MethodType(type(manager).__exit__, manager)
        self.push(exit_, self.call(type(manager).__enter__, manager))

    def BeforeAsyncWith(self):
        manager = self.pop()
        exit_ = types.MethodType(type(manager).__aexit__, manager)
        self.push(exit_, self.call(type(manager).__aenter__, manager))

    def WithExceptStart(self):
        exit_, index, _, error = self.stack[-4:]
        assert isinstance(index, int)
        self.push(self.call(exit_, type(error), error, error.__traceback__))
