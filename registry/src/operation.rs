//! Operations: the questions that the daemon answers, declared once and used by three rooms.
//!
//! The daemon implements an operation, the client calls it, a tool shows it.
//! Method, path, capability, class, request and reply are all that there is to one; who asks (`client` in
//! protocol 1's bodies) belongs to the transport.

use crate::decode::{Args, Issue, Wire, to_object};
use crate::name::{ends_with, equal};
use crate::{Class, ClassName, Consequential, ListRequest, PageOf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::marker::PhantomData;

/// How an operation is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The request's fields are query parameters.
    Get,
    /// The request's fields are a JSON body.
    Post,
}

impl Method {
    /// The method's name in HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// A question that the daemon answers.
pub trait Operation: 'static {
    /// How it is asked.
    const METHOD: Method;
    /// Where: `{name}` stands for a field of the request, which then is in the path alone.
    const PATH: &'static str;
    /// What the daemon must be able to do.
    const CAPABILITY: &'static str;
    /// How much care it needs.
    type Class: Class;
    /// What is asked.
    type Request: Wire;
    /// What is answered.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

/// A list that the daemon answers, whole or a page at a time.
pub trait Listing: Sized + 'static {
    /// Where, as [`Operation::PATH`].
    const PATH: &'static str;
    /// What the daemon must be able to do.
    const CAPABILITY: &'static str;
    /// Whether the reply has page form even when no cursor was sent.
    const ALWAYS_PAGED: bool = false;
    /// Whether the plain form takes a limit too.
    const PLAIN_LIMIT: bool = false;
    /// The largest limit that the plain form takes.
    const PLAIN_MAXIMUM: usize = crate::MAXIMUM_LIMIT;
    /// How much care it needs: a collection accepts a routine one only.
    type Class: Class;
    /// Which rows.
    type Filter: Serialize + DeserializeOwned + Send + 'static;
    /// One row.
    type Row: Serialize + DeserializeOwned + Send + 'static;
    /// What the list is ordered by: unique and stable. The cursor is made of it.
    type Key: Serialize + DeserializeOwned;

    /// The part of the filter that a cursor is bound to: all of it, unless the list says otherwise.
    fn bound_filter(filter: &Self::Filter) -> Value {
        serde_json::to_value(filter).unwrap_or(Value::Null)
    }
}

/// A [`Listing`] as the operation that it is.
pub struct List<L>(PhantomData<L>);

impl<L: Listing> Operation for List<L> {
    const METHOD: Method = Method::Get;
    const PATH: &'static str = L::PATH;
    const CAPABILITY: &'static str = L::CAPABILITY;
    type Class = L::Class;
    type Request = ListRequest<L>;
    type Reply = PageOf<L::Row>;
}

/// A consequential act that goes through preview and execute.
///
/// Protocol 1 calls these "receipt-bound pairs". Declaring one makes both operations, and nothing else does.
pub trait Action: Sized + 'static {
    /// The name that receipts carry: `port.reclaim`.
    const ACTION: &'static str;
    /// The type of the target: `port`, `claim`, `settings`.
    const TARGET: &'static str;
    /// The path of the preview; ends in `/preview`.
    const PREVIEW_PATH: &'static str;
    /// The path of the execute; the same, ending in `/execute`.
    const EXECUTE_PATH: &'static str;
    /// What the daemon must be able to do.
    const CAPABILITY: &'static str;
    /// What execute names beside the receipt: [`NoTarget`] where the target is the whole collection.
    type Target: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// What preview takes, the target among it.
    type Request: Wire;
    /// What is proposed, as the receipt records it.
    type Proposal: Serialize + DeserializeOwned + Send + 'static;
    /// What the daemon saw.
    type Observed: Serialize + DeserializeOwned + Send + 'static;
    /// What came of it.
    type Result: Serialize + DeserializeOwned + Send + 'static;
}

/// The target of an action on a whole collection.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NoTarget {}

/// Previews an action: answers a [`Receipt`] and changes nothing else.
pub struct Preview<A>(PhantomData<A>);
/// Executes what a receipt proves was previewed.
pub struct Execute<A>(PhantomData<A>);

impl<A: Action> Operation for Preview<A> {
    const METHOD: Method = Method::Post;
    const PATH: &'static str = A::PREVIEW_PATH;
    const CAPABILITY: &'static str = A::CAPABILITY;
    type Class = Consequential;
    type Request = A::Request;
    type Reply = Receipt<A::Proposal, A::Observed>;
}

