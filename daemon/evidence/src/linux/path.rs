//! Paths below `/proc`, made on the stack: a scan opens thousands.

use std::ffi::CStr;

/// Longer than any path made here: two numbers of ten digits and a few names.
const CAPACITY: usize = 64;

/// A short path, made piece by piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Path {
    /// `PID`.
    pub(super) fn pid(pid: u32) -> Self {
        Self { bytes: [0; CAPACITY], length: 0 }.number(pid)
    }

    /// This path and a number.
    pub(super) fn number(mut self, mut number: u32) -> Self {
        let mut digits = [0; 10];
        let mut start = digits.len();
        loop {
            start -= 1;
            // A remainder of ten fits a byte.
            digits[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[start..]);
        self
    }

    /// This path and a name as it stands, slashes included.
    pub(super) fn name(mut self, name: &str) -> Self {
        self.push(name.as_bytes());
        self
    }

    fn push(&mut self, piece: &[u8]) {
        let end = self.length + piece.len();
        // One byte stays for the end; what doesn't fit is cut, and then names nothing.
        if end < CAPACITY {
            self.bytes[self.length..end].copy_from_slice(piece);
            self.length = end;
        }
    }

    /// As the system calls want it.
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_the_kernel_names_them() {
        assert_eq!(Path::pid(1).as_c_str(), c"1");
        assert_eq!(Path::pid(4_294_967_295).name("/fd/").number(0).as_c_str(), c"4294967295/fd/0");
    }
}
