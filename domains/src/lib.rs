//! The list of domains, and the registry of their tools.
//!
//! A new domain crate is added here, in one line, and nowhere else outside its own folder.
//! Naming it is also what links it: rustc drops a dependency that no source file names.

#![warn(missing_docs)]

use portreeve_registry::{Domain, LoadError, Registry};

/// Every domain, in the order in which tools are advertised.
pub const ALL: &[Domain] = &[
    portreeve_diagnostics::DOMAIN,
    portreeve_ports::DOMAIN,
    portreeve_claims::DOMAIN,
    portreeve_leases::DOMAIN,
    portreeve_stacks::DOMAIN,
    portreeve_activations::DOMAIN,
    portreeve_launcher::DOMAIN,
    portreeve_sandbox::DOMAIN,
    portreeve_settings::DOMAIN,
    portreeve_history::DOMAIN,
];

/// The whole registry, checked.
///
/// # Errors
/// Whatever rule the linked tools break; the harness shows it before a user can.
pub fn load() -> Result<Registry, LoadError> {
    Registry::load(ALL)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_linked_is_a_registry() {
        let registry = super::load().unwrap();
        assert!(registry.find("leases_acquire").is_some());
    }
}
