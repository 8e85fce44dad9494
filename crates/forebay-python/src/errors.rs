//! Our errors become Python's: `forebay.errors` has a class for each kind.

use forebay_engine::{Error, Kind};
use pyo3::prelude::*;

/// Raises `error` as the class of its kind.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        Kind::NotFound => "NotFoundError",
        Kind::Corrupt => "CorruptError",
        Kind::Unavailable => "UnavailableError",
        Kind::OverBudget => "OverBudgetError",
        Kind::Config => "ConfigError",
        Kind::Cancelled => "CancelledError",
        _ => "InternalError",
    };
    let raised = || -> PyResult<PyErr> {
        let class = py.import("forebay.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((error.to_string(),))?))
    };
    raised().unwrap_or_else(|error| error)
}

/// Raises a request that makes no sense.
pub(crate) fn config(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, &Error::config(message))
}
