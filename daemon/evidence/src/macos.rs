//! macOS: own processes through libproc.
