//! JSON schemas that every host takes.
//!
//! schemars writes draft 2020-12 with subschemas inlined; one recursive pass then removes what some host or
//! other refuses (`mcp-bridge` facts in ARCHITECTURE.md): references, boolean subschemas, `const`, `oneOf` of
//! plain words, nullable types, formats outside the standard.
//! A second pass does to values what the first did to their schemas: a typed field that is null is left out.
//! Free-form JSON passes both untouched.

mod bounds;
mod nulls;
mod pass;
mod shapes;
#[cfg(test)]
mod tests;

pub(crate) use bounds::check;
pub(crate) use nulls::{drop_nulls, without_nulls};
pub use pass::portable;

use pass::close;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

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
