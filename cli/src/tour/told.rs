//! The transcript: what was done, what was answered, and whether that was expected.

use crate::report;
use crate::text::{bold, safe};
use serde_json::{Value, json};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long anything is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How a tour ended.
#[derive(Debug)]
pub(super) enum Ended {
    WithTheStory,
    /// By Ctrl-C or another signal.
    Interrupted,
    /// By something other than was expected.
    Unexpected(String),
}

impl Ended {
    pub(super) fn unexpected(what: impl Display) -> Ended {
        Ended::Unexpected(what.to_string())
    }
}

#[derive(Debug)]
pub(super) struct Told {
    aloud: bool,
    stop: Arc<AtomicBool>,
    acts: Vec<Value>,
    lines: Vec<Value>,
}

impl Told {
    pub(super) fn new(aloud: bool, stop: Arc<AtomicBool>) -> Told {
        Told { aloud, stop, acts: Vec::new(), lines: Vec::new() }
    }

    /// Begins an act.
    pub(super) fn act(&mut self, title: &str) -> Result<(), Ended> {
        self.close();
        self.acts.push(json!({ "title": title }));
        let number = self.acts.len();
        self.print(&format!("\n{}", bold(&format!("{number}. {title}"))))
    }

    /// Tells something of the act.
    pub(super) fn say(&mut self, text: impl Display) -> Result<(), Ended> {
        let text = text.to_string();
        self.lines.push(text.as_str().into());
        for line in text.lines() {
            self.print(&format!("   {}", safe(line)))?;
        }
        Ok(())
    }

    fn print(&self, line: &str) -> Result<(), Ended> {
        self.check()?;
        if self.aloud {
            // Whoever listened has gone: nothing more needs to be told.
            report::out(line).map_err(|_| Ended::Interrupted)?;
        }
        Ok(())
    }

    /// Whether a signal has come.
    pub(super) fn check(&self) -> Result<(), Ended> {
        if self.stop.load(Ordering::SeqCst) { Err(Ended::Interrupted) } else { Ok(()) }
    }

    /// Looks until `found` has something, for at most [`PATIENCE`].
    pub(super) fn wait<T>(
        &self,
        what: &str,
        mut found: impl FnMut() -> Result<Option<T>, Ended>,
    ) -> Result<T, Ended> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.check()?;
            if let Some(found) = found()? {
                return Ok(found);
            }
            std::thread::sleep(LOOK);
        }
        Err(Ended::Unexpected(format!("{what}: not within {} seconds", PATIENCE.as_secs())))
    }

    fn close(&mut self) {
        if let Some(act) = self.acts.last_mut() {
            act["lines"] = std::mem::take(&mut self.lines).into();
        }
    }

    /// The whole transcript.
    pub(super) fn data(mut self, ended: &Ended) -> Value {
        self.close();
        let (word, unexpected) = match ended {
            Ended::WithTheStory => ("as-expected", None),
            Ended::Interrupted => ("interrupted", None),
            Ended::Unexpected(what) => ("unexpected", Some(what)),
        };
        json!({"acts": self.acts, "ended": word, "unexpected": unexpected})
    }
}

/// Ends the tour unless `found` is what was `expected`.
pub(super) fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), Ended> {
    if found == expected {
        Ok(())
    } else {
        Err(Ended::Unexpected(format!("{what}: expected {expected:?}, found {found:?}")))
    }
}
