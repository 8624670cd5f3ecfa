//! Operator schemas, as torch prints them, and how the arguments of a `Library` fit them.
//!
//! The dispatcher's ABI carries no types, so every word must be encoded by the schema's type: a present `int?` is not an `int`.

use super::stable_ivalue::Value;
use crate::abi::{Abi, abi};
use ox_ir::graph::{Arg, Library};
use ox_ir::{Scalar, Sym};
use std::ffi::CString;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Tensor,
    /// int or SymInt.
    Int,
    Float,
    Bool,
    Str,
    DType,
    Layout,
    MemoryFormat,
    Device,
    Optional(Box<Kind>),
    /// With the length that a single value stands for (`int[2]`).
    List(Box<Kind>, Option<usize>),
    /// What the ABI has no encoding for: Scalar, Generator, Dimname ...
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Param {
    name: String,
    ty: Kind,
    default: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    params: Vec<Param>,
    pub returns: Vec<Kind>,
}

impl Schema {
    /// `aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)`.
    pub fn parse(text: &str) -> Option<Schema> {
        let (head, returns) = text.rsplit_once("->").filter(|(_, r)| !r.contains('*'))?;
        let open = head.find('(')?;
        let params = head[open + 1..].trim_end().strip_suffix(')')?;
        let params = split_list(params).into_iter().filter(|p| *p != "*").map(parse_param).collect::<Option<_>>()?;
        let returns = returns.trim();
        let returns = match returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
            Some(inner) => split_list(inner),
            None => vec![returns],
        };
        Some(Schema { params, returns: returns.into_iter().map(|r| parse_type(split_name(r).0)).collect() })
    }

    /// The arguments in schema order, defaults filled in. None if one has no encoding.
    pub(crate) fn bind(&self, library: &Library, eval: &dyn Fn(&Sym) -> Option<i64>, abi: &Abi) -> Option<Vec<Value>> {
        if library.args.len() > self.params.len() || library.kwargs.iter().any(|(k, _)| !self.params.iter().any(|p| p.name == *k))
        {
            return None;
        }
        let bind_one = |(at, param): (usize, &Param)| {
            let named = || library.kwargs.iter().find(|(name, _)| *name == param.name).map(|(_, arg)| arg);
            match library.args.get(at).or_else(named) {
                Some(arg) => coerce(arg, &param.ty, eval, abi),
                None => parse_default(param.default.as_deref()?, &param.ty),
            }
        };
        let values: Vec<Value> = self.params.iter().enumerate().map(bind_one).collect::<Option<_>>()?;
        values.iter().all(|v| v.is_encodable(abi)).then_some(values)
    }

    pub(crate) fn returns_tensors(&self) -> bool {
        let is_tensors = |ty: &Kind| matches!(ty, Kind::Tensor) || matches!(ty, Kind::List(inner, _) if **inner == Kind::Tensor);
        self.returns.iter().all(is_tensors)
    }
}

/// Whether a call through the dispatcher can be made without Python. `schema` is the operator's, as `str(op._schema)` gives it.
pub fn supports(library: &Library, schema: &str) -> bool {
    let (Ok(abi), Some(schema)) = (abi(), Schema::parse(schema)) else { return false };
    schema.returns_tensors() && schema.bind(library, &|_| Some(0), abi).is_some()
}

/// Splits at commas outside of brackets and quotes.
fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut quoted) = (Vec::new(), 0, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

/// `Tensor(a -> *) self` is a type and a name; a result may have no name.
fn split_name(text: &str) -> (&str, &str) {
    match text.rsplit_once(' ') {
        Some((ty, name)) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => (ty, name),
        _ => (text, ""),
    }
}

fn parse_param(text: &str) -> Option<Param> {
    let (declaration, default) = match text.split_once('=') {
        Some((declaration, default)) => (declaration, Some(default.to_string())),
        None => (text, None),
    };
    let (ty, name) = split_name(declaration);
    (!name.is_empty()).then(|| Param { name: name.to_string(), ty: parse_type(ty), default })
}

fn parse_type(text: &str) -> Kind {
    let text = text.trim();
    if let Some(inner) = text.strip_suffix('?') {
        return Kind::Optional(Box::new(parse_type(inner)));
    }
    if let Some((inner, length)) = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        return Kind::List(Box::new(parse_type(inner)), length.parse().ok());
    }
    let name = text.split_once('(').map_or(text, |(name, _aliases)| name);
    match name {
        "Tensor" => Kind::Tensor,
        "int" | "SymInt" => Kind::Int,
        "float" => Kind::Float,
        "bool" => Kind::Bool,
        "str" => Kind::Str,
        "ScalarType" => Kind::DType,
        "Layout" => Kind::Layout,
        "MemoryFormat" => Kind::MemoryFormat,
        "Device" => Kind::Device,
        _ => Kind::Other,
    }
}

