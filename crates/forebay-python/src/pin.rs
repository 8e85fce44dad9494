//! Page-locks the arena for a GPU, where there is one.
//!
//! The CUDA driver is found at run time: a machine without it simply has nothing to pin. Registered memory
//! is what torch calls pinned: copies from it are asynchronous and at full speed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use forebay_store::arena::Hooks;
use pyo3::prelude::*;

/// The functions of `libcuda.so.1` that are needed.
struct Driver {
    current: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    make_current: unsafe extern "C" fn(*mut c_void) -> c_int,
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int,
    unregister: unsafe extern "C" fn(*mut c_void) -> c_int,
    context: usize,
}

/// Registered memory counts as pinned in every context.
const PORTABLE: c_uint = 1;

impl Driver {
    /// Loads the driver and takes its first device's primary context, the one torch and JAX use.
    fn load() -> Option<Driver> {
        // SAFETY: the names and signatures are those of cuda.h, unchanged since CUDA 7; a missing symbol
        // or a failing call ends the attempt.
        unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                return None;
            }
            let symbol = |name: &CStr| {
                let found = libc::dlsym(library, name.as_ptr().cast::<c_char>());
                (!found.is_null()).then_some(found)
            };
            type Init = unsafe extern "C" fn(c_uint) -> c_int;
            type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
            type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
            let init = std::mem::transmute::<*mut c_void, Init>(symbol(c"cuInit")?);
            let device_get = std::mem::transmute::<*mut c_void, DeviceGet>(symbol(c"cuDeviceGet")?);
            let retain = std::mem::transmute::<*mut c_void, Retain>(symbol(c"cuDevicePrimaryCtxRetain")?);
            let (mut device, mut context) = (0, std::ptr::null_mut());
            if init(0) != 0 || device_get(&mut device, 0) != 0 || retain(&mut context, device) != 0 {
                return None;
            }
            Some(Driver {
                current: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void) -> c_int>(symbol(
                    c"cuCtxGetCurrent",
                )?),
                make_current: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(symbol(
                    c"cuCtxSetCurrent",
                )?),
                register: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int>(
                    symbol(c"cuMemHostRegister_v2")?,
                ),
                unregister: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(symbol(
                    c"cuMemHostUnregister",
                )?),
                context: context as usize,
            })
        }
    }

    /// Gives this thread a context if it has none.
    fn enter(&self) {
        // SAFETY: plain calls on a live context.
        unsafe {
            let mut current = std::ptr::null_mut();
            if (self.current)(&mut current) == 0 && current.is_null() {
                (self.make_current)(self.context as *mut c_void);
            }
        }
    }
}

/// The driver, looked for once.
fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Driver::load).as_ref()
}

/// Page-locks slabs when they are mapped. A refusal leaves them as they are: copies are slower, not wrong.
pub(crate) fn hooks() -> Hooks {
    fn mapped(base: *mut u8, len: usize) {
        if let Some(driver) = driver() {
            driver.enter();
            // SAFETY: the arena has just mapped this memory and keeps it until `unmapping`.
            unsafe { (driver.register)(base.cast(), len, PORTABLE) };
        }
    }
    fn unmapping(base: *mut u8) {
        if let Some(driver) = driver() {
            driver.enter();
            // SAFETY: registered in `mapped`; if that was refused, so is this.
            unsafe { (driver.unregister)(base.cast()) };
        }
    }
    Hooks { mapped: Some(mapped), unmapping: Some(unmapping) }
}

/// Whether a CUDA driver with a device answers.
#[pyfunction]
pub(crate) fn cuda_is_present() -> bool {
    driver().is_some()
}
