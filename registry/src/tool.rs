//! One registered tool with its types erased: what the bridge enumerates, advertises and runs.

use crate::Manner;
use crate::decode::{Args, Issue, Wire, decode, to_object};
use crate::kinds::{
    Change, Collection, Described, Effect, Grant, Local, Mutation, NamesHandle as _, Nature, Read, Spend,
};
use crate::page::page_of;
use crate::schema::{self, Envelope};
use crate::{
    Action, Answer, Call, CredentialHandle, Custody, Domain, Example, Execute, ExecuteRequest, Executed,
    Failure, FailureClass, Held, List, ListRequest, Listed, Name, Operation, Page, Preview, Secret, Spent,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The seven kinds, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindName {
    /// See [`Read`].
    Read,
    /// See [`Collection`].
    Collection,
    /// See [`Mutation`].
    Mutation,
    /// See [`Change`].
    Change,
    /// See [`Grant`].
    Grant,
    /// See [`Spend`].
    Spend,
    /// See [`Local`].
    Local,
}

impl KindName {
    /// The kind in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            KindName::Read => "read",
            KindName::Collection => "collection",
            KindName::Mutation => "mutation",
            KindName::Change => "change",
            KindName::Grant => "grant",
            KindName::Spend => "spend",
            KindName::Local => "local",
        }
    }
}

/// What a host may assume of a tool. They follow from the kind; nobody writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// What it ends or deletes may not come back.
    pub destructive: bool,
    /// Repeating it changes nothing more.
    pub idempotent: bool,
}

const READ: Hints = Hints { read_only: true, destructive: false, idempotent: true };
const STEP: Hints = Hints { read_only: false, destructive: false, idempotent: true };

/// One registered tool. A [`Change`] has two faces, every other kind one.
#[derive(Debug)]
pub struct Tool {
    pub(crate) name: Name,
    pub(crate) domain: Domain,
    pub(crate) about: &'static [&'static str],
    pub(crate) kind: KindName,
    pub(crate) faces: [Option<Face>; 2],
}
inventory::collect!(Tool);

/// One advertised face of a tool.
#[derive(Debug)]
pub struct Face {
    /// What the face's name adds to the tool's: nothing, `_preview` or `_execute`.
    pub suffix: &'static str,
    /// What a host may assume.
    pub hints: Hints,
    /// The operation behind it, as method and path; a local tool has none.
    pub operation: Option<(crate::Method, &'static str)>,
    pub(crate) input: fn() -> Map<String, Value>,
    pub(crate) output: fn() -> Map<String, Value>,
    pub(crate) example: fn() -> Map<String, Value>,
    pub(crate) shadowed: fn() -> Vec<String>,
    /// How it is run.
    pub behavior: Behavior,
}

/// How a tool is run, by the policy of its kind.
#[derive(Clone, Copy, Debug)]
pub enum Behavior {
    /// Ask, and show the reply.
    Ask {
        /// Makes the request.
        prepare: fn(Args) -> Result<Call, Failure>,
        /// Shows the reply's data.
        finish: fn(Value) -> Result<Answer, Failure>,
    },
    /// Ask for one page.
    List {
        /// Makes the request; the bridge says how many rows when the caller didn't.
        prepare: fn(Args, usize) -> Result<(Call, bool), Failure>,
        /// Shows the page.
        finish: fn(Value) -> Result<Listed, Failure>,
    },
    /// Ask with a secret that this bridge brings, and take the reply's credentials into custody.
    Grant {
        /// What the grant is for; equal arguments have equal purposes.
        purpose: fn(&Args) -> Result<String, Failure>,
        /// Makes the request.
        prepare: fn(Args, Secret) -> Result<Call, Failure>,
        /// Takes the credentials and shows the rest.
        finish: fn(Value, &mut dyn Custody) -> Result<Answer, Failure>,
    },
    /// Ask with a credential from custody.
    Spend {
        /// Which one.
        handle: fn(&Args) -> Result<CredentialHandle, Failure>,
        /// Makes the request.
        prepare: fn(Args, Held) -> Result<Call, Failure>,
        /// Shows the reply's data.
        finish: fn(Value) -> Result<Spent, Failure>,
        /// Whether success settles the credential.
        settles: bool,
    },
    /// The bridge answers itself.
    Local {
        /// What it is like.
        nature: Nature,
        /// Reads the input, for whoever wants to know whether it would be taken; the bridge's answer to the
        /// tool reads it by [`local_input`].
        read: fn(Args) -> Result<(), Failure>,
    },
}

fn refused(issue: Issue) -> Failure {
    issue.failure(FailureClass::BridgeInvalidArguments)
}

/// Reads an input, and keeps the bounds that its schema states.
fn input<T: DeserializeOwned + JsonSchema + 'static>(args: Args) -> Result<T, Failure> {
    let value = Value::Object(args.fields);
    let input = decode(value.clone(), args.manner).map_err(refused)?;
    schema::check::<T>(&value).map_err(refused)?;
    Ok(input)
}

