//! Refuses numbers that are not finite, wherever they are in a document: JSON has no form for them, and serde would
//! write `null`, which no reader expects.

use crate::ReportError;
use serde::Serialize;
use serde::ser::{
    Error, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use std::fmt::{self, Display, Write};

/// Looks at all numbers of a document, as its JSON would have them.
///
/// # Errors
/// One that is not finite, by its place (`variants[1].metrics.time_us`).
pub(crate) fn check_finite(document: &impl Serialize) -> Result<(), ReportError> {
    let mut place = String::new();
    match document.serialize(Finite { place: &mut place }) {
        Err(Stopped::Number { place, value }) => Err(ReportError::NotFinite {
            field: place,
            value,
        }),
        // What cannot be written is told by who writes it.
        Ok(()) | Err(Stopped::Custom) => Ok(()),
    }
}

/// Why a document was not looked at to its end.
#[derive(Debug)]
enum Stopped {
    /// A number that is not finite.
    Number { place: String, value: f64 },
    /// A value that cannot be written.
    Custom,
}

impl Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Stopped {}

impl Error for Stopped {
    fn custom<T: Display>(_: T) -> Self {
        Stopped::Custom
    }
}

/// Goes through a document; `place` is where it is.
struct Finite<'p> {
    place: &'p mut String,
}

impl Finite<'_> {
    fn number(self, value: f64) -> Result<(), Stopped> {
        match value.is_finite() {
            true => Ok(()),
            false => Err(Stopped::Number {
                place: self.place.clone(),
                value,
            }),
        }
    }
}

/// The parts of a list or an object.
struct Parts<'p> {
    place: &'p mut String,
    index: usize,
}

impl<'p> Parts<'p> {
    fn of(place: &'p mut String) -> Self {
        Parts { place, index: 0 }
    }

    /// Of a variant with parts of its own; who stands around it takes its name away again.
    fn within(place: &'p mut String, name: &str) -> Self {
        if !place.is_empty() {
            place.push('.');
        }
        place.push_str(name);
        Parts::of(place)
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Stopped> {
        let before = self.place.len();
        if before > 0 {
            self.place.push('.');
        }
        self.place.push_str(name);
        self.at(before, value)
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Stopped> {
        let before = self.place.len();
        // Writing to a string does not fail.
        let _ = write!(self.place, "[{}]", self.index);
        self.index += 1;
        self.at(before, value)
    }

    fn at(&mut self, before: usize, value: &(impl Serialize + ?Sized)) -> Result<(), Stopped> {
        value.serialize(Finite { place: self.place })?;
        self.place.truncate(before);
        Ok(())
    }
}

macro_rules! without_fraction {
    ($($name:ident: $of:ty),*) => {
        $(fn $name(self, _: $of) -> Result<(), Stopped> {
            Ok(())
        })*
    };
}

impl<'p> Serializer for Finite<'p> {
    type Ok = ();
    type Error = Stopped;
    type SerializeSeq = Parts<'p>;
    type SerializeTuple = Parts<'p>;
    type SerializeTupleStruct = Parts<'p>;
    type SerializeTupleVariant = Parts<'p>;
    type SerializeMap = Entries<'p>;
    type SerializeStruct = Parts<'p>;
    type SerializeStructVariant = Parts<'p>;

    without_fraction!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_char: char,
        serialize_str: &str, serialize_bytes: &[u8], serialize_unit_struct: &'static str
    );

    fn serialize_f32(self, value: f32) -> Result<(), Stopped> {
        self.number(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Stopped> {
        self.number(value)
    }

    fn serialize_none(self) -> Result<(), Stopped> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stopped> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Stopped> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &str, _: u32, _: &str) -> Result<(), Stopped> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &str,
        value: &T,
    ) -> Result<(), Stopped> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &str,
        _: u32,
        name: &str,
        value: &T,
    ) -> Result<(), Stopped> {
        Parts::of(self.place).field(name, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::of(self.place))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::of(self.place))
    }

    fn serialize_tuple_struct(self, _: &str, _: usize) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::of(self.place))
    }

    fn serialize_tuple_variant(
        self,
        _: &str,
        _: u32,
        name: &str,
        _: usize,
    ) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::within(self.place, name))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'p>, Stopped> {
        Ok(Entries {
            parts: Parts::of(self.place),
            key: String::new(),
        })
    }

    fn serialize_struct(self, _: &str, _: usize) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::of(self.place))
    }

    fn serialize_struct_variant(
        self,
        _: &str,
        _: u32,
        name: &str,
        _: usize,
    ) -> Result<Parts<'p>, Stopped> {
        Ok(Parts::within(self.place, name))
    }
}

