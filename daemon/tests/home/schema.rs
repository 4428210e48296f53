//! The schema: landed migrations stay as they are, and every older store can be brought up to date.

use std::fs;
use std::path::Path;

use portreeve_daemon::store::{NEWEST_SCHEMA, Store};
use sha2::{Digest as _, Sha256};

use crate::support::{keys, place};

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/migrations");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/home/fixtures");

#[test]
fn no_landed_migration_was_edited() {
    let mut found = Vec::new();
    for entry in fs::read_dir(MIGRATIONS).expect("the migrations") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let hash = Sha256::digest(fs::read(&path).expect("a migration"));
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            found.push(format!("{hash}  {}", path.file_name().expect("a name").display()));
        }
    }
    found.sort_by_key(|line| line[66..].to_owned());
    assert_eq!(found.len() as i64, NEWEST_SCHEMA, "each file in the folder is a migration in the list");
    let landed = fs::read_to_string(Path::new(MIGRATIONS).join("SHA256SUMS")).expect("the list");
    assert_eq!(
        landed.lines().collect::<Vec<_>>(),
        found,
        "a landed migration is never edited: add the next number instead, and its line to SHA256SUMS"
    );
}

/// A fixture is what `sqlite3 authority.db .dump` printed, with the two pragmas that a dump leaves out. It holds
/// at least the setting `kept`.
#[test]
fn a_store_of_each_older_schema_is_brought_up_to_date_with_what_is_in_it() {
    for schema in (1..).take_while(|schema| *schema < NEWEST_SCHEMA) {
        let place = place();
        let fixture = Path::new(FIXTURES).join(format!("schema-{schema:04}.sql"));
        let dump = fs::read_to_string(&fixture).expect("the next schema comes with a fixture of this one");
        let conn = rusqlite::Connection::open(&place.db).expect("a new file");
        conn.execute_batch(&dump).expect("the dump is read");
        drop(conn);
        // Opening compares the schema with that of a new store.
        let store = Store::open(&place.db).expect("it is brought up to date");
        assert!(keys(&store).contains(&"kept".to_owned()), "schema {schema}");
    }
}

#[test]
fn what_must_be_unique_is() {
    let place = place();
    let store = place.open();
    let refused = [
        "INSERT INTO claim SELECT 'other', project, workspace_root, component, endpoint, mode, NULL, NULL, NULL,
         NULL, NULL, NULL, created_at, updated_at, last_used_at FROM claim WHERE id = 'c'",
        "INSERT INTO claim SELECT 'other', 'q', workspace_root, component, endpoint, mode, 3000, NULL, NULL,
         NULL, NULL, NULL, created_at, updated_at, last_used_at FROM claim WHERE id = 'c'",
        "INSERT INTO lease SELECT 'other', claim_id, NULL, 3001, state, token_hash, ttl_ms, expires_at,
         expires_boot_ms, boot_id, created_at, NULL FROM lease",
        "INSERT INTO lease SELECT 'other', 'd', NULL, port, state, token_hash, ttl_ms, expires_at,
         expires_boot_ms, boot_id, created_at, NULL FROM lease",
        "INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, boot_id, confirmed_at)
         VALUES ('other', 'c', 'l', 3001, 'confirmed', 'process', 'b', 't')",
        "INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, boot_id, confirmed_at)
         VALUES ('other', 'd', 'l', 3000, 'confirmed', 'process', 'b', 't')",
        "UPDATE claim SET assigned_port = 65536",
        "UPDATE claim SET mode = 'sometimes'",
        "UPDATE lease SET claim_id = 'nobody'",
        "UPDATE lease SET ttl_ms = 'long'",
    ];
    store
        .write(move |tx| {
            tx.execute_batch(
                "INSERT INTO claim VALUES
                 ('c', 'p', '/w', 'web', 'default', 'sticky', 3000, NULL, NULL, NULL, NULL, NULL, 't', 't', 't'),
                 ('d', 'p', '/w', 'api', 'default', 'sticky', NULL, NULL, NULL, NULL, NULL, NULL, 't', 't', 't');
                 INSERT INTO lease VALUES
                 ('l', 'c', NULL, 3000, 'pending', zeroblob(32), 1, 't', 1, 'b', 't', NULL);
                 INSERT INTO run (id, claim_id, lease_id, port, state, binding_kind, boot_id, confirmed_at)
                 VALUES ('r', 'c', 'l', 3000, 'confirmed', 'process', 'b', 't');
                 INSERT INTO run_listener VALUES ('r', 1, 2, 3, 4, '{}', 't');
                 INSERT INTO set_aside VALUES ('c', 3000, 1, 'b');",
            )?;
            for statement in refused {
                assert!(tx.execute(statement, ()).is_err(), "{statement}");
            }
            tx.execute("DELETE FROM claim WHERE id = 'c'", ())?;
            for table in ["lease", "run", "run_listener", "set_aside"] {
                let left: i64 = tx.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0))?;
                assert_eq!(left, 0, "{table}");
            }
            Ok::<_, rusqlite::Error>(())
        })
        .expect("the rules hold");
}
