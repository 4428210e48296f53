//! The file that carries a lease and its token from one command to the next. Nobody else may read it.

use crate::report::{fault, invalid};
use portreeve_records::{Id, PortNumber};
use portreeve_registry::{Failure, Manner, Secret, decode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// A lease and what proves that it is the caller's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    pub(crate) lease_id: Id,
    pub(crate) lease_token: Secret,
    pub(crate) port: PortNumber,
    pub(crate) expires_at: Option<String>,
}

/// Where a lease comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct From {
    /// The lease: the file that `lease acquire --lease-file` wrote, or its `--json` output; - is standard input
    #[arg(long, value_name = "FILE")]
    lease_file: PathBuf,
}

impl From {
    pub(crate) fn read(&self) -> Result<Lease, Failure> {
        let unreadable =
            |error: std::io::Error| invalid(format!("{} can't be read: {error}", self.lease_file.display()));
        let mut text = String::new();
        if self.lease_file == Path::new("-") {
            std::io::stdin().lock().take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
        } else {
            let file = std::fs::File::open(&self.lease_file).map_err(unreadable)?;
            file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
        }
        parse(&text).map_err(|what| invalid(format!("{} holds no lease: {what}", self.lease_file.display())))
    }
}

fn parse(text: &str) -> Result<Lease, String> {
    // The parser's own message would repeat a part of the text, which may be the token.
    let mut value: Value = serde_json::from_str(text).map_err(|_| "it isn't JSON".to_owned())?;
    if let Some(data) = value.get_mut("data") {
        value = data.take();
    }
    decode(value, Manner::default()).map_err(|issue| issue.to_string())
}

/// Writes `lease` to `path`, for this user alone; what is there already is replaced at once or not at all.
pub(crate) fn write(path: &Path, lease: &Lease) -> Result<(), Failure> {
    let failed = |error: std::io::Error| fault(format!("{} can't be written: {error}", path.display()));
    let text = serde_json::to_vec(lease).map_err(|error| fault(error.to_string()))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_is_read_and_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lease.json");
        std::fs::write(&path, "old").unwrap();
        let secret = Secret::random();
        let lease = Lease {
            lease_id: Id::fresh(),
            lease_token: secret.clone(),
            port: PortNumber::new(3000).unwrap(),
            expires_at: None,
        };
        write(&path, &lease).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = From { lease_file: path }.read().unwrap();
        assert_eq!(read.lease_token.expose(), secret.expose());
    }

    #[test]
    fn the_json_output_of_acquire_is_a_lease_too_and_errors_repeat_nothing() {
        let (id, secret) = (Id::fresh(), Secret::random());
        let token = secret.expose();
        let document = format!(
            r#"{{"schemaVersion":1,"command":"lease acquire","data":{{"leaseId":"{id}","leaseToken":"{token}","port":1}}}}"#
        );
        assert_eq!(parse(&document).unwrap().lease_id, id);
        for broken in [document.replace(token, &token[1..]), document.replace(r#"":1}}"#, "")] {
            let message = parse(&broken).unwrap_err();
            assert!(!message.contains(&token[1..]), "{message}");
        }
    }
}
