//! The registry: every tool that is linked in, checked.

use crate::name::DomainMarker;
use crate::tool::{Face, Tool};
use crate::{Domain, Hints, KindName, Name};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Why what is linked is no registry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Two tools have one name.
    #[error("two tools are called {name}: one of {first}, one of {second}")]
    DuplicateName {
        /// The name, with its face's suffix.
        name: String,
        /// The domain that came first.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// A domain is linked but not on the list.
    #[error("the domain {0} is linked, but not on the list of domains")]
    UnlistedDomain(&'static str),
    /// A domain is on the list but not linked.
    #[error("the domain {0} is on the list of domains, but not linked")]
    MissingDomain(&'static str),
    /// A domain is on the list, or linked, twice.
    #[error("the domain {0} is there twice")]
    DuplicateDomain(&'static str),
    /// A face's name is over 40 bytes.
    #[error("{0} is over 40 bytes")]
    LongName(String),
    /// A description is missing or over 1,024 characters.
    #[error("the description of {0} is missing or over 1,024 characters")]
    BadDescription(Name),
}

/// One face of a tool, as a host sees it.
#[derive(Debug)]
pub struct Advertised {
    name: String,
    description: String,
    tool: &'static Tool,
    face: &'static Face,
    input: OnceLock<Arc<Map<String, Value>>>,
    output: OnceLock<Arc<Map<String, Value>>>,
}

impl Advertised {
    /// The name that a host calls.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What the agent reads.
    pub fn description(&self) -> &str {
        &self.description
    }
    /// The domain that declares it.
    pub fn domain(&self) -> &'static str {
        self.tool.domain.name()
    }
    /// Its kind.
    pub fn kind(&self) -> KindName {
        self.tool.kind
    }
    /// What a host may assume.
    pub fn hints(&self) -> Hints {
        self.face.hints
    }
    /// The face: how it is run, and the operation behind it.
    pub fn face(&self) -> &'static Face {
        self.face
    }
    /// The schema of its input, made when first asked for.
    pub fn input_schema(&self) -> &Map<String, Value> {
        self.input.get_or_init(|| Arc::new((self.face.input)()))
    }
    /// The schema of its output, made when first asked for.
    pub fn output_schema(&self) -> &Map<String, Value> {
        self.output.get_or_init(|| Arc::new((self.face.output)()))
    }
    /// Both, input first, for whoever keeps them: they are big, and there is one of each.
    pub fn shared_schemas(&self) -> [Arc<Map<String, Value>>; 2] {
        [
            Arc::clone(self.input.get_or_init(|| Arc::new((self.face.input)()))),
            Arc::clone(self.output.get_or_init(|| Arc::new((self.face.output)()))),
        ]
    }
    /// A valid input.
    pub fn example(&self) -> Map<String, Value> {
        (self.face.example)()
    }
    /// Fields of its own types that the registry's fields of the same name hide: there must be none.
    pub fn shadowed(&self) -> Vec<String> {
        (self.face.shadowed)()
    }
}

/// Every registered tool, in the order of the list of domains and then by name.
#[derive(Debug)]
pub struct Registry {
    tools: Vec<Advertised>,
    by_name: BTreeMap<String, usize>,
}

impl Registry {
    /// Collects what is linked and checks it against `domains`, both ways.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn load(domains: &[Domain]) -> Result<Registry, LoadError> {
        let mut linked = BTreeSet::new();
        for DomainMarker(domain) in inventory::iter::<DomainMarker> {
            if !linked.insert(*domain) {
                return Err(LoadError::DuplicateDomain(domain.name()));
            }
            if !domains.contains(domain) {
                return Err(LoadError::UnlistedDomain(domain.name()));
            }
        }
        let mut listed = BTreeSet::new();
        for domain in domains {
            if !listed.insert(*domain) {
                return Err(LoadError::DuplicateDomain(domain.name()));
            }
            if !linked.contains(domain) {
                return Err(LoadError::MissingDomain(domain.name()));
            }
        }
        let mut tools: Vec<Advertised> = Vec::new();
        for tool in inventory::iter::<Tool> {
            if !linked.contains(&tool.domain) {
                return Err(LoadError::UnlistedDomain(tool.domain.name()));
            }
            let description = describe(tool)?;
            for face in tool.faces.iter().flatten() {
                let name = format!("{}{}", tool.name, face.suffix);
                if name.len() > 40 {
                    return Err(LoadError::LongName(name));
                }
                let description = match face.suffix {
                    "_preview" => format!(
                        "Preview: {description} Changes nothing; answers a receiptId for the execute."
                    ),
                    "_execute" => format!("Execute what the preview's receiptId stands for: {description}"),
                    _ => description.clone(),
                };
                let (input, output) = (OnceLock::new(), OnceLock::new());
                tools.push(Advertised { name, description, tool, face, input, output });
            }
        }
        let place = |tool: &Advertised| domains.iter().position(|d| *d == tool.tool.domain);
        tools.sort_by_key(|t| (place(t), t.tool.name, t.face.suffix == "_execute"));
        let mut by_name = BTreeMap::new();
        for (i, tool) in tools.iter().enumerate() {
            if let Some(first) = by_name.insert(tool.name.clone(), i) {
                return Err(LoadError::DuplicateName {
                    name: tool.name.clone(),
                    first: tools[first].domain(),
                    second: tool.domain(),
                });
            }
        }
        Ok(Registry { tools, by_name })
    }

    /// Every tool, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Advertised> {
        self.tools.iter()
    }

    /// The tool that a host calls by `name`.
    pub fn find(&self, name: &str) -> Option<&Advertised> {
        self.by_name.get(name).map(|i| &self.tools[*i])
    }
}

fn describe(tool: &Tool) -> Result<String, LoadError> {
    let text: Vec<&str> = tool.about.iter().flat_map(|line| line.split_whitespace()).collect();
    let text = text.join(" ");
    // A pair's frame takes up to 80 characters more.
    let room = if tool.kind == KindName::Change { 940 } else { 1024 };
    if text.is_empty() || text.chars().count() > room {
        return Err(LoadError::BadDescription(tool.name));
    }
    Ok(text)
}
