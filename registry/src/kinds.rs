//! The seven kinds of tool.
//!
//! A kind is a trait: what it leaves out can't be written, and what it asks for can't be forgotten.

use crate::{
    Action, CredentialBearing, CredentialHandle, Custody, Domain, Executed, Held, Listing, Name, Operation,
    Page, Receipt, Routine, Secret,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// Name, domain and description of a tool. Implemented by [`crate::tool!`] alone.
pub trait Described: 'static {
    #[doc(hidden)]
    const NAME: Name;
    #[doc(hidden)]
    const DOMAIN: Domain;
    #[doc(hidden)]
    const ABOUT: &'static [&'static str];
}

/// What an input type must be: read from JSON, written to JSON, described by a schema.
pub trait Input: Serialize + DeserializeOwned + JsonSchema + Send + 'static {}
impl<T: Serialize + DeserializeOwned + JsonSchema + Send + 'static> Input for T {}

/// What an output type must be. A [`Secret`] has no schema, so no output holds one.
pub trait Output: Serialize + JsonSchema + Send + 'static {}
impl<T: Serialize + JsonSchema + Send + 'static> Output for T {}

/// An input that is valid, checked by the harness and the seed of its fuzzer.
#[derive(Debug)]
pub struct Example<T>(pub(crate) T);

impl<T> Example<T> {
    /// The example.
    pub fn of(input: T) -> Example<T> {
        Example(input)
    }
}

/// One bounded answer; changes nothing.
pub trait Read: Described {
    /// What the daemon is asked.
    type Operation: Operation<Class = Routine>;
    /// What the agent says.
    type Input: Input;
    /// What the agent sees, beside `summary`.
    type Output: Output;
    /// A valid input.
    fn example() -> Example<Self::Input>;
    /// The request.
    fn request(input: Self::Input) -> <Self::Operation as Operation>::Request;
    /// The output.
    fn output(reply: <Self::Operation as Operation>::Reply) -> Self::Output;
    /// One or two sentences that stand alone.
    fn summary(output: &Self::Output) -> String;
}

/// A list, answered a page at a time.
///
/// The domain gives filter and item; the list's key comes from its [`Listing`].
/// `limit`, `afterCursor`, `hasMore` and `nextCursor` come from the registry: an unbounded list can't be
/// written.
pub trait Collection: Described {
    /// What the daemon is asked.
    type Listing: Listing<Class = Routine>;
    /// What the agent may ask for, beside `limit` and `afterCursor`.
    type Filter: Input;
    /// One item as the agent sees it: lean.
    type Item: Output;
    /// Whether the agent may poll it with `pollCursor`.
    const POLLED: bool = false;
    /// A valid filter.
    fn example() -> Example<Self::Filter>;
    /// The daemon's filter.
    fn filter(filter: Self::Filter) -> <Self::Listing as Listing>::Filter;
    /// The item.
    fn item(row: <Self::Listing as Listing>::Row) -> Self::Item;
    /// One or two sentences that stand alone.
    fn summary(page: &Page<Self::Item>) -> String;
}

/// One step within the caller's own pending work, semantically idempotent.
pub trait Mutation: Described {
    /// What the daemon is asked.
    type Operation: Operation<Class = Routine>;
    /// What the agent says.
    type Input: Input;
    /// What the agent sees, beside `summary` and `changed`.
    type Output: Output;
    /// A valid input.
    fn example() -> Example<Self::Input>;
    /// The request.
    fn request(input: Self::Input) -> <Self::Operation as Operation>::Request;
    /// Whether this call changed anything.
    fn changed(reply: &<Self::Operation as Operation>::Reply) -> bool;
    /// The output.
    fn output(reply: <Self::Operation as Operation>::Reply) -> Self::Output;
    /// One or two sentences that stand alone.
    fn summary(output: &Self::Output, changed: bool) -> String;
}

/// How hard a change is to take back. There is no default: the author chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It adds; taking it back is easy.
    Additive,
    /// It replaces; the former state can be put back.
    Reversible,
    /// What it ends or deletes doesn't come back.
    Destructive,
}