fn coerce(arg: &Arg, ty: &Kind, eval: &dyn Fn(&Sym) -> Option<i64>, abi: &Abi) -> Option<Value> {
    Some(match (ty, arg) {
        (Kind::Optional(_), Arg::None) => Value::None,
        (Kind::Optional(inner), arg) => Value::some(coerce(arg, inner, eval, abi)?),
        (Kind::List(inner, _), Arg::List(items) | Arg::Tuple(items)) => {
            Value::List(items.iter().map(|item| coerce(item, inner, eval, abi)).collect::<Option<_>>()?)
        }
        (Kind::List(inner, Some(length)), single) => Value::List(vec![coerce(single, inner, eval, abi)?; *length]),
        (Kind::Tensor, Arg::Tensor(at)) => Value::Tensor(*at),
        (Kind::Tensor, Arg::None) => Value::Undefined,
        (Kind::Int, Arg::Int(sym)) => Value::Int(eval(sym)?),
        (Kind::Int, Arg::Bool(b)) => Value::Int(*b as i64),
        (Kind::Int, Arg::Float(Scalar::Int(n))) => Value::Int(*n),
        (Kind::Float, Arg::Float(x)) => Value::Float(x.as_f64()),
        (Kind::Float, Arg::Int(sym)) => Value::Float(eval(sym)? as f64),
        (Kind::Bool, Arg::Bool(b) | Arg::Float(Scalar::Bool(b))) => Value::Bool(*b),
        (Kind::Str, Arg::Str(text)) => Value::Str(CString::new(text.as_str()).ok()?),
        (Kind::DType, Arg::DType(dtype)) => Value::Code(abi.dtype(*dtype)),
        (Kind::Layout, Arg::Layout(code)) | (Kind::MemoryFormat, Arg::MemoryFormat(code)) => Value::Code(*code),
        (Kind::Device, Arg::Device(device)) => abi.device(*device).map(|(kind, index)| Value::Device(kind, index))?,
        _ => return None,
    })
}

fn parse_default(text: &str, ty: &Kind) -> Option<Value> {
    let text = text.trim();
    Some(match ty {
        Kind::Optional(_) if text == "None" => Value::None,
        Kind::Optional(inner) => Value::some(parse_default(text, inner)?),
        Kind::List(inner, length) => match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            Some(items) => Value::List(split_list(items).into_iter().map(|i| parse_default(i, inner)).collect::<Option<_>>()?),
            None => Value::List(vec![parse_default(text, inner)?; (*length)?]),
        },
        Kind::Int => Value::Int(text.parse().ok()?),
        Kind::Float => Value::Float(text.parse().ok()?),
        Kind::Bool => Value::Bool(match text {
            "True" => true,
            "False" => false,
            _ => return None,
        }),
        Kind::Str => Value::Str(CString::new(text.trim_matches(['"', '\''])).ok()?),
        // torch prints the number, which is the ABI's.
        Kind::DType | Kind::Layout | Kind::MemoryFormat => Value::Code(text.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optional(ty: Kind) -> Kind {
        Kind::Optional(Box::new(ty))
    }

    fn list(ty: Kind) -> Kind {
        Kind::List(Box::new(ty), None)
    }

    fn types(text: &str) -> Vec<Kind> {
        Schema::parse(text).unwrap().params.into_iter().map(|p| p.ty).collect()
    }

    #[test]
    fn types_of_parameters_and_results() {
        let sort = Schema::parse("aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
            .unwrap();
        assert_eq!(sort.params.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["self", "dim", "descending"]);
        assert_eq!(sort.params[1].default.as_deref(), Some("-1"));
        assert_eq!(sort.returns, [Kind::Tensor, Kind::Tensor]);
        assert_eq!(
            types("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),
            [Kind::Tensor, optional(Kind::List(Box::new(Kind::Int), Some(1))), Kind::Bool, optional(Kind::DType)]
        );
        assert_eq!(types("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor")[1], list(optional(Kind::Tensor)));
    }

    #[test]
    fn aliases_do_not_change_types() {
        let split =
            Schema::parse("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]").unwrap();
        assert_eq!(split.params[0].ty, Kind::Tensor);
        assert_eq!(split.returns, [list(Kind::Tensor)]);
        assert!(split.returns_tensors());
        let gelu =
            Schema::parse("aten::gelu.out(Tensor self, *, str approximate=\"none\", Tensor(a!) out) -> Tensor(a!)").unwrap();
        assert_eq!(gelu.params.iter().map(|p| &p.ty).collect::<Vec<_>>(), [&Kind::Tensor, &Kind::Str, &Kind::Tensor]);
        assert_eq!(gelu.returns, [Kind::Tensor]);
    }

    #[test]
    fn what_has_no_encoding_is_other() {
        assert_eq!(
            types("aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor")[1],
            optional(Kind::Other)
        );
        assert!(!Schema::parse("aten::size.int(Tensor self, int dim) -> int").unwrap().returns_tensors());
        assert!(Schema::parse("aten::_assert(Tensor self) -> ()").unwrap().returns_tensors());
        assert!(!Schema::parse("aten::f(Tensor self) -> (Tensor out, SymInt max_q, Tensor)").unwrap().returns_tensors());
    }

    #[test]
    fn defaults() {
        let ints = Kind::List(Box::new(Kind::Int), Some(2));
        assert_eq!(parse_default("0", &ints), Some(Value::ints(&[0, 0])));
        assert_eq!(parse_default("[]", &ints), Some(Value::List(vec![])));
        assert_eq!(parse_default("[1, 2]", &ints), Some(Value::ints(&[1, 2])));
        assert_eq!(parse_default("0.", &Kind::Float), Some(Value::Float(0.0)));
        assert_eq!(parse_default("None", &optional(Kind::Other)), Some(Value::None));
        assert_eq!(parse_default("contiguous_format", &Kind::MemoryFormat), None);
        assert_eq!(parse_default("4", &optional(Kind::DType)), Some(Value::some(Value::Code(4))));
    }
}
