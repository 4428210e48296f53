//! What a kind demands of a call beyond its input type.

use portreeve_registry::{Advertised, Failure, FailureClass, KindName};
use serde_json::Value;

use crate::server::Call;

const RECEIPT: &str = "receiptId";

/// Step 3: no execute without the receipt of a preview.
///
/// That an execute takes nothing but the receipt and its target, and a page no more than its bounds, is the input
/// type's doing.
pub(crate) fn check(tool: &Advertised, call: &Call) -> Result<(), Failure> {
    if tool.kind() != KindName::Change || tool.face().suffix != "_execute" {
        return Ok(());
    }
    match call.arguments.get(RECEIPT) {
        Some(Value::String(receipt)) => {
            call.progress.mark_receipt(receipt);
            Ok(())
        }
        Some(_) => Ok(()),
        None => {
            let preview = tool.name().replace("_execute", "_preview");
            let text = format!("{} needs the receiptId that {preview} answers", tool.name());
            Err(Failure::new(FailureClass::PolicyPreviewRequired, text)
                .next("preview first, then execute with its receiptId")
                .by(Some(&preview), None))
        }
    }
}

/// What an execute's failure says beyond others: its receipt, with which the outcome can always be asked for.
pub(crate) fn of_execute(failure: Failure, call: &Call) -> Failure {
    let Some(receipt) = call.progress.receipt() else { return failure };
    let failure = failure.detail(RECEIPT, receipt);
    match failure.class {
        FailureClass::SocketDeadline if failure.outcome == portreeve_registry::Outcome::Unknown => {
            let text = format!("still executing: {}", failure.message);
            Failure { message: text, ..failure }.next(format!(
                "call {} again with the same receiptId {receipt}: it answers the recorded result and does \
                 nothing twice",
                call.tool
            ))
        }
        _ => failure,
    }
}
