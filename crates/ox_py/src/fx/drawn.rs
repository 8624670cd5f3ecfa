//! Random numbers of torch's, which go from the beginning of a tensor's memory to its end: which element gets which number follows from how it lies in
//! eager, of which a graph knows nothing.

use super::call::{Callee, Request};
use super::importer::Importer;
use super::refusal::Import;
use crate::pieces::written_by_flag;
use ox_ops::surface::{first_argument, writes_first};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

const FILL: [&str; 8] = ["uniform_", "normal_", "exponential_", "geometric_", "log_normal_", "cauchy_", "random_", "bernoulli_"];
/// What draws numbers for a result like an argument, for the argument itself (`inplace=True`), or for `out=`.
const DRAW: &[&str] = &[
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
    "dropout_",
    "alpha_dropout_",
    "feature_dropout_",
    "feature_alpha_dropout_",
    "rrelu",
    "rrelu_",
    "bernoulli",
    "poisson",
    "binomial",
    "multinomial",
    "normal",
    "rand",
    "randn",
    "randint",
    "rand_like",
    "randn_like",
    "randint_like",
];

/// An argument, and the strides that it has in eager.
struct Laid {
    place: Place,
    strides: Vec<i64>,
    written: bool,
}

#[derive(PartialEq)]
enum Place {
    Positional(usize),
    Named(String),
}

impl<'py> Importer<'py> {
    /// The call, of arguments that are laid out as in eager. None where they lie row by row there, or nothing is drawn.
    pub(super) fn drawn_in_order(&self, request: &Request<'py>) -> Import<Option<Callee<'py>>> {
        let name = request.name.name.as_str();
        if !FILL.contains(&name) && !DRAW.contains(&name) {
            return Ok(None);
        }
        let laid = self.laid_otherwise(request)?;
        if laid.is_empty() {
            return Ok(None);
        }
        let callee = match &request.callee {
            Callee::Function(function) => function.clone(),
            Callee::Method(method) => self.torch.tensor.bind(self.py).getattr(method.as_str())?,
            Callee::Attribute(_) => return Ok(None),
        };
        Ok(Some(Callee::Function(laying(&callee, laid)?.into_any())))
    }

    fn laid_otherwise(&self, request: &Request<'py>) -> Import<Vec<Laid>> {
        let places = places_of(&request.node)?;
        let writes_first = writes_first(&request.name.name) || written_by_flag(&request.node)?.is_some();
        let written = written_places(&places, writes_first);
        let mut laid = Vec::new();
        for (place, arg) in places {
            if let Some(strides) = self.strides_other_than_by_row(&arg)? {
                let written = written.contains(&place);
                laid.push(Laid { place, strides, written });
            }
        }
        Ok(laid)
    }

    fn strides_other_than_by_row(&self, arg: &Bound<'py, PyAny>) -> Import<Option<Vec<i64>>> {
        let py = self.py;
        let is_node = arg.hasattr(intern!(py, "meta"))?;
        let example = if is_node { self.meta(arg)? } else { None };
        let Some(example) = example.filter(|example| example.hasattr(intern!(py, "stride")).unwrap_or(false)) else {
            return Ok(None);
        };
        // Sizes that vary give none.
        let strides: Option<Vec<i64>> = example.call_method0(intern!(py, "stride"))?.extract().ok();
        let is_by_row = || example.call_method0(intern!(py, "is_contiguous"))?.is_truthy();
        match strides.filter(|strides| strides.iter().all(|stride| *stride > 0)) {
            Some(strides) if !is_by_row()? => Ok(Some(strides)),
            _ => Ok(None),
        }
    }
}

fn places_of<'py>(node: &Bound<'py, PyAny>) -> PyResult<Vec<(Place, Bound<'py, PyAny>)>> {
    let py = node.py();
    let args = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
    let kwargs = node.getattr(intern!(py, "kwargs"))?.cast_into::<PyDict>()?;
    let by_place = args.iter().enumerate().map(|(place, arg)| Ok((Place::Positional(place), arg)));
    let by_name = kwargs.iter().map(|(key, arg)| Ok((Place::Named(key.extract()?), arg)));
    by_place.chain(by_name).collect()
}

fn written_places(places: &[(Place, Bound<'_, PyAny>)], writes_first: bool) -> Vec<Place> {
    let known = |place: Place| places.iter().any(|(other, _)| *other == place).then_some(place);
    let named = |name: &str| known(Place::Named(name.to_string()));
    let first = first_argument(known(Place::Positional(0)), named).filter(|_| writes_first);
    first.into_iter().chain(named("out")).collect()
}

/// The function, of copies of these arguments that have their strides. What it writes is copied back.
fn laying<'py>(function: &Bound<'py, PyAny>, laid: Vec<Laid>) -> PyResult<Bound<'py, PyCFunction>> {
    let whole = function.clone().unbind();
    let call = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = args.py();
        let mut args: Vec<Bound<'_, PyAny>> = args.iter().collect();
        let kwargs = kwargs.map_or(Ok(PyDict::new(py)), |kwargs| kwargs.copy())?;
        let mut written = Vec::new();
        for Laid { place, strides, written: is_written } in &laid {
            let given = match place {
                Place::Positional(n) => args[*n].clone(),
                Place::Named(name) => kwargs.as_any().get_item(name)?,
            };
            let copy =
                given.call_method1(intern!(py, "new_empty_strided"), (given.getattr(intern!(py, "shape"))?, strides.clone()))?;
            copy.call_method1(intern!(py, "copy_"), (&given,))?;
            match place {
                Place::Positional(n) => args[*n] = copy.clone(),
                Place::Named(name) => kwargs.set_item(name, &copy)?,
            }
            if *is_written {
                written.push((given, copy));
            }
        }
        let result = whole.bind(py).call(PyTuple::new(py, args)?, Some(&kwargs))?;
        for (given, copy) in &written {
            given.call_method1(intern!(py, "copy_"), (copy,))?;
        }
        let own = written.into_iter().find(|(_, copy)| copy.is(&result)).map(|(given, _)| given);
        Ok(own.unwrap_or(result).unbind())
    };
    PyCFunction::new_closure(function.py(), None, None, call)
}
