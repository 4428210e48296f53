//! What each kind makes of a declaration: its hints, its schemas, its requests.

use portreeve_registry::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

domain!("sample");

/// Names a thing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Thing {
    /// Which one.
    pub name: String,
    /// A field whose name means something to schemas.
    pub properties: Option<Inner>,
}

/// A thing's inside.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Inner {
    /// Another such field.
    pub items: Option<u8>,
}

fn thing() -> Thing {
    Thing { name: "a".into(), properties: None }
}

operation! {
    /// A thing.
    pub GetThing: Routine = GET "/v1/things/{name}" needs "sample-v1", Thing => Thing
}
operation! {
    /// A thing, opened.
    pub OpenThing: CredentialBearing = POST "/v1/things/{name}/open" needs "sample-v1", Thing => Thing
}

/// Lists things.
#[derive(Debug)]
pub enum ListThings {}
impl Listing for ListThings {
    const PATH: &'static str = "/v1/things";
    const CAPABILITY: &'static str = "sample-v1";
    type Class = Routine;
    type Filter = Filter;
    type Row = Thing;
    type Key = String;
}
operation! { list ListThings }

/// Which things.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Filter {
    /// Only this one.
    pub name: Option<String>,
}

tool! {
    /// Show a thing.
    pub read ThingGet = "sample_get"
}
impl Read for ThingGet {
    type Operation = GetThing;
    type Input = Thing;
    type Output = Thing;
    fn example() -> Example<Thing> {
        Example::of(thing())
    }
    fn request(input: Thing) -> Thing {
        input
    }
    fn output(reply: Thing) -> Thing {
        reply
    }
    fn summary(thing: &Thing) -> String {
        thing.name.clone()
    }
}

tool! {
    /// List things.
    pub collection ThingsList = "sample_list"
}
impl Collection for ThingsList {
    type Listing = ListThings;
    type Filter = Filter;
    type Item = Thing;
    fn example() -> Example<Filter> {
        Example::of(Filter::default())
    }
    fn filter(filter: Filter) -> Filter {
        filter
    }
    fn item(thing: Thing) -> Thing {
        thing
    }
    fn summary(page: &Page<Thing>) -> String {
        format!("{} things", page.items().len())
    }
}

tool! {
    /// Set a thing. Its input takes a name that is the registry's, as does its output.
    pub mutation ThingSet = "sample_set"
}
/// Says too much.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TooMuch {
    /// Which one.
    pub name: String,
    /// Taken.
    pub limit: Option<u8>,
    /// Taken.
    pub changed: Option<bool>,
}
impl Mutation for ThingSet {
    type Operation = GetThing;
    type Input = TooMuch;
    type Output = TooMuch;
    fn example() -> Example<TooMuch> {
        Example::of(TooMuch { name: "a".into(), limit: None, changed: None })
    }
    fn request(input: TooMuch) -> Thing {
        Thing { name: input.name, properties: None }
    }
    fn changed(_: &Thing) -> bool {
        true
    }
    fn output(reply: Thing) -> TooMuch {
        TooMuch { name: reply.name, limit: None, changed: None }
    }
    fn summary(_: &TooMuch, _: bool) -> String {
        String::new()
    }
}

tool! {
    /// Open a thing.
    pub grant ThingOpen = "sample_open"
}
impl Grant for ThingOpen {
    type Operation = OpenThing;
    type Input = Thing;
    type Output = Thing;
    fn example() -> Example<Thing> {
        Example::of(thing())
    }
    fn purpose(input: &Thing) -> String {
        input.name.clone()
    }
    fn request(input: Thing, _: Secret) -> Thing {
        input
    }
    fn changed(_: &Thing) -> bool {
        true
    }
    fn receive(reply: Thing, _: &mut dyn Custody) -> Thing {
        reply
    }
    fn summary(_: &Thing, _: bool) -> String {
        String::new()
    }
}

