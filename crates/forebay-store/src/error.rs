//! The error of everything that touches a sample.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of work on samples.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A named thing is not there.
    NotFound,
    /// The bytes are not what they claim to be.
    Corrupt,
    /// The thing is there but cannot be reached now.
    Unavailable,
    /// A limit the user set, or may raise, would be exceeded.
    OverBudget,
    /// The request itself makes no sense.
    Config,
    /// The work was given up because nobody wants it any more.
    Cancelled,
    /// A promise of this code was broken: please report it.
    Internal,
}

/// What went wrong, with which sample, in which file, and what to do about it.
///
/// `Display` names the thing and the remedy on one line; the cause is in [`std::error::Error::source`].
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    path: Option<PathBuf>,
    sample: Option<u64>,
    remedy: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of a kind; `message` is lower case, without a full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), path: None, sample: None, remedy: None, source: None }))
    }

    /// A request that makes no sense.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    /// Bytes that are not what they claim to be.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// An operating system error met while doing `what` to `path`.
    pub fn io(what: &str, path: &Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let (kind, remedy) = match error.kind() {
            ErrorKind::NotFound => (Kind::NotFound, "check that it exists and was not moved or deleted meanwhile"),
            ErrorKind::PermissionDenied => (Kind::Unavailable, "give this user the right to read it"),
            ErrorKind::NotADirectory => (Kind::Config, "name a folder"),
            _ => (Kind::Unavailable, "check the disk or the mount it lies on"),
        };
        let message = format!("cannot {what}: {}", plain(&error));
        Self::new(kind, message).at(path).remedy(remedy).because(error)
    }

    /// Names the file, unless an inner step already did.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Names the sample, unless an inner step already did.
    #[must_use]
    pub fn sample(mut self, sample: u64) -> Self {
        self.0.sample.get_or_insert(sample);
        self
    }

    /// Says what the user can do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy.get_or_insert(remedy.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// The file it happened in, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The sample it happened to, where there is one.
    pub fn sample_id(&self) -> Option<u64> {
        self.0.sample
    }

    /// What went wrong, without file, sample or remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// `No such file or directory (os error 2)` reads better without the number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_lowercase()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match (&self.0.path, self.0.sample) {
            (Some(path), Some(sample)) => write!(f, " ({}, sample {sample})", path.display())?,
            (Some(path), None) => write!(f, " ({})", path.display())?,
            (None, Some(sample)) => write!(f, " (sample {sample})")?,
            (None, None) => {}
        }
        match &self.0.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_the_file_the_sample_and_the_remedy() {
        let error = Error::corrupt("the JPEG ends early").at(Path::new("a/b.jpg")).sample(7).remedy("replace the file");
        assert_eq!(error.to_string(), "the JPEG ends early (a/b.jpg, sample 7); replace the file");
        assert_eq!(error.kind(), Kind::Corrupt);
    }

    #[test]
    fn the_innermost_context_wins() {
        let error = Error::config("x").at(Path::new("inner")).at(Path::new("outer"));
        assert_eq!(error.path(), Some(Path::new("inner")));
    }
}
