//! Rows with their predictions, gathered into sets, and what is skipped, by reason.

use super::table::ServingTable;
use fabricsim_report::validation::{ServingRow, ServingSet, ServingSkip};

/// What is gathered.
#[derive(Default)]
pub(super) struct Sets {
    pub(super) sets: Vec<ServingSet>,
    pub(super) skipped: Vec<ServingSkip>,
}

impl Sets {
    /// A row: its table and group, what it is of and what was measured, and measured and predicted in a unit.
    pub(super) fn row(
        &mut self,
        (table, group): (&ServingTable, &str),
        (name, quantity): (String, &str),
        (measured, predicted, unit): (f64, f64, &'static str),
    ) {
        let row = ServingRow {
            name,
            quantity: quantity.to_owned(),
            measured,
            predicted,
            unit,
        };
        let of = |set: &&mut ServingSet| set.id == table.id && set.group == group;
        match self.sets.iter_mut().find(of) {
            Some(set) => set.rows.push(row),
            None => self.sets.push(ServingSet {
                id: table.id.clone(),
                kind: table.kind.clone(),
                group: group.to_owned(),
                rows: vec![row],
                runs: Vec::new(),
            }),
        }
    }

    /// Rows that are not predicted.
    pub(super) fn skip(&mut self, table: &ServingTable, why: &str, rows: usize) {
        let of = |skip: &&mut ServingSkip| skip.id == table.id && skip.why == why;
        match self.skipped.iter_mut().find(of) {
            Some(skip) => skip.rows += rows,
            None => self.skipped.push(ServingSkip {
                id: table.id.clone(),
                why: why.to_owned(),
                rows,
            }),
        }
    }
}