fn reply<T: DeserializeOwned>(data: Value) -> Result<T, Failure> {
    decode(data, Manner::default()).map_err(|issue| {
        Failure::new(FailureClass::SocketReplyMalformed, format!("the daemon's reply can't be read: {issue}"))
    })
}

fn call<O: Operation>(request: &O::Request) -> Result<Call, Failure> {
    Call::of::<O>(request).map_err(|e| Failure::new(FailureClass::BridgeInvalidArguments, e.to_string()))
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(FailureClass::BridgeHandlerPanicked, format!("can't be written as JSON: {error}"))
}

fn answer<T: Serialize + JsonSchema + 'static>(
    summary: String,
    output: &T,
    extra: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<Answer, Failure> {
    let mut content = to_object(output).map_err(unwritable)?;
    schema::drop_nulls::<T>(&mut content);
    content.extend(extra.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(Answer::new(summary, content))
}

fn example<T: Serialize>(example: Example<T>) -> Map<String, Value> {
    to_object(&example.0)
        .map(schema::without_nulls)
        .expect("an input is an object; the harness asks for each")
}

const fn face<O: Operation>(suffix: &'static str, hints: Hints, behavior: Behavior) -> Face {
    Face {
        suffix,
        hints,
        operation: Some((O::METHOD, O::PATH)),
        input: Map::new,
        output: Map::new,
        example: Map::new,
        shadowed: Vec::new,
        behavior,
    }
}

/// How each kind becomes an entry; called by [`crate::tool!`] alone.
pub mod advertise {
    use super::*;

    const fn tool<T: Described>(kind: KindName, first: Face, second: Option<Face>) -> Tool {
        Tool { name: T::NAME, domain: T::DOMAIN, about: T::ABOUT, kind, faces: [Some(first), second] }
    }

    /// A [`Read`].
    pub const fn read<T: Read>() -> Tool {
        let behavior = Behavior::Ask {
            prepare: |args| call::<T::Operation>(&T::request(input(args)?)),
            finish: |data| {
                let output = T::output(reply(data)?);
                answer(T::summary(&output), &output, [])
            },
        };
        let face = Face {
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Output>(Envelope::Plain),
            shadowed: || schema::shadowed::<T::Input, T::Output>(Envelope::Plain),
            example: || example(T::example()),
            ..face::<T::Operation>("", READ, behavior)
        };
        tool::<T>(KindName::Read, face, None)
    }

    /// A [`Collection`].
    pub const fn collection<T: Collection>() -> Tool {
        let behavior = Behavior::List {
            prepare: |mut args, rows| {
                // Null is how some hosts leave a field out. Without a cursor the reply would be a plain list.
                args.fields.retain(|name, value| name != "afterCursor" || !value.is_null());
                args.fields.entry("afterCursor").or_insert_with(|| "".into());
                let (limit, after_cursor) = page_of::<T::Listing>(&mut args).map_err(refused)?;
                let request = ListRequest::<T::Listing> {
                    filter: T::filter(input(args)?),
                    limit: Some(limit.unwrap_or(rows)),
                    after_cursor,
                };
                Ok((call::<List<T::Listing>>(&request)?, limit.is_some()))
            },
            finish: |data| {
                let page = Page::map(reply(data)?, T::item);
                let summary = T::summary(&page);
                let mut items = Vec::with_capacity(page.items.len());
                let mut sizes = Vec::with_capacity(page.items.len());
                for item in &page.items {
                    let mut fields = to_object(item).map_err(unwritable)?;
                    schema::drop_nulls::<T::Item>(&mut fields);
                    let item = Value::Object(fields);
                    sizes.push(item.to_string().len());
                    items.push(item);
                }
                let mut content = Map::new();
                content.insert("items".into(), items.into());
                content.insert("hasMore".into(), page.has_more().into());
                if let Some(cursor) = page.info.next_cursor {
                    content.insert("nextCursor".into(), cursor.into());
                }
                if T::POLLED {
                    if let Some(cursor) = page.info.poll_cursor {
                        content.insert("pollCursor".into(), cursor.into());
                    }
                    if let Some(gap) = page.info.gap {
                        content.insert("gap".into(), gap.into());
                    }
                }
                Ok(Listed { answer: Answer::new(summary, content), sizes })
            },
        };
        let face = Face {
            input: schema::page_input::<T::Filter>,
            output: || schema::output::<T::Item>(Envelope::Page { polled: T::POLLED }),
            shadowed: || schema::shadowed::<T::Filter, T::Item>(Envelope::Page { polled: T::POLLED }),
            example: || example(T::example()),
            ..face::<List<T::Listing>>("", READ, behavior)
        };
        tool::<T>(KindName::Collection, face, None)
    }

    /// A [`Mutation`].
    pub const fn mutation<T: Mutation>() -> Tool {
        let behavior = Behavior::Ask {
            prepare: |args| call::<T::Operation>(&T::request(input(args)?)),
            finish: |data| {
                let data = reply(data)?;
                let changed = T::changed(&data);
                let output = T::output(data);
                answer(T::summary(&output, changed), &output, [("changed", changed.into())])
            },
        };
        let face = Face {
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Output>(Envelope::Changed),
            shadowed: || schema::shadowed::<T::Input, T::Output>(Envelope::Changed),
            example: || example(T::example()),
            ..face::<T::Operation>("", STEP, behavior)
        };
        tool::<T>(KindName::Mutation, face, None)
    }

    /// A [`Change`]: both of its faces, and no way to have one without the other.
    pub const fn change<T: Change>() -> Tool {
        let preview = Behavior::Ask {
            prepare: |args| call::<Preview<T::Action>>(&T::request(input(args)?)),
            finish: |data| {
                let receipt: <Preview<T::Action> as Operation>::Reply = reply(data)?;
                let envelope = [
                    ("receiptId", receipt.receipt_id.as_str().into()),
                    ("expiresAt", receipt.expires_at.as_str().into()),
                ];
                let shown = T::shown(receipt);
                answer(T::preview_summary(&shown), &shown, envelope)
            },
        };
        let execute = Behavior::Ask {
            prepare: |args| {
                let value = Value::Object(args.fields.clone());
                let request =
                    ExecuteRequest::<<T::Action as Action>::Target>::decode(args).map_err(refused)?;
                schema::check::<<T::Action as Action>::Target>(&value).map_err(refused)?;
                call::<Execute<T::Action>>(&request)
            },
            finish: |data| {
                let done: <Execute<T::Action> as Operation>::Reply = reply(data)?;
                let done =
                    Executed { changed: done.changed, replayed: done.replayed, result: T::done(done.result) };
                let envelope = [("changed", done.changed.into()), ("replayed", done.replayed.into())];
                answer(T::execute_summary(&done), &done.result, envelope)
            },
        };
        let destructive = matches!(T::EFFECT, Effect::Destructive);
        let preview = Face {
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Shown>(Envelope::Receipt),
            shadowed: || schema::shadowed::<T::Input, T::Shown>(Envelope::Receipt),
            example: || example(T::example()),
            ..face::<Preview<T::Action>>("_preview", READ, preview)
        };
        let execute = Face {
            input: schema::execute_input::<<T::Action as Action>::Target>,
            output: || schema::output::<T::Done>(Envelope::Executed),
            shadowed: || schema::shadowed::<<T::Action as Action>::Target, T::Done>(Envelope::Executed),
            example: || {
                let request = ExecuteRequest {
                    receipt_id: "0198c0de-0000-7000-8000-000000000000".into(),
                    target: T::example_target(),
                };
                request.encode().expect("a target is an object; the harness asks for each")
            },
            ..face::<Execute<T::Action>>("_execute", Hints { destructive, ..STEP }, execute)
        };
        T::NAME.pair();
        tool::<T>(KindName::Change, preview, Some(execute))
    }

    /// A [`Grant`].
    pub const fn grant<T: Grant>() -> Tool {
        let behavior = Behavior::Grant {
            purpose: |args| Ok(format!("{} {}", T::NAME, T::purpose(&input(args.clone())?))),
            prepare: |args, secret| call::<T::Operation>(&T::request(input(args)?, secret)),
            finish: |data, custody| {
                let data = reply(data)?;
                let changed = T::changed(&data);
                let output = T::receive(data, custody);
                answer(T::summary(&output, changed), &output, [("changed", changed.into())])
            },
        };
        let face = Face {
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Output>(Envelope::Changed),
            shadowed: || schema::shadowed::<T::Input, T::Output>(Envelope::Changed),
            example: || example(T::example()),
            ..face::<T::Operation>("", STEP, behavior)
        };
        tool::<T>(KindName::Grant, face, None)
    }

    /// A [`Spend`].
    pub const fn spend<T: Spend>() -> Tool {
        let behavior = Behavior::Spend {
            handle: |args| Ok(input::<T::Input>(args.clone())?.handle().clone()),
            prepare: |args, held| call::<T::Operation>(&T::request(input(args)?, held)),
            finish: |data| {
                let data = reply(data)?;
                let changed = T::changed(&data);
                let pending = T::pending(&data);
                let output = T::output(data);
                let answer = answer(T::summary(&output, changed), &output, [("changed", changed.into())])?;
                Ok(Spent { answer, pending })
            },
            settles: T::SETTLES,
        };
        let face = Face {
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Output>(Envelope::Changed),
            shadowed: || schema::shadowed::<T::Input, T::Output>(Envelope::Changed),
            example: || example(T::example()),
            ..face::<T::Operation>("", STEP, behavior)
        };
        tool::<T>(KindName::Spend, face, None)
    }

    const fn local_envelope(nature: Nature) -> Envelope {
        match nature {
            Nature::Mutation => Envelope::Changed,
            Nature::Read | Nature::Collection => Envelope::Plain,
        }
    }

    /// A [`Local`].
    pub const fn local<T: Local>() -> Tool {
        let face = Face {
            suffix: "",
            hints: match T::NATURE {
                Nature::Mutation => STEP,
                Nature::Read | Nature::Collection => READ,
            },
            operation: None,
            input: schema::input::<T::Input>,
            output: || schema::output::<T::Output>(local_envelope(T::NATURE)),
            shadowed: || schema::shadowed::<T::Input, T::Output>(local_envelope(T::NATURE)),
            example: || example(T::example()),
            behavior: Behavior::Local { nature: T::NATURE, read: |args| input::<T::Input>(args).map(drop) },
        };
        tool::<T>(KindName::Local, face, None)
    }
}

/// Reads a local tool's input as every other tool's is read.
///
/// # Errors
/// `bridge.invalid_arguments`, naming the field.
pub fn local_input<T: Local>(args: Args) -> Result<T::Input, Failure> {
    input(args)
}

/// Makes a local tool's answer.
///
/// # Errors
/// If the output can't be written as JSON, which the harness shows.
pub fn local_answer<T: Local>(output: &T::Output, changed: bool) -> Result<Answer, Failure> {
    let extra = (T::NATURE == Nature::Mutation).then(|| ("changed", changed.into()));
    answer(T::summary(output), output, extra)
}

/// Declares a tool and enters it into the registry; its doc comment is what the agent reads.
///
/// `tool! { /// What it does. \n pub read PortsGet = "ports_get" }`, then `impl Read for PortsGet`.
#[macro_export]
#[expect(clippy::crate_in_macro_def, reason = "crate::DOMAIN is the declaring crate's own")]
macro_rules! tool {
    ($(#[doc = $doc:literal])+ $vis:vis $kind:ident $name:ident = $text:literal $(,)?) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $name {}
        impl $crate::Described for $name {
            const NAME: $crate::Name = $crate::Name::new($text, crate::DOMAIN);
            const DOMAIN: $crate::Domain = crate::DOMAIN;
            const ABOUT: &'static [&'static str] = &[$($doc),+];
        }
        $crate::__inventory::submit! { $crate::__advertise::$kind::<$name>() }
    };
    ($vis:vis $kind:ident $name:ident = $text:literal $(,)?) => {
        compile_error!("a tool has a doc comment: it is what the agent reads");
    };
}
