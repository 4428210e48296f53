//! What the daemon and the bridge have to say beside their work: warnings, on stderr.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// From here on warnings and errors go to stderr; stdout stays as it is.
pub(crate) fn to_stderr() {
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    let installed = tracing_subscriber::registry().with(LevelFilter::WARN).with(lines).try_init();
    // There is one already in a test of this very function's caller only.
    installed.ok();
}