impl SerializeSeq for Parts<'_> {
    type Ok = ();
    type Error = Stopped;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stopped> {
        self.element(value)
    }

    fn end(self) -> Result<(), Stopped> {
        Ok(())
    }
}

impl SerializeTuple for Parts<'_> {
    type Ok = ();
    type Error = Stopped;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stopped> {
        self.element(value)
    }

    fn end(self) -> Result<(), Stopped> {
        Ok(())
    }
}

macro_rules! by_place {
    ($($of:ident)*) => {
        $(impl $of for Parts<'_> {
            type Ok = ();
            type Error = Stopped;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stopped> {
                self.element(value)
            }

            fn end(self) -> Result<(), Stopped> {
                Ok(())
            }
        })*
    };
}

by_place!(SerializeTupleStruct SerializeTupleVariant);

macro_rules! by_name {
    ($($of:ident)*) => {
        $(impl $of for Parts<'_> {
            type Ok = ();
            type Error = Stopped;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Stopped> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Stopped> {
                Ok(())
            }
        })*
    };
}

by_name!(SerializeStruct SerializeStructVariant);

/// The entries of a map.
struct Entries<'p> {
    parts: Parts<'p>,
    key: String,
}

impl SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Stopped;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stopped> {
        // JSON makes text of keys that are numbers.
        self.key = match serde_json::to_value(key) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(other) => other.to_string(),
            Err(_) => return Err(Stopped::Custom),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stopped> {
        self.parts.field(&self.key, value)
    }

    fn end(self) -> Result<(), Stopped> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    struct Inner {
        rows: Vec<(u32, f64)>,
        by_name: BTreeMap<String, Option<f64>>,
    }

    #[derive(Serialize)]
    enum Kind {
        Of { value: f32 },
        Whole(Inner),
    }

    #[derive(Serialize)]
    struct Outer {
        name: &'static str,
        #[serde(flatten)]
        inner: Inner,
        kinds: Vec<Kind>,
    }

    fn outer() -> Outer {
        let inner = || Inner {
            rows: vec![(1, 1.0), (2, 2.0)],
            by_name: BTreeMap::from([("a".to_owned(), Some(1.0)), ("b".to_owned(), None)]),
        };
        Outer {
            name: "it",
            inner: inner(),
            kinds: vec![Kind::Of { value: 1.0 }, Kind::Whole(inner())],
        }
    }

    #[track_caller]
    fn place(document: &Outer) -> String {
        match check_finite(document) {
            Err(ReportError::NotFinite { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_that_is_not_finite_is_told_by_its_place() {
        assert!(check_finite(&outer()).is_ok());
        let mut wrong = outer();
        wrong.inner.rows[1].1 = f64::NAN;
        assert_eq!(place(&wrong), "rows[1][1]");
        let mut wrong = outer();
        wrong
            .inner
            .by_name
            .insert("c".to_owned(), Some(f64::INFINITY));
        assert_eq!(place(&wrong), "by_name.c");
        let mut wrong = outer();
        wrong.kinds[0] = Kind::Of { value: f32::NAN };
        assert_eq!(place(&wrong), "kinds[0].Of.value");
        let mut wrong = outer();
        if let Kind::Whole(inner) = &mut wrong.kinds[1] {
            inner.rows[0].1 = f64::NEG_INFINITY;
        }
        assert_eq!(place(&wrong), "kinds[1].Whole.rows[0][1]");
        assert_eq!(wrong.name, "it");
    }
}