impl<A: Action> Operation for Execute<A> {
    const METHOD: Method = Method::Post;
    const PATH: &'static str = A::EXECUTE_PATH;
    const CAPABILITY: &'static str = A::CAPABILITY;
    type Class = Consequential;
    type Request = ExecuteRequest<A::Target>;
    type Reply = Executed<A::Result>;
}

/// What a preview answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt<P, O> {
    /// The receipt to execute with.
    pub receipt_id: String,
    /// The action it is good for.
    pub action: String,
    /// The target it is good for.
    pub target: TargetRef,
    /// What is proposed.
    pub proposal: P,
    /// What the daemon saw.
    pub observed: O,
    /// Until when, UTC.
    pub expires_at: String,
}

/// What a receipt is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetRef {
    /// `port`, `claim`, `claim-collection`, `stack-root`, `stack-collection` or `settings`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The target's id, or `global`.
    pub id: String,
}

/// The only thing an execute takes: a receipt, and its target once more.
#[derive(Clone, Debug)]
pub struct ExecuteRequest<T> {
    /// The receipt that the preview answered.
    pub receipt_id: String,
    /// The target, named again.
    pub target: T,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Wire for ExecuteRequest<T> {
    fn encode(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut fields = to_object(&self.target)?;
        fields.insert("receiptId".into(), self.receipt_id.as_str().into());
        Ok(fields)
    }

    fn decode(mut args: Args) -> Result<Self, Issue> {
        let receipt_id = args.take("receiptId")?.ok_or_else(|| Issue {
            code: "invalid_type",
            message: "required, but missing: the receiptId that the preview answered".into(),
            path: vec!["receiptId".into()],
        })?;
        Ok(ExecuteRequest { receipt_id, target: Wire::decode(args)? })
    }
}

/// What an execute answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Executed<R> {
    /// Whether this call did it; a replay didn't.
    pub changed: bool,
    /// Whether the recorded result of an earlier execution was given.
    pub replayed: bool,
    /// What came of it.
    pub result: R,
}

/// One request, ready for the socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// How.
    pub method: Method,
    /// Where, with its query, percent-encoded.
    pub target: String,
    /// The body's fields; a GET has none.
    pub body: Option<Map<String, Value>>,
    /// What the daemon must be able to do.
    pub capability: &'static str,
}

