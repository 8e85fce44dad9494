//! Local files, read whole.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

/// Reads a file into the buffer that `admit` gives for its size, reusing its capacity: once buffers have
/// grown to the size of the files, reading allocates nothing.
///
/// `admit` is told the size before anything is read and may wait or refuse; this is where the limit on
/// bytes in flight is kept.
pub fn read_file(path: &Path, admit: impl FnOnce(u64) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| Error::io("open the file", path, e))?;
    let stat = file.metadata().map_err(|e| Error::io("read the size of the file", path, e))?;
    if stat.is_dir() {
        return Err(Error::config("expected a file, found a folder").at(path));
    }
    let mut buffer = admit(stat.len()).map_err(|e| e.at(path))?;
    buffer.clear();
    // With one spare byte, the read that finds the end need not grow the buffer. A file that grows
    // meanwhile is cut where it ended when it was admitted.
    buffer.reserve_exact(stat.len() as usize + 1);
    file.take(stat.len()).read_to_end(&mut buffer).map_err(|e| Error::io("read the file", path, e))?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_buffer_is_reused_and_holds_just_the_file() {
        let root = tempfile::tempdir().unwrap();
        let (long, short) = (root.path().join("long"), root.path().join("short"));
        std::fs::write(&long, vec![7; 100_000]).unwrap();
        std::fs::write(&short, b"abc").unwrap();
        let buffer = read_file(&long, |_| Ok(Vec::new())).unwrap();
        assert_eq!(buffer.len(), 100_000);
        let capacity = buffer.capacity();
        let buffer = read_file(&short, |bytes| {
            assert_eq!(bytes, 3);
            Ok(buffer)
        });
        let buffer = buffer.unwrap();
        assert_eq!((buffer.as_slice(), buffer.capacity()), (&b"abc"[..], capacity));
    }

    #[test]
    fn a_file_that_vanished_is_named() {
        let error = read_file(Path::new("/nowhere/cat.jpg"), |_| Ok(Vec::new())).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().contains("/nowhere/cat.jpg"), "{error}");
    }

    #[test]
    fn a_refused_size_reads_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, b"abc").unwrap();
        let refusal = read_file(&path, |_| Err(Error::new(Kind::OverBudget, "too much"))).unwrap_err();
        assert_eq!(refusal.kind(), Kind::OverBudget);
    }
}
