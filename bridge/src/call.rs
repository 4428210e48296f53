//! One call, through the house. Reads from top to bottom:
//!
//! 1. a request id was made when the call was accepted, and the host's trace adopted ([`crate::server::Call`]);
//! 2. the tool is looked up, its arguments go into its input type, unknown fields and wrong lengths are refused;
//! 3. the kind's policy: page bounds, receipt-only execute, explicit target;
//! 4. handles become credentials;
//! 5. the daemon is asked, over a connection whose compatibility was checked, under the call's own deadline;
//! 6. credentials in the reply go into custody, handles come out;
//! 7. the reply becomes structured content with its summary, bounded in size.
//!
//! Steps 2, 3 and 6 are the registry's functions, chosen by the tool's kind. A failure at any step is one typed
//! failure; who called this records it once and answers it once.

use portreeve_client::Ask;
use portreeve_registry::{Answer, Args, Behavior, DEFAULT_LIMIT, Failure, FailureClass, Hints};
use serde_json::Value;

use crate::custody::Borrowed;
use crate::house::Bridge;
use crate::server::Call;
use crate::size::{DEFAULT_PAGE, LARGEST_PAGE, bounded, rows_that_fit};
use crate::{bounds, local, policy};

/// A page that changes while it is fitted is fitted again, so often at most.
const MOST_FITTINGS: usize = 4;

/// Answers one call.
pub(crate) async fn answer(bridge: &Bridge, call: &Call) -> Result<Answer, Failure> {
    let tool = bridge.tools.find(&call.tool).ok_or_else(|| unknown_tool(&call.tool))?;
    policy::check(tool, call)?;
    bounds::check(tool.input_schema(), &call.arguments)?;
    let args = Args::of_tool(call.arguments.clone());
    let Hints { read_only, .. } = tool.hints();
    let answered = match tool.face().behavior {
        Behavior::Ask { prepare, finish } => {
            let request = prepare(args)?;
            let reply = ask(bridge, call, &request).await;
            finish(reply.map_err(|failure| policy::of_execute(failure, call))?)?
        }
        Behavior::List { prepare, finish } => {
            let mut args = args;
            let (mut request, limited) = prepare(args.clone(), DEFAULT_LIMIT)?;
            let budget = if limited { LARGEST_PAGE } else { DEFAULT_PAGE };
            let mut fittings = 0;
            loop {
                let listed = finish(ask(bridge, call, &request).await?)?;
                fittings += 1;
                match rows_that_fit(&listed.sizes, budget) {
                    Some(rows) if fittings < MOST_FITTINGS => {
                        args.fields.insert("limit".into(), rows.into());
                        (request, _) = prepare(args.clone(), rows)?;
                    }
                    _ => break listed.answer,
                }
            }
        }
        Behavior::Grant { purpose, prepare, finish } => {
            let purpose = purpose(&args)?;
            let secret = bridge.custody.secret_for(&purpose)?;
            let request = prepare(args.clone(), secret)?;
            match ask(bridge, call, &request).await {
                Err(failure) => {
                    bridge.custody.not_granted(&purpose, &failure);
                    // What stands in the way may be this bridge's own, asked for by another name before.
                    let Some(own) = bridge.custody.in_the_way(&failure) else { return Err(failure) };
                    let reply = ask(bridge, call, &prepare(args, own)?).await?;
                    finish(reply.clone(), &mut bridge.custody.receiving(&reply))?
                }
                Ok(reply) => {
                    let mut receiving = bridge.custody.receiving(&reply);
                    let answer = finish(reply, &mut receiving)?;
                    receiving.granted(&purpose);
                    answer
                }
            }
        }
        Behavior::Spend { handle, prepare, finish, settles } => {
            let handle = handle(&args)?;
            match bridge.custody.lend(&handle, tool.domain(), tool.name(), &call.arguments).await? {
                Borrowed::Settled(answer) => answer,
                Borrowed::Loan(held, mut loan) => {
                    let group = held.group.clone();
                    let request = match prepare(args, *held) {
                        Ok(request) => request,
                        Err(failure) => return Err(loan.failed(failure)),
                    };
                    loan.sent();
                    let spent = match ask(bridge, call, &request).await.and_then(finish) {
                        Ok(spent) => spent,
                        Err(failure) => return Err(loan.failed(failure)),
                    };
                    loan.succeeded(group.as_deref(), spent, settles)
                }
            }
        }
        Behavior::Local { .. } => local::answer(bridge, tool, args).await?,
    };
    bounded(answered, read_only)
}

/// Step 5.
async fn ask(bridge: &Bridge, call: &Call, request: &portreeve_registry::Call) -> Result<Value, Failure> {
    let ask = Ask {
        request_id: call.request_id,
        tool: Some(call.tool.clone()),
        traceparent: call.traceparent.clone(),
        deadline: None,
    };
    let client = bridge.daemon.calls()?;
    call.progress.mark_sent();
    client.ask(request, ask).await
}

/// The failure for a name that isn't advertised.
pub(crate) fn unknown_tool(name: &str) -> Failure {
    let shown: String = name.chars().take(80).collect();
    Failure::new(FailureClass::BridgeUnknownTool, format!("there is no tool {shown:?}"))
}
