//! What the compiler refuses of the real operations, and that it refuses it for the reason meant.
//!
//! After a new compiler: `TRYBUILD=overwrite cargo test -p portreeve-domains --test compile`, and read the diff.

#[path = "../../registry/tests/support/twins.rs"]
mod twins;

#[test]
fn the_compiler_refuses_each_case_and_takes_its_twin() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile/*_fails.rs");
    cases.pass("tests/compile/*_passes.rs");
}

#[test]
fn each_case_differs_from_its_twin_in_one_line() {
    twins::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile").as_ref());
}