/// A consequential act: declared once, advertised as `<name>_preview` and `<name>_execute`.
pub trait Change: Described {
    /// How hard it is to take back.
    const EFFECT: Effect;
    /// The pair of operations behind it.
    type Action: Action;
    /// What the agent says to the preview, the target among it.
    type Input: Input;
    /// What the preview shows: the agent's view of proposal and observation, lean.
    type Shown: Output;
    /// What the execute shows of the result.
    type Done: Output;
    /// A valid input of the preview.
    fn example() -> Example<Self::Input>;
    /// A valid target of the execute.
    fn example_target() -> <Self::Action as Action>::Target;
    /// The preview's request.
    fn request(input: Self::Input) -> <Self::Action as Action>::Request;
    /// What the preview shows.
    fn shown(
        receipt: Receipt<<Self::Action as Action>::Proposal, <Self::Action as Action>::Observed>,
    ) -> Self::Shown;
    /// What the execute shows.
    fn done(result: <Self::Action as Action>::Result) -> Self::Done;
    /// What would happen, in one or two sentences that stand alone.
    fn preview_summary(shown: &Self::Shown) -> String;
    /// What happened, in one or two sentences that stand alone.
    fn execute_summary(done: &Executed<Self::Done>) -> String;
}

/// A mutation whose reply holds credentials: the bridge takes them into custody, the agent sees handles.
pub trait Grant: Described {
    /// What the daemon is asked.
    type Operation: Operation<Class = CredentialBearing>;
    /// What the agent says.
    type Input: Input;
    /// What the agent sees, beside `summary` and `changed`.
    type Output: Output;
    /// A valid input.
    fn example() -> Example<Self::Input>;
    /// What the grant is for, so that a repeat brings the same secret and gets the same grant.
    fn purpose(input: &Self::Input) -> String;
    /// The request, with the secret that this bridge brings.
    fn request(input: Self::Input, secret: Secret) -> <Self::Operation as Operation>::Request;
    /// Whether this call changed anything.
    fn changed(reply: &<Self::Operation as Operation>::Reply) -> bool;
    /// Puts the reply's credentials into custody and gives the output.
    fn receive(reply: <Self::Operation as Operation>::Reply, custody: &mut dyn Custody) -> Self::Output;
    /// One or two sentences that stand alone.
    fn summary(output: &Self::Output, changed: bool) -> String;
}

/// An input that names a handle.
pub trait NamesHandle {
    /// The handle.
    fn handle(&self) -> &CredentialHandle;
}

/// A mutation that names a handle: the bridge puts the credential in.
pub trait Spend: Described {
    /// What the daemon is asked.
    type Operation: Operation<Class = CredentialBearing>;
    /// What the agent says.
    type Input: Input + NamesHandle;
    /// What the agent sees, beside `summary` and `changed`.
    type Output: Output;
    /// Whether success settles the credential: the bridge then erases it and keeps the result.
    const SETTLES: bool;
    /// A valid input.
    fn example() -> Example<Self::Input>;
    /// The request, with the credential.
    fn request(input: Self::Input, held: Held) -> <Self::Operation as Operation>::Request;
    /// Whether this call changed anything.
    fn changed(reply: &<Self::Operation as Operation>::Reply) -> bool;
    /// The subjects of the group that the reply still shows as pending, where one step settles siblings.
    fn pending(reply: &<Self::Operation as Operation>::Reply) -> Option<Vec<String>>;
    /// The output.
    fn output(reply: <Self::Operation as Operation>::Reply) -> Self::Output;
    /// One or two sentences that stand alone.
    fn summary(output: &Self::Output, changed: bool) -> String;
}

/// What a local tool is like; its hints follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// As [`Read`].
    Read,
    /// As [`Collection`]: its output bounds itself.
    Collection,
    /// As [`Mutation`]: its output has `changed`.
    Mutation,
}

/// A tool that the bridge answers itself, so that it works without a daemon.
pub trait Local: Described {
    /// What it is like.
    const NATURE: Nature;
    /// What the agent says.
    type Input: Input;
    /// What the agent sees, beside `summary` and, for a mutation, `changed`.
    type Output: Output;
    /// A valid input.
    fn example() -> Example<Self::Input>;
    /// One or two sentences that stand alone.
    fn summary(output: &Self::Output) -> String;
}
