//! The native module of the Python package: `forebay._native`.
//!
//! Conversion only. What the classes do is said in `python/forebay/_native.pyi`; how, in `forebay-engine`.

mod array;
mod dataset;
mod errors;
mod job;
mod pin;
mod pipeline;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<dataset::Folder>()?;
    module.add_class::<dataset::Plan>()?;
    module.add_class::<job::Batch>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<job::Loader>()?;
    module.add_class::<pipeline::Pipeline>()?;
    module.add_function(wrap_pyfunction!(pin::cuda_is_present, module)?)
}
