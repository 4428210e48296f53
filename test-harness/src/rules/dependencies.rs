//! What each crate reaches, by cargo's own account of the resolved graph.

use super::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The resolved graph: what is built into a crate, development dependencies left out.
#[derive(Debug)]
pub struct Graph {
    name: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    folder: BTreeMap<String, String>,
    needs: BTreeMap<String, Vec<String>>,
}

impl Graph {
    /// Asks cargo.
    ///
    /// # Panics
    /// If cargo doesn't answer.
    pub fn read() -> Graph {
        let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
        let about = String::from_utf8(rustc.stdout).expect("rustc writes text");
        let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc says its host");
        let output = Command::new(env!("CARGO"))
            // What other systems need may not be here.
            .args(["metadata", "--format-version=1", "--offline", "--filter-platform", host])
            .current_dir(workspace())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        Graph::of(&serde_json::from_slice(&output.stdout).expect("cargo writes JSON"))
    }

    fn of(metadata: &Value) -> Graph {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let packages = list(&metadata["packages"]);
        let by_id = |field: &'static str| {
            let pairs = packages.iter().map(move |p| (text(&p["id"]), text(&p[field])));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let needs = list(&metadata["resolve"]["nodes"]).into_iter().map(|node| {
            let built_in =
                |dependency: &&Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
            let dependencies = list(&node["deps"]);
            (text(&node["id"]), dependencies.iter().filter(built_in).map(|d| text(&d["pkg"])).collect())
        });
        Graph {
            name: by_id("name"),
            links: by_id("links"),
            folder: by_id("manifest_path"),
            needs: needs.collect(),
        }
    }

    /// Every crate that `root` reaches, itself left out: what it is called, and what it links.
    ///
    /// # Panics
    /// If there is no crate of that name.
    pub fn reached(&self, root: &str) -> BTreeSet<(&str, &str)> {
        let start = self.name.iter().find(|(_, name)| *name == root).map(|(id, _)| id);
        let mut open = vec![start.unwrap_or_else(|| panic!("there is no crate {root}"))];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.needs.get(id).into_iter().flatten());
            }
        }
        seen.into_iter()
            .filter(|id| self.name[*id] != root)
            .map(|id| (self.name[id].as_str(), self.links[id].as_str()))
            .collect()
    }

    /// The crates whose manifests are below a folder of the workspace.
    pub fn below(&self, folder: &str) -> Vec<&str> {
        let folder = workspace().join(folder);
        let inside = |id: &&String| std::path::Path::new(&self.folder[*id]).starts_with(&folder);
        self.name.keys().filter(inside).map(|id| self.name[id].as_str()).collect()
    }

    /// The ways that must not be, of those that `banned` accepts by name and linked library.
    pub fn ways(&self, root: &str, banned: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let reached = self.reached(root).into_iter();
        reached
            .filter(|(name, links)| banned(name, links))
            .map(|(name, _)| format!("{root} reaches {name}"))
            .collect()
    }
}

/// Whether a crate is, or links, SQLite.
pub fn is_sqlite(name: &str, links: &str) -> bool {
    links == "sqlite3" || name == "rusqlite" || name == "libsqlite3-sys"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_way_over_others_is_a_way_and_one_of_tests_is_none() {
        let node = |id: &str, deps: Value| json!({"id": id, "deps": deps});
        let graph = Graph::of(&json!({
            "packages": [
                {"id": "1", "name": "a", "links": null, "manifest_path": "/a"},
                {"id": "2", "name": "b", "links": null, "manifest_path": "/b"},
                {"id": "3", "name": "c", "links": "sqlite3", "manifest_path": "/c"},
                {"id": "4", "name": "d", "links": null, "manifest_path": "/d"},
            ],
            "resolve": {"nodes": [
                node("1", json!([
                    {"pkg": "2", "dep_kinds": [{"kind": null}]},
                    {"pkg": "4", "dep_kinds": [{"kind": "dev"}]},
                ])),
                node("2", json!([{"pkg": "3", "dep_kinds": [{"kind": "dev"}, {"kind": "build"}]}])),
                node("3", json!([])),
                node("4", json!([])),
            ]},
        }));
        assert_eq!(graph.ways("a", is_sqlite), ["a reaches c"]);
        assert_eq!(graph.reached("a"), BTreeSet::from([("b", ""), ("c", "sqlite3")]));
    }
}
