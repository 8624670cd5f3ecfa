//! What instructions name: positions in the tables of the code object, and the closed sets of operators.

use std::fmt;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! {
    /// An entry of `co_consts`.
    Const
    /// An entry of `co_names`.
    Name
    /// A slot of the frame: an entry of [`Code::variables`](crate::Code::variables).
    Local
    /// An instruction: an index into [`Code::instructions`](crate::Code::instructions).
    Label
}

/// A closed set of operators, each with its text. `from n`: the compiler numbers them so, beginning with n.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident $(from $first:literal)? { $($(#[$about:meta])* $variant:ident $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$about])* $variant),*
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            $(pub(crate) fn from_number(number: u32) -> Option<$name> {
                Self::ALL.get(number.checked_sub($first)? as usize).copied()
            })?

            pub fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text),*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    )*};
}

operators! {
    UnaryOp { Positive "+", Negative "-", Not "not", Invert "~" }

    BinaryOp from 0 {
        Add "+", And "&", FloorDivide "//", LeftShift "<<", MatrixMultiply "@", Multiply "*", Remainder "%", Or "|",
        Power "**", RightShift ">>", Subtract "-", TrueDivide "/", Xor "^",
    }

    CompareOp from 0 { Less "<", LessEqual "<=", Equal "==", NotEqual "!=", Greater ">", GreaterEqual ">=" }

    /// When a conditional jump is taken.
    Condition { True "true", False "false", None "None", NotNone "not-None" }

    /// The `!s` of a formatted value.
    Conversion from 1 { Str "str", Repr "repr", Ascii "ascii" }

    /// Where a frame goes on.
    Resume from 0 { Start "start", Yield "yield", YieldFrom "yield-from", Await "await" }

    /// What made the awaitable, for the message of the TypeError when it is none.
    Awaiting from 0 {
        Expression "expression",
        /// The result of `__aenter__`.
        Enter "__aenter__",
        /// The result of `__aexit__`.
        Exit "__aexit__",
    }

    FunctionAttribute from 0 {
        /// A tuple.
        Defaults "defaults",
        /// A dict.
        KeywordDefaults "kwdefaults",
        /// A tuple of names and values in turn.
        Annotations "annotations",
        /// A tuple of cells.
        Closure "closure",
    }

    /// Functions of one argument that the compiler calls. (`+a` is one for it; here it is a [`UnaryOp`].)
    Intrinsic1 from 0 {
        /// `sys.displayhook(value)`; gives None.
        Print "print",
        /// Binds the public names of the module in the locals; gives None.
        ImportStar "import-star",
        /// The RuntimeError that a StopIteration (in an async generator also a StopAsyncIteration) becomes which leaves the
        /// generator; any other exception unchanged.
        StopIterationError "stop-iteration-error",
        /// Marks the value as yielded by an async generator, not passed on from what it awaits.
        AsyncGenWrap "async-gen-wrap",
        ListToTuple "list-to-tuple",
        TypeVar "type-var",
        ParamSpec "param-spec",
        TypeVarTuple "type-var-tuple",
        /// `Generic[parameters]`
        SubscriptGeneric "subscript-generic",
        /// The argument is `(name, type parameters, function that computes the value)`.
        TypeAlias "type-alias",
    }

    /// Functions of two arguments that the compiler calls.
    Intrinsic2 from 1 {
        /// `[original, list of raised] → [exception group to raise, or None]`, at the end of `except*`.
        PrepReraiseStar "prep-reraise-star",
        /// `[name, function that computes the bound]`
        TypeVarWithBound "type-var-with-bound",
        /// `[name, function that computes the constraints]`
        TypeVarWithConstraints "type-var-with-constraints",
        /// `[function, type parameters] → [function]`
        SetFunctionTypeParams "set-function-type-params",
        /// `[type parameter, function that computes the default] → [type parameter]`
        SetTypeParamDefault "set-type-param-default",
    }
}
