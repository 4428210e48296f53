//! The slice of handlers: every operation that the daemon serves, registered beside its code.
//!
//! A handler is a plain function from a request to a reply, run on a thread that may block.
//! What it can reach is the [`Daemon`]; who asks is its [`Caller`].

use crate::Daemon;
use portreeve_records::{Origin, Pid};
use portreeve_registry::{
    Args, Cut, Failure, FailureClass, ListRequest, Listing, Method, Operation, PageOf, RequestId, Wire as _,
};
use serde_json::Value;
use std::sync::Arc;

/// Every handler that is linked in.
#[linkme::distributed_slice]
pub static HANDLERS: [Handler];

/// One operation, served.
#[derive(Debug)]
pub struct Handler {
    /// How it is asked.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// What the daemon must be able to do.
    pub capability: &'static str,
    /// Whether it may block, and so gets a thread; the others answer from memory.
    pub blocks: bool,
    pub(crate) run: fn(&Asked<'_>, Args) -> Result<Value, Failure>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The call's id.
    pub(crate) request_id: RequestId,
    /// Who asks by their own account, for history.
    pub(crate) origin: Option<Origin>,
    /// The process at the other end of the socket, where the system tells.
    pub(crate) pid: Option<Pid>,
}

/// One call: the daemon, and who asks.
pub(crate) struct Asked<'a> {
    pub(crate) daemon: &'a Arc<Daemon>,
    pub(crate) caller: Caller,
}

/// Serves an operation with a function from its request to its reply.
pub(crate) fn answer<O: Operation>(
    asked: &Asked<'_>,
    args: Args,
    serve: fn(&Asked<'_>, O::Request) -> Result<O::Reply, Failure>,
) -> Result<Value, Failure> {
    let request =
        O::Request::decode(args).map_err(|issue| issue.failure(FailureClass::DaemonInvalidInput))?;
    written(&serve(asked, request)?)
}

/// Serves a listing with a function from its filter and cut to one page.
pub(crate) fn answer_list<L: Listing>(
    asked: &Asked<'_>,
    args: Args,
    serve: impl FnOnce(&Asked<'_>, &L::Filter, &Cut<L::Key>) -> Result<PageOf<L::Row>, Failure>,
) -> Result<Value, Failure> {
    let request = ListRequest::<L>::decode(args).map_err(|i| i.failure(FailureClass::DaemonInvalidInput))?;
    let cut = request.cut()?;
    let page = serve(asked, &request.filter, &cut)?;
    if request.paged() { written(&page) } else { written(page.items()) }
}

pub(crate) fn written<T: serde::Serialize + ?Sized>(reply: &T) -> Result<Value, Failure> {
    serde_json::to_value(reply)
        .map_err(|e| Failure::new(FailureClass::DaemonInternal, format!("the reply can't be written: {e}")))
}

/// Registers a handler: `serve!(GetPort => get)`, `serve!(list ListPorts => list)`, or with `inline` before the
/// operation for one that answers from memory.
macro_rules! serve {
    (@entry $operation:ty, $blocks:literal, $run:expr) => {
        const _: () = {
            #[expect(unsafe_code, reason = "linkme places the entry in the slice's linker section")]
            #[linkme::distributed_slice($crate::handler::HANDLERS)]
            static HANDLER: $crate::handler::Handler = $crate::handler::Handler {
                method: <$operation as portreeve_registry::Operation>::METHOD,
                path: <$operation as portreeve_registry::Operation>::PATH,
                capability: <$operation as portreeve_registry::Operation>::CAPABILITY,
                blocks: $blocks,
                run: $run,
            };
        };
    };
    (list $listing:ty => $serve:path) => {
        $crate::handler::serve!(@entry portreeve_registry::List<$listing>, true,
            |asked, args| $crate::handler::answer_list::<$listing>(asked, args, $serve));
    };
    (inline $operation:ty => $serve:path) => {
        $crate::handler::serve!(@entry $operation, false,
            |asked, args| $crate::handler::answer::<$operation>(asked, args, $serve));
    };
    ($operation:ty => $serve:path) => {
        $crate::handler::serve!(@entry $operation, true,
            |asked, args| $crate::handler::answer::<$operation>(asked, args, $serve));
    };
}
pub(crate) use serve;
