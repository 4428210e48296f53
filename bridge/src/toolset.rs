//! Which tools are advertised: what a host doesn't load costs no context.

use std::collections::BTreeSet;
use std::str::FromStr;

use portreeve_registry::{Advertised, Domain};

/// The tools of the set `core`, beside those of the domain `leases`.
const CORE: [&str; 4] = ["diagnostics_get", "ports_list", "ports_get", "history_list"];

/// A choice of tools: `core`, `all` (the default), names of domains, or several of them with commas between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolset {
    all: bool,
    core: bool,
    domains: BTreeSet<&'static str>,
}

impl Default for Toolset {
    fn default() -> Self {
        Self { all: true, core: false, domains: BTreeSet::new() }
    }
}

/// A word that names no set and no domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no toolset {word:?}; there are {}", names().join(", "))]
pub struct UnknownToolset {
    /// The word.
    pub word: String,
}

/// Every word that a toolset can be made of.
pub fn names() -> Vec<&'static str> {
    ["all", "core"].into_iter().chain(portreeve_domains::ALL.iter().map(|domain| domain.name())).collect()
}

impl FromStr for Toolset {
    type Err = UnknownToolset;

    fn from_str(text: &str) -> Result<Self, UnknownToolset> {
        let mut set = Self { all: false, core: false, domains: BTreeSet::new() };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let domain =
                portreeve_domains::ALL.iter().map(|domain: &Domain| domain.name()).find(|name| *name == word);
            match (word, domain) {
                ("all", _) => set.all = true,
                ("core", _) => set.core = true,
                (_, Some(domain)) => {
                    set.domains.insert(domain);
                }
                (word, None) => return Err(UnknownToolset { word: word.to_owned() }),
            }
        }
        if !set.core && set.domains.is_empty() {
            set.all = true;
        }
        Ok(set)
    }
}

impl Toolset {
    /// Whether the set has this tool.
    pub(crate) fn has(&self, tool: &Advertised) -> bool {
        self.all
            || self.domains.contains(tool.domain())
            || self.core && (tool.domain() == "leases" || CORE.contains(&tool.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(set: &str) -> Vec<String> {
        let registry = portreeve_domains::load().expect("a registry");
        let set: Toolset = set.parse().expect("a toolset");
        registry.iter().filter(|tool| set.has(tool)).map(|tool| tool.name().to_owned()).collect()
    }

    #[test]
    fn core_has_its_tools_and_no_others() {
        let core = tools("core");
        for name in CORE {
            assert!(core.iter().any(|tool| tool == name), "{name} is missing");
        }
        assert!(
            core.iter().all(|tool| tool.starts_with("leases_") || CORE.contains(&tool.as_str())),
            "{core:?}"
        );
        assert!(core.len() > CORE.len());
    }

    #[test]
    fn sets_add_up_and_all_is_the_default() {
        let both = tools("core, claims");
        assert!(both.len() == tools("core").len() + tools("claims").len());
        assert_eq!(tools(""), tools("all"));
        assert!(tools("all").len() > both.len());
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_known_ones() {
        let error = Toolset::from_str("core,port").unwrap_err();
        assert_eq!(error.word, "port");
        assert!(error.to_string().contains("ports"), "{error}");
    }
}