impl Call {
    /// Puts a request of operation `O` into the form in which it crosses the socket.
    ///
    /// # Errors
    /// If the request isn't a JSON object or lacks a field that the path names.
    pub fn of<O: Operation>(request: &O::Request) -> Result<Call, serde_json::Error> {
        let mut fields = request.encode()?;
        let mut target = String::with_capacity(O::PATH.len() + 40);
        for (i, part) in O::PATH.split(['{', '}']).enumerate() {
            if i % 2 == 0 {
                target.push_str(part);
            } else {
                let value = fields.remove(part).filter(|v| !v.is_null()).map(plain).filter(|v| !v.is_empty());
                let value = value.ok_or_else(|| {
                    serde::ser::Error::custom(format_args!(
                        "the request has no {part}, which {} names",
                        O::PATH
                    ))
                })?;
                encode_into(&mut target, &value);
            }
        }
        let body = match O::METHOD {
            Method::Post => Some(fields),
            Method::Get => {
                let mut separator = '?';
                for (name, value) in fields {
                    if value.is_null() {
                        continue;
                    }
                    target.push(separator);
                    separator = '&';
                    encode_into(&mut target, &name);
                    target.push('=');
                    encode_into(&mut target, &plain(value));
                }
                None
            }
        };
        Ok(Call { method: O::METHOD, target, body, capability: O::CAPABILITY })
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Percent-encodes all but RFC 3986's unreserved characters.
fn encode_into(out: &mut String, text: &str) {
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// One declared operation, its types erased: what the harness compares with what is served.
#[derive(Debug)]
pub struct OperationEntry {
    /// The domain that declares it.
    pub domain: &'static str,
    /// How it is asked.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// What the daemon must be able to do.
    pub capability: &'static str,
    /// How much care it needs.
    pub class: ClassName,
    /// Why it stays out of an agent's reach, for a withheld one.
    pub withheld: Option<&'static str>,
}
inventory::collect!(OperationEntry);

const PREVIEW: &[u8] = b"/preview";
const EXECUTE: &[u8] = b"/execute";

/// Whether the paths are one, with `/preview` and `/execute` at its end.
const fn paired(preview: &[u8], execute: &[u8]) -> bool {
    if !ends_with(preview, PREVIEW) || !ends_with(execute, EXECUTE) {
        return false;
    }
    let (of_preview, _) = preview.split_at(preview.len() - PREVIEW.len());
    let (of_execute, _) = execute.split_at(execute.len() - EXECUTE.len());
    equal(of_preview, of_execute)
}

impl OperationEntry {
    /// Checks that an action's paths are a pair, and gives its two operations.
    #[doc(hidden)]
    pub const fn __pair<A: Action>(domain: &'static str) -> [OperationEntry; 2] {
        assert!(
            paired(A::PREVIEW_PATH.as_bytes(), A::EXECUTE_PATH.as_bytes()),
            "an action's paths are one, with /preview and /execute at its end"
        );
        [OperationEntry::__of::<Preview<A>>(domain, None), OperationEntry::__of::<Execute<A>>(domain, None)]
    }

    #[doc(hidden)]
    pub const fn __of<O: Operation>(domain: &'static str, withheld: Option<&'static str>) -> OperationEntry {
        let class = <O::Class as Class>::NAME;
        assert!(
            matches!(class, ClassName::Withheld) == withheld.is_some(),
            "a withheld operation says why, and no other does"
        );
        assert!(
            matches!(class, ClassName::Consequential)
                || !ends_with(O::PATH.as_bytes(), PREVIEW) && !ends_with(O::PATH.as_bytes(), EXECUTE),
            "a path that ends in /preview or /execute is an action's"
        );
        OperationEntry {
            domain,
            method: O::METHOD,
            path: O::PATH,
            capability: O::CAPABILITY,
            class,
            withheld,
        }
    }
}

/// Every operation that is linked in, by path and method.
pub fn operations() -> Vec<&'static OperationEntry> {
    let mut all: Vec<_> = inventory::iter::<OperationEntry>.into_iter().collect();
    all.sort_by_key(|o| (o.path, o.method));
    all
}

/// Declares an operation, a listing or an action, and enters it into the list of operations.
///
/// ```text
/// operation! { /// doc
///   pub GetPort: Routine = GET "/v1/ports/{port}" needs "listener-evidence-v1", PortRef => InventoryEntry }
/// operation! { /// doc
///   pub StopServer: Withheld = POST "/v1/server/stop" needs "lifecycle-control-v1", Nothing => Stopped,
///   because "ending the daemon is the user's own decision" }
/// operation! { list ListClaims }     // beside its `impl Listing`
/// operation! { action ReclaimPort }  // beside its `impl Action`
/// ```
#[macro_export]
#[expect(clippy::crate_in_macro_def, reason = "crate::DOMAIN is the declaring crate's own")]
macro_rules! operation {
    ($(#[$doc:meta])* $vis:vis $name:ident: $class:ident = $method:ident $path:literal needs $capability:literal,
     $request:ty => $reply:ty $(, because $reason:literal)? $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis enum $name {}
        impl $crate::Operation for $name {
            const METHOD: $crate::Method = $crate::operation!(@method $method);
            const PATH: &'static str = $path;
            const CAPABILITY: &'static str = $capability;
            type Class = $crate::$class;
            type Request = $request;
            type Reply = $reply;
        }
        $crate::__inventory::submit! {
            $crate::OperationEntry::__of::<$name>(crate::DOMAIN.name(), $crate::operation!(@reason $($reason)?))
        }
    };
    (list $name:ident $(, because $reason:literal)? $(,)?) => {
        $crate::__inventory::submit! {
            $crate::OperationEntry::__of::<$crate::List<$name>>(
                crate::DOMAIN.name(),
                $crate::operation!(@reason $($reason)?),
            )
        }
    };
    (action $name:ident) => {
        $crate::__inventory::submit! {{
            let [preview, _] = $crate::OperationEntry::__pair::<$name>(crate::DOMAIN.name());
            preview
        }}
        $crate::__inventory::submit! {{
            let [_, execute] = $crate::OperationEntry::__pair::<$name>(crate::DOMAIN.name());
            execute
        }}
    };
    (@method GET) => { $crate::Method::Get };
    (@method POST) => { $crate::Method::Post };
    (@reason) => { None };
    (@reason $reason:literal) => { Some($reason) };
}
