//! The daemon's parts in one place: what a handler can reach.

use crate::clock::{Clock, SystemClock};
use crate::fault;
use crate::leases;
use crate::log::Log;
use crate::pool::Pool;
use crate::receipts::InFlight;
use crate::router::Router;
use crate::rows;
use crate::settings;
use crate::store::{Store, StoreError, Tx};
use crate::watch::Watch;
use portreeve_diagnostics::Mode;
use portreeve_evidence::Source;
use portreeve_records::Id;
use portreeve_registry::{Failure, FailureClass};
use portreeve_settings::Settings;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::{Notify, watch};

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        fault::of_store(&error)
    }
}

/// The authority: one a user.
pub(crate) struct Daemon {
    /// Absent when it can't be served from.
    store: Option<Store>,
    /// Why the store can't be served from.
    broken: RwLock<Option<Failure>>,
    clock: SystemClock,
    evidence: Box<dyn Source>,
    pool: Pool,
    settings: RwLock<Arc<Settings>>,
    /// The receipts that are being executed.
    pub(crate) in_flight: InFlight,
    watch: Watch,
    pub(crate) log: Log,
    pub(crate) router: Router,
    pub(crate) mode: Mode,
    capabilities: Vec<&'static str>,
    /// Wakes the keeper of leases when the first one is pending.
    pub(crate) leases: Notify,
    /// Whether the keeper of leases sleeps until it is woken.
    pub(crate) idle: AtomicBool,
    /// The boot-clock time at which this process was last known to be awake while a lease was pending.
    pub(crate) awake: AtomicI64,
    gap: Mutex<()>,
    /// Turns true when the daemon is to stop.
    pub(crate) stop: watch::Sender<bool>,
}

impl Daemon {
    pub(crate) fn new(
        store: Result<Store, StoreError>,
        clock: SystemClock,
        evidence: Box<dyn Source>,
        log: Log,
        mode: Mode,
    ) -> Daemon {
        let (store, broken) = match store {
            Ok(store) => (Some(store), None),
            Err(error) => (None, Some(fault::of_store(&error))),
        };
        Daemon {
            store,
            broken: RwLock::new(broken),
            awake: AtomicI64::new(clock.boot_ms()),
            clock,
            evidence,
            pool: Pool::new(),
            settings: RwLock::new(Arc::new(Settings::default())),
            in_flight: InFlight::default(),
            watch: Watch::new(tokio::runtime::Handle::current()),
            log,
            router: Router::new(),
            mode,
            capabilities: crate::health::capabilities(),
            leases: Notify::new(),
            idle: AtomicBool::new(true),
            gap: Mutex::new(()),
            stop: watch::channel(false).0,
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    pub(crate) fn evidence(&self) -> &dyn Source {
        &*self.evidence
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn capabilities(&self) -> &[&'static str] {
        &self.capabilities
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these settings hold: what was set up by the former ones follows.
    pub(crate) fn put_in_force(&self, settings: Arc<Settings>) {
        self.log.bound(settings.diagnostic_log_maximum_bytes, settings.diagnostic_log_files);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Why the store can't be served from, if it can't.
    pub(crate) fn broken(&self) -> Option<Failure> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on only health and diagnostics are served.
    pub(crate) fn break_off(&self, failure: &Failure) {
        tracing::error!(%failure, "the store is out of order");
        *self.broken.write().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
    }

    fn store(&self) -> Result<&Store, Failure> {
        if let Some(failure) = self.broken() {
            return Err(failure);
        }
        self.store.as_ref().ok_or_else(|| fault::of_store(&StoreError::Closed))
    }

    /// Damage that a question comes upon ends the service of the store, so that nothing is built on it.
    fn noted<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &result
            && failure.class == FailureClass::StoreCorrupt
            && self.broken().is_none()
        {
            self.break_off(failure);
        }
        result
    }

    /// Reads one snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.noted(self.store()?.read(work))
    }

    /// Writes; returns once it is durable.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.noted(self.store()?.write(work).map_err(fault::of_write))
    }

    /// [`Daemon::write`] for tasks.
    pub(crate) async fn write_async<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let written = self.store()?.write_async(work).await;
        self.noted(written.map_err(fault::of_write))
    }

    /// Reads what is kept in memory, ends what ended while nobody looked, and takes up the watch.
    ///
    /// Blocks: not for a thread of the runtime.
    pub(crate) fn prepare(self: &Arc<Self>) -> Result<(), Failure> {
        if self.broken().is_some() {
            return Ok(());
        }
        let settings = self.read(settings::load)?;
        self.put_in_force(Arc::new(settings));
        // What ended while nobody ran is recorded before the first question. That it can't be (a full disk) is no
        // reason not to serve: whoever reads judges by the clock, and the keeper tries again.
        if let Err(failure) = leases::expire_due(self) {
            tracing::warn!(%failure, "what ended meanwhile could not be recorded");
        }
        let (assigned, pending) = self.read(|conn| {
            let assigned = "SELECT assigned_port FROM claim WHERE assigned_port IS NOT NULL";
            let pending = "SELECT port FROM lease WHERE state = 'pending'";
            let read = |sql| rows::all(conn, sql, (), |row| row.get::<_, u16>(0));
            Ok((read(assigned)?, read(pending)?))
        })?;
        assigned.into_iter().for_each(|port| self.pool.assign(port));
        pending.into_iter().for_each(|port| self.pool.hold(port));
        crate::watch::resume(self)
    }

    /// A lease was made, renewed or settled: its keeper must know when it slept because there was none.
    pub(crate) fn lease_changed(&self) {
        if self.idle.swap(false, Ordering::AcqRel) {
            self.awake.store(self.clock.boot_ms(), Ordering::Release);
            self.leases.notify_one();
        }
    }

    /// Watches a run that was just confirmed.
    pub(crate) fn watch_run(self: &Arc<Self>, id: Id) {
        match self.read(|conn| rows::find_run(conn, "id = ?1 AND state = 'confirmed'", [id.to_string()])) {
            Ok(Some(run)) => self.watch.run(self, &run),
            Ok(None) => {}
            Err(failure) => tracing::warn!(run = %id, %failure, "a run could not be watched"),
        }
    }

    /// Called before each request: if this process slept through more than a lease's time (suspend, SIGSTOP),
    /// every pending lease first gets one more lease time.
    pub(crate) fn after_a_gap(self: &Arc<Self>) {
        if self.idle.load(Ordering::Acquire) || !self.slept() {
            return;
        }
        let _one_at_a_time = self.gap.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.slept() {
            return;
        }
        if let Err(failure) = leases::extend_after_gap(self) {
            tracing::warn!(%failure, "leases could not be extended after a gap");
        }
        self.awake.store(self.clock.boot_ms(), Ordering::Release);
    }

    fn slept(&self) -> bool {
        let ttl = i64::try_from(self.settings().lease_ttl_milliseconds).unwrap_or(i64::MAX);
        self.clock.boot_ms() - self.awake.load(Ordering::Acquire) > ttl
    }
}
