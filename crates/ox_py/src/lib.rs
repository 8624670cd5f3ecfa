//! The extension module `oxytorch._oxytorch`: Python's objects in, native callables out.

mod anatomy;
mod bound;
mod callable;
mod capture;
mod compile;
mod error;
mod fx;
mod gauging;
mod graphs;
mod host;
mod kernels;
mod limits;
mod padding;
mod pieces;
mod racing;
mod recorded;
mod report;
mod rewind;
mod settings;
mod tensor;
mod torch;
mod training;
mod unheard;
mod watched;

use ox_runtime::end_background;
use pyo3::prelude::*;

#[pymodule]
fn _oxytorch(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(compile::compile_fx, m)?)?;
    m.add_function(wrap_pyfunction!(compile::check_options, m)?)?;
    m.add_function(wrap_pyfunction!(compile::inject_fault, m)?)?;
    m.add_function(wrap_pyfunction!(capture::capture, m)?)?;
    m.add_function(wrap_pyfunction!(capture::size_relation, m)?)?;
    ox_driver::use_disk();
    ox_driver::settings::load_environment().map_err(error::options_error)?;
    m.add_function(wrap_pyfunction!(settings::get_setting, m)?)?;
    m.add_function(wrap_pyfunction!(settings::set_setting, m)?)?;
    m.add_function(wrap_pyfunction!(settings::settings, m)?)?;
    m.add_function(wrap_pyfunction!(settings::split_options, m)?)?;
    m.add_function(wrap_pyfunction!(report::last_compile, m)?)?;
    m.add_function(wrap_pyfunction!(report::idle_arena_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(report::launched_rows, m)?)?;
    m.add_function(wrap_pyfunction!(report::compared_products, m)?)?;
    m.add_function(wrap_pyfunction!(report::kept_result_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(report::background_variants, m)?)?;
    ox_runtime::on_variant(|text| ox_capture::log(ox_capture::Topic::Variants, || text.to_string()));
    // SAFETY: it touches nothing of Python's. Without room for it the C library's handlers are left.
    unsafe { pyo3::ffi::Py_AtExit(Some(end_background)) };
    m.add_class::<ox_capture::Captured>()?;
    m.add_function(wrap_pyfunction!(ox_capture::show_get, m)?)?;
    m.add_class::<padding::Padding>()?;
    m.add_class::<pieces::Pieces>()?;
    m.add_class::<watched::Watched>()?;
    m.add_class::<training::TrainingCallable>()?;
    m.add_class::<callable::NativeCallable>()?;
    // LLVM's static constructors have run: what they touched is not needed before the first compile.
    ox_driver::forget_code();
    Ok(())
}
