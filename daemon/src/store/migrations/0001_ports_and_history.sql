-- Claims, leases, runs and what explains them.
--
-- A time named *_at is the wall clock, for people; one named *_boot_ms is the boot clock, for decisions, and
-- means nothing but under the boot id beside it.

CREATE TABLE claim (
    id TEXT PRIMARY KEY NOT NULL,
    project TEXT NOT NULL,
    workspace_root TEXT NOT NULL,
    component TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('sticky', 'ephemeral')),
    assigned_port INTEGER CHECK (assigned_port BETWEEN 1 AND 65535),
    preferred_port INTEGER CHECK (preferred_port BETWEEN 1 AND 65535),
    exact_port INTEGER CHECK (exact_port BETWEEN 1 AND 65535),
    assignment_expires_at TEXT,
    assignment_expires_boot_ms INTEGER,
    assignment_boot_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    last_used_at TEXT NOT NULL,
    UNIQUE (project, workspace_root, component, endpoint)
) STRICT;
CREATE UNIQUE INDEX claim_assigned_port ON claim (assigned_port) WHERE assigned_port IS NOT NULL;
CREATE INDEX claim_workspace_root ON claim (workspace_root);
CREATE INDEX claim_last_used_at ON claim (last_used_at);

CREATE TABLE lease (
    id TEXT PRIMARY KEY NOT NULL,
    claim_id TEXT NOT NULL REFERENCES claim (id) ON DELETE CASCADE,
    activation_id TEXT,
    port INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    state TEXT NOT NULL CHECK (state IN ('pending', 'confirmed', 'abandoned', 'expired')),
    token_hash BLOB NOT NULL CHECK (length(token_hash) = 32),
    ttl_ms INTEGER NOT NULL,
    expires_at TEXT NOT NULL,
    expires_boot_ms INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    settled_at TEXT
) STRICT;
CREATE UNIQUE INDEX lease_pending_port ON lease (port) WHERE state = 'pending';
CREATE UNIQUE INDEX lease_pending_claim ON lease (claim_id) WHERE state = 'pending';
CREATE INDEX lease_claim ON lease (claim_id);
CREATE INDEX lease_settled_at ON lease (settled_at);

CREATE TABLE run (
    id TEXT PRIMARY KEY NOT NULL,
    claim_id TEXT NOT NULL REFERENCES claim (id) ON DELETE CASCADE,
    lease_id TEXT NOT NULL,
    activation_id TEXT,
    port INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    state TEXT NOT NULL CHECK (state IN ('confirmed', 'released')),
    binding_kind TEXT NOT NULL,
    root_pid INTEGER,
    root_start INTEGER,
    root_fingerprint TEXT CHECK (json_valid(root_fingerprint)),
    container_id TEXT,
    provider_evidence TEXT CHECK (json_valid(provider_evidence)),
    boot_id TEXT NOT NULL,
    confirmed_at TEXT NOT NULL,
    released_at TEXT,
    release_reason TEXT
) STRICT;
CREATE UNIQUE INDEX run_confirmed_claim ON run (claim_id) WHERE state = 'confirmed';
CREATE UNIQUE INDEX run_confirmed_port ON run (port) WHERE state = 'confirmed';
CREATE INDEX run_claim ON run (claim_id);
CREATE INDEX run_released_at ON run (released_at);

CREATE TABLE run_listener (
    run_id TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    pid INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,
    session INTEGER NOT NULL,
    process_group INTEGER NOT NULL,
    fingerprint TEXT NOT NULL CHECK (json_valid(fingerprint)),
    observed_at TEXT NOT NULL,
    PRIMARY KEY (run_id, pid, start_ticks)
) STRICT;

-- A port that a claim's server could not bind although nobody was seen on it.
CREATE TABLE set_aside (
    claim_id TEXT NOT NULL REFERENCES claim (id) ON DELETE CASCADE,
    port INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    until_boot_ms INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    PRIMARY KEY (claim_id, port)
) STRICT;

-- AUTOINCREMENT, so that a sequence number is never used twice and a cursor never means another event.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    origin TEXT CHECK (json_valid(origin)),
    request_id TEXT,
    occurred_at TEXT NOT NULL
) STRICT;
CREATE INDEX event_entity ON event (entity_type, entity_id, seq);
CREATE INDEX event_kind ON event (event_type, seq);

CREATE TABLE setting (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL CHECK (json_valid(value))
) STRICT;

CREATE TABLE receipt (
    id TEXT PRIMARY KEY NOT NULL,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    proposal TEXT NOT NULL,
    plan TEXT NOT NULL,
    observed TEXT NOT NULL,
    evidence_hash TEXT NOT NULL,
    idempotency_key TEXT,
    state TEXT NOT NULL CHECK (state IN ('previewed', 'executing', 'completed')),
    result TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    expires_boot_ms INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    executor TEXT,
    settled_at TEXT
) STRICT;
CREATE INDEX receipt_idempotency_key ON receipt (idempotency_key);
CREATE INDEX receipt_settled_at ON receipt (settled_at);
CREATE INDEX receipt_expires_boot_ms ON receipt (expires_boot_ms);

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;
