//! The one error of this crate.
//!
//! A policy reads no file and asks no peer, so the only thing that can go wrong is what it was asked to do.

use std::fmt;

/// A request that no plan can satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What the caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration contradicts itself or the dataset: change it.
    Config,
}

impl Error {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Config, message: message.into() }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether trying again, unchanged, may succeed. A policy is a pure function, so it never may.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Config => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
