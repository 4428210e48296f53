//! The deserializer over [`Value`] that keeps what serde says of an error.

use super::{Issue, Manner};
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use serde_json::Value;

/// A value, and how to read it.
pub(super) struct Reader {
    pub(super) value: Value,
    pub(super) manner: Manner,
}

impl Reader {
    fn child(&self, value: Value) -> Reader {
        Reader { value, manner: self.manner }
    }

    /// In the text manner: the number or boolean that the text spells, where the type asks for one.
    fn plain(self) -> Value {
        match self.value {
            Value::String(text) if self.manner.text => match serde_json::from_str::<Value>(&text) {
                Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
                _ => Value::String(text),
            },
            value => value,
        }
    }
}

macro_rules! plain {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
            let manner = self.manner;
            Reader { value: self.plain(), manner }.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Issue;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(b),
            Value::Number(n) => {
                if let Some(n) = n.as_u64() {
                    visitor.visit_u64(n)
                } else if let Some(n) = n.as_i64() {
                    visitor.visit_i64(n)
                } else {
                    visitor.visit_f64(n.as_f64().unwrap_or(f64::NAN))
                }
            }
            Value::String(s) => visitor.visit_string(s),
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.into_iter(), index: 0, manner: self.manner })
            }
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.into_iter(), next: None, manner: self.manner })
            }
        }
    }

    plain! { deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
    deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Issue> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Issue> {
        if let (true, Value::Object(fields)) = (self.manner.strict, &self.value)
            && let Some(stranger) = fields.keys().find(|k| !known.contains(&k.as_str()))
        {
            let issue: Issue = de::Error::unknown_field(stranger, known);
            return Err(issue.within(stranger.as_str().into()));
        }
        if let Value::Array(_) = self.value {
            // serde would read a struct from an array by position; the protocol has no such form.
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Issue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Issue> {
        match self.value {
            Value::String(text) => visitor.visit_enum(IntoDeserializer::<Issue>::into_deserializer(text)),
            Value::Object(fields) if fields.len() == 1 => {
                let (variant, value) = fields.into_iter().next().expect("one field was counted");
                visitor.visit_enum(Variant { variant, value, manner: self.manner })
            }
            other => Err(de::Error::invalid_type(
                unexpected(&other),
                &format!("one of {}", variants.join(", ")).as_str(),
            )),
        }
    }

    serde::forward_to_deserialize_any! { i128 u128 char str string bytes byte_buf unit unit_struct seq tuple
    tuple_struct map identifier ignored_any }
}

fn unexpected(value: &Value) -> de::Unexpected<'_> {
    match value {
        Value::Null => de::Unexpected::Unit,
        Value::Bool(b) => de::Unexpected::Bool(*b),
        Value::Number(_) => de::Unexpected::Signed(0),
        Value::String(s) => de::Unexpected::Str(s),
        Value::Array(_) => de::Unexpected::Seq,
        Value::Object(_) => de::Unexpected::Map,
    }
}

/// `{"variant": value}`, as serde writes an enum that carries data.
struct Variant {
    variant: String,
    value: Value,
    manner: Manner,
}

/// Its value, and the name that issues in it start with.
struct Carried {
    variant: String,
    reader: Reader,
}

impl<'de> de::EnumAccess<'de> for Variant {
    type Error = Issue;
    type Variant = Carried;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Carried), Issue> {
        let named = seed.deserialize(IntoDeserializer::<Issue>::into_deserializer(self.variant.clone()))?;
        let reader = Reader { value: self.value, manner: self.manner };
        Ok((named, Carried { variant: self.variant, reader }))
    }
}

impl<'de> de::VariantAccess<'de> for Carried {
    type Error = Issue;

    fn unit_variant(self) -> Result<(), Issue> {
        self.newtype_variant_seed(std::marker::PhantomData)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Issue> {
        seed.deserialize(self.reader).map_err(|issue| issue.within(self.variant.into()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Issue> {
        self.reader.deserialize_any(visitor).map_err(|issue| issue.within(self.variant.into()))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Issue> {
        let Carried { variant, reader } = self;
        reader.deserialize_struct("", known, visitor).map_err(|issue| issue.within(variant.into()))
    }
}

struct Items {
    items: std::vec::IntoIter<Value>,
    index: usize,
    manner: Manner,
}

impl<'de> de::SeqAccess<'de> for Items {
    type Error = Issue;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Issue> {
        let Some(value) = self.items.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let reader = Reader { value, manner: self.manner };
        seed.deserialize(reader).map(Some).map_err(|issue| issue.within(index.into()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
    manner: Manner,
}

impl<'de> de::MapAccess<'de> for Fields {
    type Error = Issue;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Issue> {
        self.next = self.fields.next();
        let Some((key, _)) = &self.next else {
            return Ok(None);
        };
        let reader = Reader { value: Value::String(key.clone()), manner: self.manner };
        seed.deserialize(reader).map(Some).map_err(|issue| issue.within(key.as_str().into()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Issue> {
        let (key, value) = self.next.take().expect("serde asks for a value after its key");
        let reader = Reader { value: Value::Null, manner: self.manner }.child(value);
        seed.deserialize(reader).map_err(|issue| issue.within(key.into()))
    }
}
