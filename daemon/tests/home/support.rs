//! What several of these tests need.

use std::path::PathBuf;

use portreeve_daemon::store::{FILE_NAME, Store, StoreError};
use tempfile::TempDir;

/// A directory of the test's own and the path of a store in it.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) db: PathBuf,
}

pub(crate) fn place() -> Place {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = dir.path().join(FILE_NAME);
    Place { dir, db }
}

impl Place {
    pub(crate) fn open(&self) -> Store {
        Store::open(&self.db).expect("the store opens")
    }

    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("{FILE_NAME}{suffix}"))
    }
}

/// Puts one setting; its value is its key.
pub(crate) fn put(store: &Store, key: &str) {
    let key = key.to_owned();
    store
        .write(move |tx| tx.execute("INSERT INTO setting VALUES (?1, json_quote(?1))", [&key]))
        .expect("the setting is written");
}

/// The keys of all settings, in order.
pub(crate) fn keys(store: &Store) -> Vec<String> {
    store
        .read(|conn| {
            let mut statement = conn.prepare_cached("SELECT key FROM setting ORDER BY key")?;
            let keys = statement.query_map((), |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            Ok::<_, StoreError>(keys)
        })
        .expect("the settings are read")
}
