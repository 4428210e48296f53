//! JSON schemas that every host takes.
//!
//! schemars writes draft 2020-12 with subschemas inlined; one recursive pass then removes what some host or
//! other refuses (`mcp-bridge` facts in ARCHITECTURE.md): references, boolean subschemas, `const`, `oneOf` of
//! plain words, nullable types, formats outside the standard.
//! A second pass does to values what the first did to their schemas: a typed field that is null is left out.
//! Free-form JSON passes both untouched.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

type Object = Map<String, Value>;

/// What a kind adds to its output's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// `summary`.
    Plain,
    /// `summary`, `changed`.
    Changed,
    /// `summary`, `items`, `hasMore`, `nextCursor`; the output is the item.
    Page {
        /// Adds `pollCursor` and `gap`.
        polled: bool,
    },
    /// `summary`, `receiptId`, `expiresAt`.
    Receipt,
    /// `summary`, `changed`, `replayed`.
    Executed,
}

impl Envelope {
    /// What is added at the top, with its type.
    const fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Envelope::Plain | Envelope::Page { .. } => &[("summary", "string")],
            Envelope::Changed => &[("changed", "boolean"), ("summary", "string")],
            Envelope::Receipt => &[("receiptId", "string"), ("expiresAt", "string"), ("summary", "string")],
            Envelope::Executed => &[("changed", "boolean"), ("replayed", "boolean"), ("summary", "string")],
        }
    }
}

/// Formats that the JSON Schema standard defines; all others are dropped.
const FORMATS: &[&str] = &[
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uuid",
    "json-pointer",
    "regex",
];

/// The schema of a tool's input: closed, and portable.
pub fn input<T: JsonSchema>() -> Object {
    let mut schema = portable(raw::<T>(false));
    close(&mut schema);
    root(schema)
}

/// The schema of a collection's input: its filter, and the page.
pub fn page_input<T: JsonSchema>() -> Object {
    let mut schema = input::<T>();
    let properties = properties(&mut schema);
    properties.insert(
        "limit".into(),
        json!({"type": "integer", "minimum": 1, "maximum": crate::MAXIMUM_LIMIT, "description": "Most items to answer; by default as many as fit 8 KB."}),
    );
    properties.insert(
        "afterCursor".into(),
        json!({"type": "string", "description": "nextCursor of the page before."}),
    );
    schema
}

/// The schema of an execute's input: the receipt, and the target once more.
pub fn execute_input<T: JsonSchema>() -> Object {
    let mut schema = input::<T>();
    properties(&mut schema).insert(
        "receiptId".into(),
        json!({"type": "string", "description": "The receiptId that the preview answered."}),
    );
    require(&mut schema, ["receiptId"]);
    schema
}

/// The schema of a tool's output in its kind's envelope.
pub fn output<T: JsonSchema>(envelope: Envelope) -> Object {
    let fields = root(portable(raw::<T>(true)));
    let mut schema = match envelope {
        Envelope::Page { polled } => {
            let mut page = json!({"type": "object", "properties": {
                "items": {"type": "array", "items": fields, "maxItems": crate::MAXIMUM_LIMIT},
                "hasMore": {"type": "boolean"},
                "nextCursor": {"type": "string"},
            }, "required": ["items", "hasMore"]});
            if polled {
                page["properties"]["pollCursor"] = json!({"type": "string"});
                page["properties"]["gap"] = json!({"type": "boolean"});
            }
            root(page)
        }
        _ => fields,
    };
    for (name, kind) in envelope.fields() {
        properties(&mut schema).insert((*name).into(), json!({"type": kind}));
        require(&mut schema, [*name]);
    }
    schema
}

/// The names that an input can't have as its own: the registry gives them their meaning.
const TAKEN: [&str; 3] = ["limit", "afterCursor", "receiptId"];

/// The names in `I` and `O` that the registry puts into an input or into this envelope itself.
pub(crate) fn shadowed<I: JsonSchema, O: JsonSchema>(envelope: Envelope) -> Vec<String> {
    let own = |schema: Value| properties(&mut root(portable(schema))).clone();
    let input = own(raw::<I>(false));
    let mut names: Vec<String> =
        input.into_iter().map(|(n, _)| n).filter(|n| TAKEN.contains(&n.as_str())).collect();
    if !matches!(envelope, Envelope::Page { .. }) {
        let output = own(raw::<O>(true)).into_iter().map(|(name, _)| name);
        names.extend(output.filter(|name| envelope.fields().iter().any(|(field, _)| field == name)));
    }
    names
}