/// Names a handle.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handle {
    /// The handle.
    pub handle: CredentialHandle,
}
impl NamesHandle for Handle {
    fn handle(&self) -> &CredentialHandle {
        &self.handle
    }
}

tool! {
    /// Close a thing.
    pub spend ThingClose = "sample_close"
}
impl Spend for ThingClose {
    type Operation = OpenThing;
    type Input = Handle;
    type Output = Thing;
    const SETTLES: bool = true;
    fn example() -> Example<Handle> {
        Example::of(Handle { handle: CredentialHandle::example("cred_0") })
    }
    fn request(_: Handle, held: Held) -> Thing {
        Thing { name: held.subject, properties: None }
    }
    fn changed(_: &Thing) -> bool {
        true
    }
    fn pending(_: &Thing) -> Option<Vec<String>> {
        None
    }
    fn output(reply: Thing) -> Thing {
        reply
    }
    fn summary(_: &Thing, _: bool) -> String {
        String::new()
    }
}

macro_rules! changes {
    ($($action:ident $path:literal, $tool:ident $name:literal, $effect:ident;)*) => {$(
        /// Does something to a thing.
        #[derive(Debug)]
        pub enum $action {}
        impl Action for $action {
            const ACTION: &'static str = $name;
            const TARGET: &'static str = "thing";
            const PREVIEW_PATH: &'static str = concat!($path, "/preview");
            const EXECUTE_PATH: &'static str = concat!($path, "/execute");
            const CAPABILITY: &'static str = "sample-v1";
            type Target = Filter;
            type Request = Thing;
            type Proposal = Thing;
            type Observed = Thing;
            type Result = Thing;
        }
        operation! { action $action }
        tool! {
            /// Do something to a thing.
            pub change $tool = $name
        }
        impl Change for $tool {
            const EFFECT: Effect = Effect::$effect;
            type Action = $action;
            type Input = Thing;
            type Shown = Thing;
            type Done = Thing;
            fn example() -> Example<Thing> {
                Example::of(thing())
            }
            fn example_target() -> Filter {
                Filter { name: Some("a".into()) }
            }
            fn request(input: Thing) -> Thing {
                input
            }
            fn shown(receipt: Receipt<Thing, Thing>) -> Thing {
                receipt.proposal
            }
            fn done(result: Thing) -> Thing {
                result
            }
            fn preview_summary(_: &Thing) -> String {
                String::new()
            }
            fn execute_summary(_: &Executed<Thing>) -> String {
                String::new()
            }
        }
    )*};
}
changes! {
    AddThing "/v1/things/add", ThingAdd "sample_add", Additive;
    ReplaceThing "/v1/things/replace", ThingReplace "sample_replace", Reversible;
    DeleteThing "/v1/things/delete", ThingDelete "sample_delete", Destructive;
}

macro_rules! locals {
    ($($tool:ident $name:literal $nature:ident;)*) => {$(
        tool! {
            /// Answered by the bridge.
            pub local $tool = $name
        }
        impl Local for $tool {
            const NATURE: Nature = Nature::$nature;
            type Input = Filter;
            type Output = Thing;
            fn example() -> Example<Filter> {
                Example::of(Filter::default())
            }
            fn summary(_: &Thing) -> String {
                String::new()
            }
        }
    )*};
}
locals! {
    LocalGet "sample_local_get" Read;
    LocalList "sample_local_list" Collection;
    LocalSet "sample_local_set" Mutation;
}

fn registry() -> Registry {
    Registry::load(&[DOMAIN]).expect("a registry")
}

