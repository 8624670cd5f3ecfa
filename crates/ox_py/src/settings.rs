//! `oxytorch.config`: the table of settings, as Python sees it.

use crate::compile::option_value;
use crate::error::options_error;
use ox_driver::settings::Kind;
use ox_driver::{OptionValue, Options, Setting, nearest};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn find(name: &str) -> PyResult<&'static Setting> {
    Setting::find(name).ok_or_else(|| {
        let hint = nearest(name, Setting::names()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        let all: Vec<&str> = Setting::names().collect();
        PyAttributeError::new_err(format!("oxytorch.config has no setting \"{name}\"; {hint}there are {}", all.join(", ")))
    })
}

fn as_python<'py>(py: Python<'py>, setting: &Setting) -> PyResult<Bound<'py, PyAny>> {
    match setting.kind {
        Kind::Flag => Ok((setting.get() != 0).into_pyobject(py)?.to_owned().into_any()),
        Kind::Count => Ok(setting.get().into_pyobject(py)?.into_any()),
    }
}

/// The value of a setting for the process.
#[pyfunction]
pub fn get_setting<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    as_python(py, find(name)?)
}

/// Sets it for the process.
#[pyfunction]
pub fn set_setting(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let (setting, value) = (find(name)?, option_value(value)?);
    let is_other_type = setting.kind == Kind::Flag && !matches!(value, OptionValue::Bool(_) | OptionValue::Int(_));
    setting.set(value).map_err(|error| match is_other_type {
        true => PyTypeError::new_err(error.to_string()),
        false => options_error(error),
    })
}

/// Name, alias and meaning of every setting.
#[pyfunction]
pub fn settings() -> Vec<(&'static str, Option<&'static str>, &'static str)> {
    ox_driver::settings::SETTINGS.iter().map(|setting| (setting.name, setting.alias, setting.about)).collect()
}

/// Settings by name, and options.
type Split<'py> = (Vec<(&'static str, i64)>, Bound<'py, PyDict>);

/// Settings for one function, and what the compiler takes as an option.
#[pyfunction]
#[pyo3(signature = (options=None))]
pub fn split_options<'py>(py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Split<'py>> {
    let (mut own, rest) = (Vec::new(), PyDict::new(py));
    for (key, value) in options.into_iter().flat_map(|dict| dict.iter()) {
        let setting = Setting::find(&key.str()?.to_string());
        if let Some(setting) = setting {
            own.push((setting.name, setting.check(option_value(&value)?).map_err(options_error)?));
        }
        if setting.is_none_or(|setting| Options::NAMES.contains(&setting.name)) {
            rest.set_item(key, value)?;
        }
    }
    Ok((own, rest))
}
