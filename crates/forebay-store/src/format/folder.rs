//! A folder of images, one sub-folder a class.
//!
//! Classes are the sub-folders in sorted order; the samples of a class are its image files at any depth,
//! in sorted order: the numbers that torchvision's `ImageFolder` gives (which passes GIF files over). The
//! listing is read once, when the folder is opened.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{Error, Kind, Result};

/// The file name endings that count as images.
pub const IMAGE_EXTENSIONS: [&str; 10] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif"];

/// The listing of an image folder: paths and labels by sample number.
///
/// Paths lie in one string with the offsets of their ends, so that a million of them cost about their
/// own length.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    classes: Vec<String>,
    names: Vec<u8>,
    ends: Vec<u64>,
    labels: Vec<u32>,
}

impl Folder {
    /// Lists a folder. Every class must hold at least one image.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let mut folder = Folder {
            root: root.to_owned(),
            classes: Vec::new(),
            names: Vec::new(),
            ends: Vec::new(),
            labels: Vec::new(),
        };
        let mut classes: Vec<OsString> =
            list(root)?.into_iter().filter(|entry| entry.is_folder).map(|entry| entry.name).collect();
        classes.sort();
        if classes.is_empty() {
            return Err(Error::new(Kind::NotFound, "the folder has no class folders")
                .at(root)
                .remedy("put the images of each class into a sub-folder of its own: root/class/image.jpg"));
        }
        let mut empty = Vec::new();
        for (label, class) in classes.iter().enumerate() {
            let before = folder.len();
            folder.add(class, label as u32)?;
            if folder.len() == before {
                empty.push(class.to_string_lossy().into_owned());
            }
            folder.classes.push(class.to_string_lossy().into_owned());
        }
        if !empty.is_empty() {
            return Err(Error::new(
                Kind::NotFound,
                format!("no images for the class{} {}", if empty.len() > 1 { "es" } else { "" }, empty.join(", ")),
            )
            .at(root)
            .remedy(format!(
                "add files ending in {}, or remove the empty folder",
                IMAGE_EXTENSIONS.map(|e| format!(".{e}")).join(" ")
            )));
        }
        Ok(folder)
    }

    /// A listing made elsewhere: `paths` relative to `root` (or absolute), with their labels.
    pub fn from_listing<'a>(
        root: impl AsRef<Path>,
        classes: Vec<String>,
        samples: impl IntoIterator<Item = (&'a Path, u32)>,
    ) -> Self {
        let mut folder =
            Folder { root: root.as_ref().to_owned(), classes, names: Vec::new(), ends: Vec::new(), labels: Vec::new() };
        for (path, label) in samples {
            folder.push(path.as_os_str().as_bytes(), label);
        }
        folder
    }

    /// Where the folder lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The classes, in the order of their labels.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The label of a sample.
    pub fn label(&self, sample: u64) -> u32 {
        self.labels[sample as usize]
    }

    /// The path of a sample, written into `path` so that a loop over samples allocates nothing.
    pub fn path_into(&self, sample: u64, path: &mut PathBuf) {
        let sample = sample as usize;
        let start = if sample == 0 { 0 } else { self.ends[sample - 1] as usize };
        let name = &self.names[start..self.ends[sample] as usize];
        // `PathBuf::push` would keep what is there; clearing through OsString keeps the capacity.
        let mut text = std::mem::take(path).into_os_string();
        text.clear();
        text.push(self.root.as_os_str());
        *path = PathBuf::from(text);
        path.push(OsStr::from_bytes(name));
    }

    /// The path of a sample.
    pub fn path(&self, sample: u64) -> PathBuf {
        let mut path = PathBuf::new();
        self.path_into(sample, &mut path);
        path
    }

    /// A number that changes when the names, their order or their labels do.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a: stable across versions and machines, and fast enough to run once.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.names.iter().copied().for_each(&mut eat);
        self.labels.iter().flat_map(|l| l.to_le_bytes()).for_each(&mut eat);
        hash
    }

    /// Adds the images below the class folder: folders in the order of their whole paths, files sorted
    /// within each, which is torchvision's `sorted(os.walk(...))`.
    fn add(&mut self, class: &OsStr, label: u32) -> Result<()> {
        let (mut images, mut pending) = (Vec::new(), vec![class.as_bytes().to_vec()]);
        while let Some(folder) = pending.pop() {
            for entry in list(&self.root.join(OsStr::from_bytes(&folder)))? {
                if entry.is_folder {
                    pending.push([&folder, &b"/"[..], entry.name.as_bytes()].concat());
                } else if is_image(entry.name.as_bytes()) {
                    images.push((folder.clone(), entry.name));
                }
            }
        }
        images.sort();
        for (folder, name) in images {
            self.push(&[&folder, &b"/"[..], name.as_bytes()].concat(), label);
        }
        Ok(())
    }

    fn push(&mut self, name: &[u8], label: u32) {
        self.names.extend_from_slice(name);
        self.ends.push(self.names.len() as u64);
        self.labels.push(label);
    }
}