#[test]
fn hints_follow_from_the_kind() {
    let told: Vec<_> = registry()
        .iter()
        .map(|tool| {
            let Hints { read_only, destructive, idempotent } = tool.hints();
            assert!(idempotent, "{}: every call can be repeated", tool.name());
            let word = if destructive { "destructive" } else { "" };
            format!("{} {} {}", tool.name(), if read_only { "reads" } else { "writes" }, word)
                .trim()
                .to_owned()
        })
        .collect();
    assert_eq!(
        told,
        [
            "sample_add_preview reads",
            "sample_add_execute writes",
            "sample_close writes",
            "sample_delete_preview reads",
            "sample_delete_execute writes destructive",
            "sample_get reads",
            "sample_list reads",
            "sample_local_get reads",
            "sample_local_list reads",
            "sample_local_set writes",
            "sample_open writes",
            "sample_replace_preview reads",
            "sample_replace_execute writes",
            "sample_set writes",
        ]
    );
}

fn prepared(tool: &str, arguments: Value) -> Result<Call, Failure> {
    let registry = registry();
    let fields: Map<String, Value> = serde_json::from_value(arguments).expect("an object");
    let args = Args::of_tool(fields);
    match registry.find(tool).expect("declared").face().behavior {
        Behavior::Ask { prepare, .. } => prepare(args),
        Behavior::List { prepare, .. } => prepare(args, 50).map(|(call, _)| call),
        _ => panic!("{tool} is neither asked nor listed"),
    }
}

#[test]
fn a_collection_always_asks_for_a_page() {
    for arguments in [
        json!({}),
        json!({"afterCursor": null, "limit": null, "name": null}),
        json!({"afterCursor": ""}),
        json!({"limit": 50}),
    ] {
        let call = prepared("sample_list", arguments.clone()).expect("taken");
        assert_eq!(call.target, "/v1/things?afterCursor=&limit=50", "{arguments}");
    }
    assert_eq!(
        prepared("sample_list", json!({"limit": 201})).unwrap_err().class,
        FailureClass::BridgeInvalidArguments
    );
    assert_eq!(
        prepared("sample_list", json!({"limit": 0})).unwrap_err().class,
        FailureClass::BridgeInvalidArguments
    );
}

#[test]
fn an_execute_takes_the_receipt_and_its_target_and_nothing_else() {
    let call = prepared("sample_delete_execute", json!({"receiptId": "r", "name": "a"})).expect("taken");
    assert_eq!(call.target, "/v1/things/delete/execute");
    assert_eq!(json!(call.body), json!({"receiptId": "r", "name": "a"}));
    for arguments in [json!({"name": "a"}), json!({"receiptId": "r", "name": "a", "properties": null})] {
        let refused = prepared("sample_delete_execute", arguments.clone());
        assert_eq!(refused.unwrap_err().class, FailureClass::BridgeInvalidArguments, "{arguments}");
    }
}

#[test]
fn a_path_never_has_an_empty_or_missing_part() {
    assert_eq!(
        prepared("sample_get", json!({"name": "a/../b c"})).expect("taken").target,
        "/v1/things/a%2F..%2Fb%20c"
    );
    assert!(prepared("sample_get", json!({"name": ""})).is_err());
}

#[test]
fn fields_that_are_called_like_keywords_are_fields() {
    let registry = registry();
    let schema = json!(registry.find("sample_get").expect("declared").input_schema());
    let inner = json!({
        "type": "object", "additionalProperties": false,
        "description": "A field whose name means something to schemas.",
        "properties": {"items": {
            "type": "integer", "minimum": 0, "maximum": 255, "description": "Another such field."}},
    });
    assert_eq!(
        schema,
        json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {"name": {"type": "string", "description": "Which one."}, "properties": inner},
        })
    );
}

#[test]
fn names_that_the_registry_gives_are_seen_where_a_type_has_them_too() {
    let registry = registry();
    let shadowed = |name: &str| registry.find(name).expect("declared").shadowed();
    assert_eq!(shadowed("sample_set"), ["limit", "changed"]);
    for tool in registry.iter().filter(|tool| tool.name() != "sample_set") {
        assert_eq!(tool.shadowed(), [""; 0], "{}", tool.name());
    }
}
