//! What can't be taken back: its preview is shown, then somebody is asked, and only then it is done.
//!
//! `--dry-run` stops after the preview, `--yes` is consent beforehand. `--json` is none.

use crate::exit::Exit;
use crate::report::{Report, err, fault, invalid};
use crate::session::Session;
use crate::text::safe_lines;
use portreeve_registry::{Action, Execute, ExecuteRequest, Executed, Failure, Preview, Receipt};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// How consent is given.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Consent {
    /// Show what would happen, and stop there
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do it without being asked
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What somebody was shown, and decided.
pub(crate) enum Decision {
    /// Do it.
    Go,
    /// Don't, and this is all there is to say.
    Stop(Report),
}

impl Consent {
    /// Shows `text` and asks whether to go on, unless that was said beforehand.
    pub(crate) fn ask(self, json: bool, preview: &impl Serialize, text: &str) -> Result<Decision, Failure> {
        if self.dry_run {
            return Ok(Decision::Stop(Report::done(preview, safe_lines(text))));
        }
        if self.yes {
            return Ok(Decision::Go);
        }
        if json || !std::io::stdin().is_terminal() {
            return Err(invalid("this can't be taken back, and nobody is there to be asked")
                .next("look with --dry-run, then add --yes"));
        }
        let question = format!("{}\nDo it? [y/N] ", safe_lines(text));
        let mut answer = String::new();
        let mut stderr = std::io::stderr().lock();
        write!(stderr, "{question}")
            .and_then(|()| stderr.flush())
            .and_then(|()| std::io::stdin().lock().read_line(&mut answer))
            .map_err(|error| fault(format!("there was no answer: {error}")))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(Decision::Go);
        }
        Ok(Decision::Stop(Report::done(&json!({"changed": false}), "Nothing was done.").unless(false)))
    }
}

/// What a preview comes to.
pub(crate) struct Shown {
    /// For people: what is and what would be.
    pub(crate) text: String,
    /// How the command ends if there is nothing to be asked, because nothing would be done.
    pub(crate) over: Option<Exit>,
}

/// Previews an action, asks, and executes what the receipt stands for.
pub(crate) async fn change<A: Action>(
    session: &Session,
    consent: Consent,
    json: bool,
    (request, target): (A::Request, A::Target),
    show: impl Fn(&Receipt<A::Proposal, A::Observed>) -> Shown,
    tell: impl Fn(&Executed<A::Result>) -> (String, Exit),
) -> Result<Report, Failure> {
    let receipt = session.call::<Preview<A>>(&request).await?;
    let shown = show(&receipt);
    if let Some(exit) = shown.over {
        return Ok(Report { exit, ..Report::done(&receipt, safe_lines(&shown.text)) });
    }
    if let Decision::Stop(report) = consent.ask(json, &receipt, &shown.text)? {
        return Ok(report);
    }
    let request = ExecuteRequest { receipt_id: receipt.receipt_id, target };
    let done = loop {
        match session.call::<Execute<A>>(&request).await {
            // It goes on: asked again, it waits for the result and does nothing twice.
            Err(failure) if failure.details.get("receiptCode") == Some(&Value::from("executing")) => {
                err("still executing …").unwrap_or(());
            }
            done => break done?,
        }
    };
    let (text, exit) = tell(&done);
    Ok(Report { exit, ..Report::done(&done, safe_lines(&text)) })
}

/// A line that goes and a line that comes.
pub(crate) fn diff(before: impl std::fmt::Display, after: impl std::fmt::Display) -> String {
    format!("- {before}\n+ {after}")
}
