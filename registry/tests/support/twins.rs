//! Cases of the compiler in pairs: `<case>_fails.rs` with the compiler's words beside it, and `<case>_passes.rs`,
//! which differs from it in one line and compiles.
//!
//! A case that fails for want of an import would so take its twin down with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// That the cases in `folder` are such pairs.
pub(crate) fn check(folder: &Path) {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).expect("the cases are there") {
        let file = file.expect("a folder can be read").file_name().into_string().expect("plain names");
        let stem = file.trim_end_matches(".rs").trim_end_matches(".stderr");
        let name = stem.trim_end_matches("_fails").trim_end_matches("_passes");
        assert_ne!(stem, name, "{file} is half of no pair");
        names.insert(name.to_owned());
    }
    assert!(!names.is_empty());
    for name in names {
        let read = |half: &str| {
            let path = folder.join(format!("{name}_{half}"));
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        assert!(!read("fails.stderr").is_empty(), "{name}: the compiler said nothing");
        let (fails, passes) = (read("fails.rs"), read("passes.rs"));
        assert_eq!(fails.lines().count(), passes.lines().count(), "{name}: the halves have other lengths");
        let differing = fails.lines().zip(passes.lines()).filter(|(one, other)| one != other).count();
        assert_eq!(differing, 1, "{name}: the halves differ in {differing} lines");
    }
}
