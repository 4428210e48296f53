//! Each type's portable schema, made once.

use super::{pass::portable, raw};
use schemars::JsonSchema;
use serde_json::Value;
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

type Shapes = HashMap<(TypeId, bool), Arc<Value>>;

static SHAPES: LazyLock<RwLock<Shapes>> = LazyLock::new(RwLock::default);

/// The portable schema of `T` as it is written (`serialized`) or read, without any envelope.
pub(super) fn shape<T: JsonSchema + 'static>(serialized: bool) -> Arc<Value> {
    let key = (TypeId::of::<T>(), serialized);
    if let Some(shape) = SHAPES.read().expect("no panic while held").get(&key) {
        return shape.clone();
    }
    let shape = Arc::new(portable(raw::<T>(serialized)));
    SHAPES.write().expect("no panic while held").insert(key, shape.clone());
    shape
}
