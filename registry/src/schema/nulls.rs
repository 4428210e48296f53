//! The pass over values that does to them what the other did to their schemas.

use super::Object;
use super::shapes::shape;
use schemars::JsonSchema;
use serde_json::Value;

/// Leaves out of `fields` what is null where `T`'s schema has a type.
pub(crate) fn drop_nulls<T: JsonSchema + 'static>(fields: &mut Object) {
    prune(fields, &shape::<T>(true));
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
