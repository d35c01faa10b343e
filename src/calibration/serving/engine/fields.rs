//! What a row says, or else its table.

use super::super::table::ServingTable;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A row of a table.
#[derive(Clone, Copy)]
pub(super) struct Fields<'t> {
    pub(super) table: &'t ServingTable,
    pub(super) row: &'t Map<String, Value>,
}

impl<'t> Fields<'t> {
    /// The first of these names that the row has; if it has none of them, the first that the table's layout or
    /// settings have.
    pub(super) fn value(&self, names: &[&str]) -> Option<&'t Value> {
        let of_row = names.iter().find_map(|name| said(self.row.get(*name)));
        of_row.or_else(|| {
            let places = [&self.table.layout, &self.table.settings];
            names
                .iter()
                .find_map(|name| places.iter().find_map(|place| said(place.get(*name))))
        })
    }

    /// The same as a number that is finite.
    pub(super) fn number(&self, names: &[&str]) -> Option<f64> {
        number(self.value(names)?)
    }

    /// The same as a positive whole number.
    pub(super) fn count(&self, names: &[&str]) -> Option<u32> {
        let number = self.number(names)?.round();
        (1.0..=f64::from(u32::MAX))
            .contains(&number)
            .then_some(number as u32)
    }

    /// The same as text.
    pub(super) fn text(&self, names: &[&str]) -> Option<&'t str> {
        self.value(names)?.as_str()
    }

    /// A positive number of the row itself.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        number(self.row.get(name)?).filter(|figure| *figure > 0.0)
    }

    /// Whether the row is marked so.
    pub(super) fn is(&self, name: &str) -> bool {
        match self.row.get(name) {
            Some(Value::Bool(is)) => *is,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        }
    }

    /// What the table's settings say of the load, in words.
    pub(super) fn words(&self, name: &str) -> &'t str {
        let text = self.table.settings.get(name).and_then(Value::as_str);
        text.unwrap_or_default()
    }
}

fn said(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

/// Flags that a server was started with.
#[derive(Debug, Default)]
pub(super) struct Flags {
    known: BTreeMap<String, String>,
}

impl Flags {
    /// Those of a benchmark's scripts for a precision, and those of a command line in the row.
    pub(super) fn of(fields: &Fields<'_>, precision: Option<&str>) -> Flags {
        let mut flags = Flags::default();
        let scripts = fields
            .table
            .settings
            .get("server_flags_of_the_benchmark_scripts");
        let scripts = scripts.and_then(|scripts| scripts.get("by_precision"));
        let own = scripts.and_then(|all| all.get(precision.unwrap_or_default()));
        let list = own
            .and_then(|own| own.get("flags"))
            .and_then(Value::as_array);
        for flag in list.into_iter().flatten().filter_map(Value::as_str) {
            let (name, value) = flag.split_once(['=', ':']).unwrap_or((flag, ""));
            flags.add(name, value);
        }
        let line = fields.row.get("launch_flags").and_then(Value::as_str);
        let mut words = line.unwrap_or_default().split_whitespace().peekable();
        while let Some(word) = words.next() {
            let value = words.next_if(|next| !next.starts_with("--"));
            flags.add(word, value.unwrap_or_default());
        }
        flags
    }

    fn add(&mut self, name: &str, value: &str) {
        let name = name.trim().trim_start_matches('-');
        let name = name.to_ascii_lowercase().replace('_', "-");
        self.known
            .entry(name)
            .or_insert_with(|| value.trim().to_owned());
    }

    /// The value of the first of these flags that is there.
    pub(super) fn text(&self, names: &[&str]) -> Option<&str> {
        let found = names.iter().find_map(|name| self.known.get(*name));
        found.map(String::as_str)
    }

    /// The same as a number; of `512 | 256` the first.
    pub(super) fn number(&self, names: &[&str]) -> Option<f64> {
        let text = self.text(names)?;
        text.split('|').next()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_of_another_form_counts_as_not_said() {
        let table = ServingTable {
            settings: json!({"concurrency": 8, "load": ["closed"]}),
            ..ServingTable::default()
        };
        let row =
            json!({"tp": "4", "pp": null, "ttft_ms": "n/a", "tpot_ms": -1, "output_tokens": 0.2});
        let fields = Fields {
            table: &table,
            row: row.as_object().unwrap(),
        };
        assert_eq!(fields.count(&["tp"]), Some(4));
        assert_eq!(fields.count(&["pp"]), None);
        assert_eq!(fields.count(&["output_tokens"]), None);
        assert_eq!(fields.count(&["users", "concurrency"]), Some(8));
        assert_eq!(fields.figure("ttft_ms"), None);
        assert_eq!(fields.figure("tpot_ms"), None);
        assert_eq!(fields.words("load"), "");
    }

    #[test]
    fn flags_are_those_of_the_precision_and_of_the_command_line() {
        let table = ServingTable {
            settings: json!({"server_flags_of_the_benchmark_scripts": {"by_precision": {
                "fp8": {"flags": ["max-num-seqs = $CONC", "kv_cache_config = fp8", "max-running-requests = 512 | 256"]},
            }}}),
            ..ServingTable::default()
        };
        let row = json!({"launch_flags": "--tp 8 --enable-dp-attention --mem-fraction-static 0.8"});
        let fields = Fields {
            table: &table,
            row: row.as_object().unwrap(),
        };
        let flags = Flags::of(&fields, Some("fp8"));
        assert_eq!(flags.text(&["max-num-seqs"]), Some("$CONC"));
        assert_eq!(flags.number(&["max-num-seqs"]), None);
        assert_eq!(flags.number(&["max-running-requests"]), Some(512.0));
        assert_eq!(flags.number(&["mem-fraction-static"]), Some(0.8));
        assert_eq!(flags.text(&["enable-dp-attention"]), Some(""));
        assert!(
            Flags::of(&fields, Some("fp4"))
                .text(&["kv-cache-config"])
                .is_none()
        );
    }
}
