//! Examples: valid by their schema, and taken by the code that the schema describes.

use portreeve_registry::{Advertised, Args, Behavior, Call, CredentialKind, Failure, Held, Registry, Secret};
use serde_json::{Map, Value, json};

/// Every example is valid by its own tool's schema.
pub fn invalid(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        match jsonschema::draft202012::new(&json!(tool.input_schema())) {
            Ok(schema) => {
                let example = Value::Object(tool.example());
                faults.extend(schema.iter_errors(&example).map(|error| {
                    format!("{}: its example at {}: {error}", tool.name(), error.instance_path())
                }));
            }
            Err(error) => faults.push(format!("{}: its input is no schema: {error}", tool.name())),
        }
    }
    faults
}

/// Every example is taken, and gives a call of the tool's own operation.
pub fn refused(registry: &Registry) -> Vec<String> {
    let mut faults = Vec::new();
    for tool in registry.iter() {
        match taken(tool, tool.example()) {
            Err(failure) => faults.push(format!("{}: its example is refused: {failure}", tool.name())),
            Ok(None) => {}
            Ok(Some(call)) => {
                let operation = tool.face().operation.expect("what makes a call has an operation");
                let path = call.target.split('?').next().expect("a split has a first part");
                if call.method != operation.0 || !fits(operation.1, path) {
                    let (method, target) = (call.method.as_str(), call.target);
                    faults.push(format!("{}: its example asks {method} {target}", tool.name()));
                }
            }
        }
    }
    faults
}

/// Whether a path is one that a pattern with `{name}`s in it means.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let same =
        |(wanted, found): (&&str, &&str)| wanted.starts_with('{') && !found.is_empty() || wanted == found;
    pattern.len() == path.len() && pattern.iter().zip(&path).all(same)
}

/// Reads arguments as the bridge does; what the daemon would be asked, if it is asked.
///
/// # Errors
/// The bridge's refusal.
pub fn taken(tool: &Advertised, arguments: Map<String, Value>) -> Result<Option<Call>, Failure> {
    let args = Args::of_tool(arguments);
    match tool.face().behavior {
        Behavior::Ask { prepare, .. } => prepare(args).map(Some),
        Behavior::List { prepare, .. } => prepare(args, 50).map(|(call, _)| Some(call)),
        Behavior::Grant { purpose, prepare, .. } => {
            purpose(&args)?;
            prepare(args, Secret::random()).map(Some)
        }
        Behavior::Spend { handle, prepare, .. } => {
            handle(&args)?;
            let held = Held {
                kind: CredentialKind::Lease,
                subject: "0198c0de-0000-7000-8000-000000000001".to_owned(),
                group: Some("0198c0de-0000-7000-8000-000000000002".to_owned()),
                secret: Secret::random(),
            };
            prepare(args, held).map(Some)
        }
        Behavior::Local { read, .. } => read(args).map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_path_fits_its_own_pattern_only() {
        assert!(fits("/v1/ports/{port}", "/v1/ports/3000"));
        assert!(!fits("/v1/ports/{port}", "/v1/ports/"));
        assert!(!fits("/v1/ports/{port}", "/v1/ports/1/reclaim"));
        assert!(!fits("/v1/ports", "/v1/claims"));
    }
}
