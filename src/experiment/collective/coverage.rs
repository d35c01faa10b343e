//! What published tables show of NCCL's choices, and what of a run is beyond them.
//!
//! `fabricsim validate FILES --coverage validation/coverage.json` writes the file that is compiled in.

use fabricsim_nccl::{Algorithm, Communicator};
use fabricsim_report::published::{Beyond, Crossing, TableRange};
use fabricsim_report::record::{CollectiveResult, Row};
use fabricsim_topology::hardware::NicProtocol;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Ranges of published tables, and how far off predictions of them are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// What wrote it.
    pub comment: String,
    /// By collective, algorithm, protocol and what messages cross.
    pub choices: Vec<TableRange>,
}

/// Those that the program carries with it.
fn shipped() -> Option<&'static Coverage> {
    static SHIPPED: OnceLock<Option<Coverage>> = OnceLock::new();
    let text = include_str!("../../../validation/coverage.json");
    SHIPPED
        .get_or_init(|| serde_json::from_str(text).ok())
        .as_ref()
}

/// What a communicator's messages cross.
#[must_use]
pub fn crossing(communicator: &Communicator<'_>) -> Crossing {
    match communicator.network() {
        None if communicator.one_domain() => Crossing::Nvlink,
        None => Crossing::Pcie,
        Some(NicProtocol::Infiniband) => Crossing::Infiniband,
        Some(NicProtocol::Roce) => Crossing::Roce,
        Some(NicProtocol::Efa) => Crossing::Efa,
        Some(NicProtocol::Slingshot) => Crossing::Slingshot,
        Some(NicProtocol::Tcp) => Crossing::Tcp,
    }
}

/// The rows that no published table is like, one entry an algorithm and protocol: on more ranks than any
/// table has, or of a size beyond all of theirs.
pub(super) fn beyond(result: &CollectiveResult, crosses: Crossing) -> Vec<Beyond> {
    match shipped() {
        Some(coverage) => coverage.beyond(result, crosses),
        None => Vec::new(),
    }
}

impl Coverage {
    fn beyond(&self, result: &CollectiveResult, crosses: Crossing) -> Vec<Beyond> {
        let mut found: Vec<Beyond> = Vec::new();
        for row in result.rows.iter().filter(|row| is_nccls(row)) {
            let tables = self.nearest(&result.collective, row, crosses);
            let shown = |tables: &TableRange| {
                tables.collective == result.collective
                    && result.ranks <= tables.ranks[1]
                    && (tables.bytes[0]..=tables.bytes[1]).contains(&row.bytes)
            };
            if tables.is_some_and(shown) {
                continue;
            }
            let same = |b: &&mut Beyond| b.algo == row.algo && b.proto == row.proto;
            match found.iter_mut().find(same) {
                Some(known) => known.bytes[1] = row.bytes,
                None => found.push(Beyond {
                    algo: row.algo.clone(),
                    proto: row.proto.clone(),
                    crosses,
                    ranks: result.ranks,
                    bytes: [row.bytes; 2],
                    tables: tables.cloned(),
                }),
            }
        }
        found
    }

    /// The tables of a row's choice: of its collective, else those of another one with most rows.
    fn nearest(&self, collective: &str, row: &Row, crosses: Crossing) -> Option<&TableRange> {
        let alike = self.choices.iter().filter(|tables| {
            (tables.crosses == crosses) && (tables.algo == row.algo && tables.proto == row.proto)
        });
        alike.max_by_key(|tables| (tables.collective == collective, tables.rows))
    }
}

/// Whether NCCL's algorithms made a row; of others nobody publishes tables.
fn is_nccls(row: &Row) -> bool {
    let named = Algorithm::NCCL.iter().any(|a| a.name() == row.algo);
    named || row.algo == Algorithm::PointToPoint.name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_ranges_are_read_and_in_order() {
        let known = shipped().unwrap();
        assert!(known.choices.len() > 20);
        for tables in &known.choices {
            assert!(tables.ranks[0] <= tables.ranks[1], "{tables:?}");
            assert!(tables.bytes[0] <= tables.bytes[1], "{tables:?}");
            assert!(tables.median <= tables.most, "{tables:?}");
        }
    }

    #[test]
    fn rows_are_beyond_by_ranks_size_or_choice() {
        let text = r#"{"comment": "", "choices": [
            {"collective": "all-reduce", "algo": "ring", "proto": "ll128", "crosses": "infiniband",
             "ranks": [4, 20], "nodes": [2, 10], "bytes": [1024, 4096], "rows": 9, "median": 0.02, "most": 0.2},
            {"collective": "all-gather", "algo": "ring", "proto": "ll128", "crosses": "infiniband",
             "ranks": [4, 80], "nodes": [2, 10], "bytes": [1024, 8192], "rows": 99, "median": 0.02, "most": 0.2}]}"#;
        let coverage: Coverage = serde_json::from_str(text).unwrap();
        let found = |(collective, algo): (&str, &str), ranks, sizes: &[u64], crosses| {
            let rows = sizes.iter().map(|&bytes| Row {
                bytes,
                algo: algo.to_owned(),
                proto: "ll128".to_owned(),
                ..crate::collective::run::nothing()
            });
            let result = CollectiveResult {
                gpus_per_node: 1,
                ranks,
                collective: collective.to_owned(),
                rows: rows.collect(),
                ..CollectiveResult::default()
            };
            let beyond = coverage.beyond(&result, crosses);
            let tables = |b: &Beyond| b.tables.as_ref().map(|t| t.collective.clone());
            beyond
                .iter()
                .map(|b| (b.bytes, tables(b)))
                .collect::<Vec<_>>()
        };
        let (ib, sum) = (Crossing::Infiniband, ("all-reduce", "ring"));
        let own = Some("all-reduce".to_owned());
        assert_eq!(found(sum, 20, &[1024, 4096], ib), []);
        assert_eq!(found(sum, 20, &[8, 16, 2048], ib), [([8, 16], own.clone())]);
        assert_eq!(found(sum, 24, &[2048], ib), [([2048; 2], own)]);
        let scatter = found(("reduce-scatter", "ring"), 8, &[2048], ib);
        assert_eq!(scatter, [([2048; 2], Some("all-gather".to_owned()))]);
        assert_eq!(found(sum, 8, &[2048], Crossing::Efa), [([2048; 2], None)]);
        // Of algorithms that are not NCCL's nothing is said.
        assert_eq!(found(("all-reduce", "mesh"), 8, &[2048], ib), []);
    }
}