fn raw<T: JsonSchema>(serialized: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let settings = if serialized { settings.for_serialize() } else { settings };
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn root(schema: Value) -> Object {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Object::new(),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.remove("description");
    schema
}

fn properties(schema: &mut Object) -> &mut Object {
    let slot = schema.entry("properties").or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object above")
}

fn require<const N: usize>(schema: &mut Object, names: [&str; N]) {
    let slot = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = slot {
        for name in names {
            if !required.iter().any(|r| r == name) {
                required.push(name.into());
            }
        }
    }
}

/// Where a schema has a subschema.
const ONE: [&str; 5] = ["items", "additionalProperties", "propertyNames", "contains", "not"];
/// Where it has several by name.
const NAMED: [&str; 2] = ["properties", "patternProperties"];
/// Where it has a list of them.
const MANY: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Does something to each direct subschema. A field that is called `items` is no such place.
fn each_subschema(object: &mut Object, mut act: impl FnMut(&mut Value)) {
    for (key, sub) in object.iter_mut() {
        match sub {
            Value::Object(subs) if NAMED.contains(&key.as_str()) => {
                subs.iter_mut().for_each(|(_, sub)| act(sub));
            }
            Value::Array(subs) if MANY.contains(&key.as_str()) => subs.iter_mut().for_each(&mut act),
            sub if ONE.contains(&key.as_str()) => act(sub),
            _ => {}
        }
    }
}

/// Refuses unknown fields in every object that names its own.
fn close(schema: &mut Value) {
    if let Value::Object(object) = schema {
        if object.contains_key("properties") || object.get("type") == Some(&json!("object")) {
            object.entry("additionalProperties").or_insert_with(|| false.into());
        }
        each_subschema(object, close);
    }
}

/// The portability pass. Idempotent.
pub fn portable(schema: Value) -> Value {
    let mut object = match schema {
        Value::Object(object) => object,
        // `true` takes anything, and so does the empty schema; some hosts drop a list with a boolean in it.
        _ => return json!({}),
    };
    for key in ["$schema", "title", "$defs", "definitions", "deprecated", "examples", "writeOnly", "readOnly"]
    {
        object.remove(key);
    }
    words_into_enum(&mut object);
    unwrap_nullable(&mut object);
    if let Some(one) = object.remove("const") {
        object.insert("enum".into(), json!([one]));
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|v| !v.is_null());
        if !object.contains_key("type") && values_are_text(&object) {
            object.insert("type".into(), "string".into());
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if object.get("format").and_then(Value::as_str).is_some_and(|f| !FORMATS.contains(&f)) {
        object.remove("format");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let nullable: Vec<String> = object
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.iter().filter(|(_, sub)| is_nullable(sub)).map(|(name, _)| name.clone()).collect())
        .unwrap_or_default();
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|r| !nullable.iter().any(|n| r == n));
        if required.is_empty() {
            object.remove("required");
        }
    }
    let closed = object.get("additionalProperties") == Some(&json!(false));
    each_subschema(&mut object, |sub| *sub = portable(sub.take()));
    if closed {
        object.insert("additionalProperties".into(), false.into());
    }
    Value::Object(object)
}

fn values_are_text(object: &Object) -> bool {
    object.get("enum").and_then(Value::as_array).is_some_and(|v| v.iter().all(Value::is_string))
}

fn is_null_type(schema: &Value) -> bool {
    schema.get("type") == Some(&json!("null")) || schema.get("const") == Some(&Value::Null)
}

/// Whether the schema, as schemars wrote it, takes null.
fn is_nullable(schema: &Value) -> bool {
    let types = schema.get("type").and_then(Value::as_array).is_some_and(|t| t.iter().any(|t| t == "null"));
    let arms = ["anyOf", "oneOf"]
        .iter()
        .any(|k| schema.get(k).and_then(Value::as_array).is_some_and(|a| a.iter().any(is_null_type)));
    let words = schema.get("enum").and_then(Value::as_array).is_some_and(|v| v.iter().any(Value::is_null));
    types || arms || words
}

/// `anyOf: [X, null]` becomes X, and so does an `allOf` of one.
fn unwrap_nullable(object: &mut Object) {
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(arms)) = object.get_mut(key) else {
            continue;
        };
        if key != "allOf" {
            arms.retain(|arm| !is_null_type(arm));
        }
        if let [Value::Object(only)] = arms.as_slice() {
            let mut only = only.clone();
            object.remove(key);
            if object.contains_key("description") {
                only.remove("description");
            }
            object.extend(only);
            words_into_enum(object);
        }
    }
}

