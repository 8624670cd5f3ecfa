//! `shapes=`: sizes of arguments that vary, by the name of the parameter and the dimension, with their ranges.

use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, py};
use crate::policy::Marks;
use crate::source::short;
use crate::types::types;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::fmt;

/// One dimension of one parameter.
#[derive(Clone, Debug)]
struct Declaration {
    parameter: String,
    /// Counted from the end if negative.
    dim: i64,
    range: Range,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub least: i64,
    pub most: i64,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            i64::MAX => write!(f, "{} or more", self.least),
            most => write!(f, "{} to {most}", self.least),
        }
    }
}

/// What the user declares of a function's arguments.
#[derive(Clone, Default, Debug)]
pub struct Declared {
    list: Vec<Declaration>,
    /// Of the function, in their order: those that are given by their places come first.
    parameters: Vec<String>,
    by_place: usize,
    /// The user's line that declares, and the function that it is for.
    made_at: String,
}

/// An argument that has declared dimensions.
pub struct Varying {
    /// As sources show it.
    pub place: String,
    pub parameter: String,
    pub dims: Vec<(usize, Range)>,
}

impl Declared {
    /// Raises TypeError or ValueError for what cannot be meant.
    pub fn new(function: &Obj, shapes: &Bound<'_, PyAny>) -> PyResult<Declared> {
        let (parameters, by_place) = parameters_of(function)?;
        let mut list = Vec::new();
        let no_names =
            || PyTypeError::new_err("oxytorch: shapes= is a dict of parameters' names, as in {\"input_ids\": {1: (1, 512)}}");
        for (name, dims) in shapes.cast::<PyDict>().map_err(|_| no_names())?.iter() {
            let parameter: String = name.extract().map_err(|_| no_names())?;
            if !parameters.contains(&parameter) {
                let others = match parameters.is_empty() {
                    true => "none has a name of its own (not *args or **kwargs)".to_string(),
                    false => format!("there are {}", parameters.join(", ")),
                };
                return Err(PyValueError::new_err(format!("oxytorch: shapes=: there is no parameter {parameter:?}; {others}")));
            }
            let wrong = || {
                PyTypeError::new_err(format!(
                    "oxytorch: shapes=: {parameter} needs a dict of its dimensions, as in {{1: (1, 512)}}"
                ))
            };
            for (dim, range) in dims.cast::<PyDict>().map_err(|_| wrong())?.iter() {
                let dim = if dim.is_instance_of::<PyBool>() { Err(wrong()) } else { dim.extract().map_err(|_| wrong()) }?;
                let range = range_of(&range, &format!("{parameter}, dimension {dim}"))?;
                list.push(Declaration { parameter: parameter.clone(), dim, range });
            }
        }
        let made_at = if list.is_empty() { String::new() } else { made_at(function) };
        Ok(Declared { list, parameters, by_place, made_at })
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The arguments of a call that have declared dimensions. Raises for sizes that were declared not to come, and for marks that say otherwise.
    pub fn of_call(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Vec<Varying>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.parameters[..self.by_place].iter().cloned().map(Some).chain(std::iter::repeat(None));
        let positional = args.iter().zip(names).enumerate().map(|(n, (arg, name))| (format!("arg{n}"), name, arg.clone()));
        let named = kwargs.map(entries_of).unwrap_or_default().into_iter();
        let named = named.map(|(name, arg)| (format!("kwarg[{}]", name.text()), name.to_str(), arg));
        let mut found = Vec::new();
        for (place, name, argument) in positional.chain(named) {
            let parameter = name.unwrap_or_default();
            if types().is_tensor(&argument) && self.list.iter().any(|known| known.parameter == parameter) {
                let sizes: Vec<i64> = argument.attr("shape")?.bind().extract()?;
                let dims = self.of_argument(&parameter, &sizes, &Marks::of(&argument));
                let refused = |why: String| PyValueError::new_err(format!("oxytorch: {parameter}: {why} ({})", self.made_at));
                found.push(Varying { place, dims: dims.map_err(refused)?, parameter });
            }
        }
        Ok(found)
    }

    fn of_argument(&self, parameter: &str, sizes: &[i64], marks: &Marks) -> Result<Vec<(usize, Range)>, String> {
        let mut dims: Vec<(usize, Range)> = Vec::new();
        for Declaration { dim, range, .. } in self.list.iter().filter(|known| known.parameter == parameter) {
            let rank = sizes.len() as i64;
            if !(-rank..rank).contains(dim) {
                return Err(format!("shapes= declares dimension {dim}, but it has {rank} dimensions"));
            }
            let at = (if *dim < 0 { dim + rank } else { *dim }) as usize;
            if !(range.least..=range.most).contains(&sizes[at]) {
                return Err(format!("dimension {dim} is declared by shapes= to be {range}, but its size is {}", sizes[at]));
            }
            if let Some((_, other)) = dims.iter().find(|(known, other)| *known == at && other != range) {
                return Err(format!("dimension {at} is declared twice by shapes=, to be {other} and to be {range}"));
            }
            dims.push((at, range.within(marks, at)?));
        }
        Ok(dims)
    }
}

impl Range {
    /// What the tensor's own marks leave of it.
    fn within(self, marks: &Marks, dim: usize) -> Result<Range, String> {
        if marks.of_dim(dim) == Some(false) {
            return Err(format!("dimension {dim} is declared by shapes= to vary, and marked as one that does not"));
        }
        let (least, most) = marks.range(dim, self.least);
        // The size is in both, so something is left.
        Ok(Range { least, most: most.min(self.most) })
    }
}

/// The line outside of this package that is under way.
pub fn line_outside() -> PyResult<String> {
    let mut frame = py().import("sys")?.call_method0("_getframe")?;
    while frame
        .getattr("f_globals")?
        .get_item("__name__")
        .quiet()
        .is_some_and(|name| Obj::from(name).to_string().starts_with("oxytorch"))
    {
        frame = frame.getattr("f_back")?;
    }
    Ok(format!("{}:{}", frame.getattr("f_code")?.getattr("co_filename")?, frame.getattr("f_lineno")?))
}

/// That line, and the function.
fn made_at(function: &Obj) -> String {
    let declared = line_outside().map(|line| format!("declared at {line}")).quiet().unwrap_or_else(|| "declared".into());
    format!("{declared} for {}", short(function))
}

/// `None`, or the least and the most.
fn range_of(value: &Bound<'_, PyAny>, place: &str) -> PyResult<Range> {
    let (least, most): (i64, i64) = match () {
        _ if value.is_none() => (0, i64::MAX),
        _ => value
            .extract()
            .map_err(|_| PyTypeError::new_err(format!("oxytorch: shapes=: {place}: a range is (least, most) or None")))?,
    };
    if least < 0 || least > most {
        return Err(PyValueError::new_err(format!("oxytorch: shapes=: {place}: no size is {least} to {most}")));
    }
    Ok(Range { least, most })
}

/// Of a function, of a module's `forward`, or of whatever else can be called: those that stand for one argument, and how many of them are given
/// by their places.
fn parameters_of(function: &Obj) -> PyResult<(Vec<String>, usize)> {
    let target = if function.is_instance_of(types().nn_module) { function.attr("forward")? } else { function.clone() };
    let signature = py().import("inspect")?.call_method1("signature", (target.bind(),))?;
    let (mut names, mut by_place) = (Vec::new(), 0);
    for parameter in signature.getattr("parameters")?.call_method0("values")?.try_iter()? {
        let parameter = parameter?;
        let kind = parameter.getattr("kind")?.getattr("name")?.extract::<String>()?;
        if !kind.starts_with("VAR_") {
            names.push(parameter.getattr("name")?.extract()?);
            by_place += usize::from(kind.starts_with("POSITIONAL"));
        }
    }
    Ok((names, by_place))
}
