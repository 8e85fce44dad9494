//! Memory that speaks DLPack, so that torch, NumPy and JAX take it without a copy.
//!
//! Structures and rules: the DLPack specification, version 1.0. Consumers that ask for at least version 1 get a
//! versioned capsule; others the old one, which NumPy treats as read-only.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What keeps the memory of an array alive.
pub(crate) enum Owner {
    Batch(forebay_engine::Batch),
    Bytes(Box<[u8]>),
}

/// An array in main memory: rows without gaps.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Array {
    owner: Arc<Owner>,
    offset: usize,
    dtype: &'static str,
    shape: Vec<usize>,
}

impl Array {
    pub fn new(owner: Arc<Owner>, offset: usize, dtype: &'static str, shape: Vec<usize>) -> Self {
        Array { owner, offset, dtype, shape }
    }

    fn address(&self) -> *mut u8 {
        let base = match &*self.owner {
            Owner::Batch(batch) => batch.slab().address(),
            Owner::Bytes(bytes) => bytes.as_ptr().cast_mut(),
        };
        base.wrapping_add(self.offset)
    }

    fn element(&self) -> DataType {
        let (code, bits) = match self.dtype {
            "i64" => (0, 64),
            "u8" => (1, 8),
            "f16" => (2, 16),
            "bf16" => (4, 16),
            _ => (2, 32),
        };
        DataType { code, bits, lanes: 1 }
    }
}

/// Where arrays lie, in DLPack's numbers: the CPU, device 0.
const CPU: (i32, i32) = (1, 0);

#[pymethods]
impl Array {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype
    }

    fn __repr__(&self) -> String {
        format!("<forebay array {} {:?}>", self.dtype, self.shape)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        CPU
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        drop(stream); // memory of the CPU is ready as it stands
        if dl_device.is_some_and(|device| device != CPU) {
            return Err(PyBufferError::new_err("the array lies in main memory; move it after the import"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("the array is shared, not copied; copy it after the import"));
        }
        let export = Box::new(Export {
            shape: self.shape.iter().map(|&n| n as i64).collect(),
            strides: strides(&self.shape),
            owner: Arc::clone(&self.owner),
        });
        let tensor = Tensor {
            data: self.address().cast(),
            device: Device { kind: CPU.0, id: CPU.1 },
            dimensions: self.shape.len() as i32,
            dtype: self.element(),
            shape: export.shape.as_ptr().cast_mut(),
            strides: export.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let export = Box::into_raw(export).cast();
        if max_version.is_some_and(|(major, _)| major >= 1) {
            let managed = Versioned {
                version: Version { major: 1, minor: 0 },
                export,
                deleter: Some(delete::<Versioned>),
                flags: 0,
                tensor,
            };
            capsule(py, managed)
        } else {
            capsule(py, Unversioned { tensor, export, deleter: Some(delete::<Unversioned>) })
        }
    }
}

/// Elements from one index to the next, by axis.
fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as i64;
    }
    strides
}

/// What a consumer's tensor keeps alive.
struct Export {
    shape: Vec<i64>,
    strides: Vec<i64>,
    #[allow(dead_code)] // held, not read
    owner: Arc<Owner>,
}

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    export: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    export: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// The two forms of a managed tensor.
trait Managed: Sized {
    /// The capsule's name until somebody takes the tensor out of it.
    const NAME: &'static CStr;
    fn export(&self) -> *mut c_void;
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    fn export(&self) -> *mut c_void {
        self.export
    }
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";
    fn export(&self) -> *mut c_void {
        self.export
    }
}

/// Called by the consumer, on any thread, with or without the GIL: frees memory, touches no Python.
unsafe extern "C" fn delete<T: Managed>(managed: *mut T) {
    // SAFETY: both boxes were made in `__dlpack__`, and DLPack promises one call.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.export().cast::<Export>()));
    }
}

fn capsule<T: Managed>(py: Python<'_>, managed: T) -> PyResult<Py<PyAny>> {
    let managed = Box::into_raw(Box::new(managed));
    // SAFETY: the pointer is live and not null; the destructor frees it unless a consumer took it over.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), T::NAME.as_ptr(), Some(destroy::<T>));
        if capsule.is_null() {
            delete::<T>(managed);
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, capsule).unbind())
    }
}

/// Frees a tensor that nobody took: whoever takes one renames its capsule.
unsafe extern "C" fn destroy<T: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: called by Python on a capsule made above; the name tells whether the pointer is still ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, T::NAME.as_ptr()) == 1 {
            delete::<T>(ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()).cast());
        }
    }
}
