//! What the compiler refuses, and that it refuses it for the reason meant.
//!
//! Each case is a pair: `<case>_fails.rs` with the compiler's words beside it, and `<case>_passes.rs`, which
//! differs from it in one line and compiles.
//! A case that fails for want of an import would so take its twin down with it.
//!
//! After a new compiler: `TRYBUILD=overwrite cargo test -p portreeve-registry --test compile`, and read the diff.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile");

#[test]
fn the_compiler_refuses_each_case_and_takes_its_twin() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile/*_fails.rs");
    cases.pass("tests/compile/*_passes.rs");
}

#[test]
fn each_case_differs_from_its_twin_in_one_line() {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(CASES).expect("the cases are there") {
        let file = file.expect("a folder can be read").file_name().into_string().expect("plain names");
        let stem = file.trim_end_matches(".rs").trim_end_matches(".stderr");
        let name = stem.trim_end_matches("_fails").trim_end_matches("_passes");
        assert_ne!(stem, name, "{file} is half of no pair");
        names.insert(name.to_owned());
    }
    assert!(!names.is_empty());
    for name in names {
        let read = |half: &str| {
            let path = Path::new(CASES).join(format!("{name}_{half}.rs"));
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let (fails, passes) = (read("fails"), read("passes"));
        assert_eq!(fails.lines().count(), passes.lines().count(), "{name}: the halves have other lengths");
        let differing = fails.lines().zip(passes.lines()).filter(|(one, other)| one != other).count();
        assert_eq!(differing, 1, "{name}: the halves differ in {differing} lines");
    }
}