struct Entry {
    name: OsString,
    is_folder: bool,
}

/// The entries of a folder; links are followed.
fn list(dir: &Path) -> Result<Vec<Entry>> {
    let failed = |e| Error::io("list the folder", dir, e);
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
        entries.push(Entry { name: entry.file_name(), is_folder });
    }
    Ok(entries)
}

fn is_image(name: &[u8]) -> bool {
    let Some(dot) = name.iter().rposition(|&b| b == b'.') else { return false };
    IMAGE_EXTENSIONS.iter().any(|ending| name[dot + 1..].eq_ignore_ascii_case(ending.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        root
    }

    #[test]
    fn samples_are_numbered_as_a_sorted_walk_visits_them() {
        let root =
            folder_with(&["b/2.png", "a/z/1.jpg", "a/z-y/1.jpg", "a/9.JPG", "a/10.jpg", "b/notes.txt", "loose.jpg"]);
        let folder = Folder::open(root.path()).unwrap();
        assert_eq!(folder.classes(), ["a", "b"]);
        let names: Vec<_> = (0..folder.len() as u64)
            .map(|i| folder.path(i).strip_prefix(root.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a/10.jpg", "a/9.JPG", "a/z/1.jpg", "a/z-y/1.jpg", "b/2.png"]);
        assert_eq!((folder.label(0), folder.label(4)), (0, 1));
    }

    #[test]
    fn a_class_without_images_is_named() {
        let root = folder_with(&["a/1.jpg", "b/notes.txt"]);
        let error = Folder::open(root.path()).unwrap_err();
        assert!(error.to_string().contains("no images for the class b"), "{error}");
    }

    #[test]
    fn a_missing_and_an_empty_folder_are_told_apart() {
        let missing = Folder::open("/nowhere/at/all").unwrap_err();
        assert!(missing.to_string().contains("no such file"), "{missing}");
        let empty = Folder::open(tempfile::tempdir().unwrap().path()).unwrap_err();
        assert!(empty.to_string().contains("no class folders"), "{empty}");
    }

    #[test]
    fn a_name_that_is_not_utf8_is_kept_to_the_byte() {
        let root = folder_with(&["a/1.jpg"]);
        let odd = OsStr::from_bytes(b"\xff\xfe.jpg");
        fs::write(root.path().join("a").join(odd), b"x").unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert_eq!(folder.path(1).file_name(), Some(odd));
        assert_eq!(fs::read(folder.path(1)).unwrap(), b"x");
    }

    #[test]
    fn the_fingerprint_follows_names_and_labels() {
        let (one, two) = (folder_with(&["a/1.jpg", "b/2.jpg"]), folder_with(&["a/1.jpg", "b/3.jpg"]));
        let print = |root: &tempfile::TempDir| Folder::open(root.path()).unwrap().fingerprint();
        assert_ne!(print(&one), print(&two));
        assert_eq!(print(&one), print(&folder_with(&["a/1.jpg", "b/2.jpg"])));
    }
}
