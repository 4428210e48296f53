//! sysctl by name, of texts and numbers. The only call to libc in this crate.

use std::ffi::CStr;

use rustix::io::Errno;

use crate::{Reading, Unknown, Why};

/// A text of at most 127 bytes.
pub(super) fn text(name: &CStr, what: Reading) -> Result<String, Unknown> {
    let mut buffer = [0; 128];
    let length = get(name, &mut buffer, what)?;
    let text = buffer.get(..length).and_then(|bytes| CStr::from_bytes_until_nul(bytes).ok());
    match text.and_then(|text| text.to_str().ok()) {
        Some(text) if !text.is_empty() => Ok(text.into()),
        _ => Err(Unknown::new(what, Why::Malformed)),
    }
}

/// An `int`.
pub(super) fn number(name: &CStr, what: Reading) -> Result<i32, Unknown> {
    let mut buffer = [0; 4];
    match get(name, &mut buffer, what)? {
        4 => Ok(i32::from_ne_bytes(buffer)),
        _ => Err(Unknown::new(what, Why::Malformed)),
    }
}

#[expect(unsafe_code, reason = "sysctlbyname has no safe interface")]
fn get(name: &CStr, buffer: &mut [u8], what: Reading) -> Result<usize, Unknown> {
    let mut length = buffer.len();
    // SAFETY: the name ends in NUL, the buffer is as long as `length` says, and nothing is set.
    let outcome = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    if outcome == 0 {
        return Ok(length);
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    Err(error.map_or(Unknown::new(what, Why::Malformed), |number| {
        Unknown::os(what, Errno::from_raw_os_error(number))
    }))
}