/// A `oneOf` of words becomes one enum of text, with the words' docs merged into the description.
fn words_into_enum(object: &mut Object) {
    let key = if object.contains_key("oneOf") { "oneOf" } else { "anyOf" };
    let Some(Value::Array(arms)) = object.get(key) else {
        return;
    };
    let mut words = Vec::new();
    let mut docs = Vec::new();
    for arm in arms {
        let values = match (arm.get("const"), arm.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => vec![word.clone()],
            (None, Some(words)) => words.clone(),
            (None, None) if is_null_type(arm) => continue,
            (None, None) => return,
        };
        if !values.iter().all(Value::is_string) {
            return;
        }
        if let (Some(doc), [Value::String(word)]) =
            (arm.get("description").and_then(Value::as_str), values.as_slice())
        {
            docs.push(format!("{word}: {}", doc.trim_end_matches('.')));
        }
        words.extend(values);
    }
    object.remove(key);
    if !docs.is_empty() {
        let own =
            object.get("description").and_then(Value::as_str).map(|d| format!("{d} ")).unwrap_or_default();
        object.insert("description".into(), format!("{own}{}.", docs.join("; ")).into());
    }
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), words.into());
}

static SHAPES: LazyLock<RwLock<HashMap<TypeId, Arc<Value>>>> = LazyLock::new(RwLock::default);

/// The portable output schema of `T`, made once.
fn shape<T: JsonSchema + 'static>() -> Arc<Value> {
    let id = TypeId::of::<T>();
    if let Some(shape) = SHAPES.read().expect("no panic while held").get(&id) {
        return shape.clone();
    }
    let shape = Arc::new(portable(raw::<T>(true)));
    SHAPES.write().expect("no panic while held").insert(id, shape.clone());
    shape
}

/// Leaves out of `fields` what is null where `T`'s schema has a type.
pub(crate) fn drop_nulls<T: JsonSchema + 'static>(fields: &mut Object) {
    prune(fields, &shape::<T>());
}

fn prune(fields: &mut Object, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties").filter(|s| s.is_object());
    fields.retain(|name, value| {
        let sub = properties.and_then(|p| p.get(name)).or(others);
        let typed = sub.is_some_and(|s| s.as_object().is_some_and(|s| s.keys().any(|k| k != "description")));
        if let (true, Some(sub)) = (typed, sub) {
            prune_value(value, sub);
        }
        !(typed && value.is_null())
    });
}

fn prune_value(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            prune(fields, schema);
            for arm in ["anyOf", "oneOf"].iter().filter_map(|k| schema.get(k)?.as_array()).flatten() {
                prune(fields, arm);
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.get("items") {
                items.iter_mut().for_each(|item| prune_value(item, sub));
            }
        }
        _ => {}
    }
}

/// Leaves out every null at the top: an optional argument that isn't there.
pub(crate) fn without_nulls(mut fields: Object) -> Object {
    fields.retain(|_, value| !value.is_null());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "one variant is written, the schema shows both")]
    enum Word {
        /// The first.
        First,
        /// The second.
        TheSecond,
    }
    #[derive(Serialize, JsonSchema)]
    struct Inner {
        kept: Option<u16>,
        free: Value,
    }
    #[derive(Serialize, JsonSchema)]
    struct Outer {
        /// How many.
        many: u64,
        word: Option<Word>,
        inner: Option<Inner>,
        list: Vec<Inner>,
    }

    #[test]
    fn the_pass_leaves_nothing_that_a_host_refuses() {
        let schema = Value::Object(output::<Outer>(Envelope::Changed));
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {
                "many": {"type": "integer", "minimum": 0, "description": "How many."},
                "word": {"type": "string", "enum": ["first", "the-second"],
                    "description": "first: The first; the-second: The second."},
                "inner": {"type": "object", "properties": {
                    "kept": {"type": "integer", "minimum": 0, "maximum": 65535}, "free": {}}, "required": ["free"]},
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "kept": {"type": "integer", "minimum": 0, "maximum": 65535}, "free": {}}, "required": ["free"]}},
                "changed": {"type": "boolean"}, "summary": {"type": "string"}},
                "required": ["many", "list", "changed", "summary"]})
        );
        assert_eq!(portable(schema.clone()), schema);
    }

    #[test]
    fn typed_nulls_go_and_free_ones_stay() {
        let outer = Outer {
            many: 1,
            word: None,
            inner: Some(Inner { kept: None, free: json!({"a": null}) }),
            list: vec![Inner { kept: Some(1), free: Value::Null }],
        };
        let mut fields = crate::decode::to_object(&outer).unwrap();
        drop_nulls::<Outer>(&mut fields);
        assert_eq!(
            Value::Object(fields),
            json!({"many": 1, "inner": {"free": {"a": null}}, "list": [{"kept": 1, "free": null}]})
        );
    }

    #[test]
    fn inputs_are_closed_at_every_level() {
        let schema = Value::Object(page_input::<Outer>());
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["inner"]["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["limit"]["maximum"], json!(200));
    }
}
