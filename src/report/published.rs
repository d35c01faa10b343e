//! Where rows of a collective are beyond what published tables show, and where a size takes less time
//! than a smaller one.

use super::numbers::{micros, percent, size};
use super::plot::protocol_name;
use super::record::Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What messages of a communicator cross, at the widest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Crossing {
    /// NVLink alone.
    Nvlink,
    /// PCIe, inside a node.
    Pcie,
    /// InfiniBand.
    Infiniband,
    /// RDMA over Ethernet.
    Roce,
    /// AWS's transport.
    Efa,
    /// HPE Slingshot.
    Slingshot,
    /// TCP: sockets, or a plugin for it.
    Tcp,
}

impl Crossing {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Crossing::Nvlink => "NVLink",
            Crossing::Pcie => "PCIe",
            Crossing::Infiniband => "InfiniBand",
            Crossing::Roce => "RoCE",
            Crossing::Efa => "EFA",
            Crossing::Slingshot => "Slingshot",
            Crossing::Tcp => "TCP",
        }
    }
}

/// What published tables show of an algorithm with a protocol, and how far off predictions of them are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableRange {
    /// `all-reduce` …
    pub collective: String,
    /// `ring`, `tree` …
    pub algo: String,
    /// `simple`, `ll`, `ll128`.
    pub proto: String,
    /// What its messages cross.
    pub crosses: Crossing,
    /// Ranks of the smallest and of the largest machine.
    pub ranks: [u32; 2],
    /// Their nodes.
    pub nodes: [u32; 2],
    /// The smallest and the largest size, nccl-tests'.
    pub bytes: [u64; 2],
    /// Sizes of all tables.
    pub rows: u32,
    /// Half of them are predicted as well or better: |predicted / measured − 1|.
    pub median: f64,
    /// … all of them.
    pub most: f64,
}

/// Rows of a collective that no published table is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beyond {
    /// `ring`, `tree` …
    pub algo: String,
    /// `simple`, `ll`, `ll128`.
    pub proto: String,
    /// What its messages cross.
    pub crosses: Crossing,
    /// Ranks of the run.
    pub ranks: u32,
    /// The smallest and the largest size that is beyond, nccl-tests'.
    pub bytes: [u64; 2],
    /// The tables that are nearest: of the same collective, else of another one with this algorithm and
    /// protocol over the same; absent if there are none.
    pub tables: Option<TableRange>,
}

/// A size that takes longer than a larger one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fall {
    /// nccl-tests' size.
    pub bytes: u64,
    /// What it takes, microseconds.
    pub time_us: f64,
    /// NCCL's choice for it: `ring`, `tree` …
    pub algo: String,
    /// … and `simple`, `ll`, `ll128`.
    pub proto: String,
    /// The next larger size.
    pub larger_bytes: u64,
    /// What that takes, microseconds.
    pub larger_us: f64,
    /// NCCL's choice for that.
    pub larger_algo: String,
    /// See there.
    pub larger_proto: String,
}

/// Falls of less than this are not worth a line.
const NOTICED: f64 = 0.03;

impl Beyond {
    /// For people.
    #[must_use]
    pub fn sentence(&self, collective: &str) -> String {
        let crosses = self.crosses.name();
        let what = format!(
            "{} {} over {crosses} on {} GPUs, {}",
            self.algo,
            protocol_name(&self.proto),
            self.ranks,
            between(self.bytes)
        );
        let Some(tables) = &self.tables else {
            return format!(
                "Beyond published tables: {what}; there are none of it over {crosses}."
            );
        };
        let whose = match tables.collective == collective {
            true => "they",
            false => &format!("those of {}", tables.collective),
        };
        format!(
            "Beyond published tables: {what}; {whose} show up to {} GPUs, {}: off by {} in the median, {} at most.",
            tables.ranks[1],
            between(tables.bytes),
            percent(tables.median),
            percent(tables.most),
        )
    }
}

/// A size, or two.
fn between([least, most]: [u64; 2]) -> String {
    let [least, most] = [least, most].map(|bytes| size(bytes as f64));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

impl Fall {
    /// The falls among rows in order of their sizes.
    #[must_use]
    pub fn among(rows: &[Row]) -> Vec<Fall> {
        let falls = |pair: &[Row]| {
            let [small, large] = pair else { return None };
            let falls = small.bytes > 0
                && small.bytes < large.bytes
                && large.time_us < (1.0 - NOTICED) * small.time_us;
            falls.then(|| Fall {
                bytes: small.bytes,
                time_us: small.time_us,
                algo: small.algo.clone(),
                proto: small.proto.clone(),
                larger_bytes: large.bytes,
                larger_us: large.time_us,
                larger_algo: large.algo.clone(),
                larger_proto: large.proto.clone(),
            })
        };
        rows.windows(2).filter_map(falls).collect()
    }

    /// For people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let choice = |algo: &str, proto: &str| format!("{algo} {}", protocol_name(proto));
        let (small, large) = (
            choice(&self.algo, &self.proto),
            choice(&self.larger_algo, &self.larger_proto),
        );
        let why = match small == large {
            true => format!("both by {small}, in other parts"),
            false => format!("NCCL takes {small}, then {large}"),
        };
        format!(
            "{} takes longer than {}, {} and {}: {why}.",
            size(self.bytes as f64),
            size(self.larger_bytes as f64),
            micros(self.time_us),
            micros(self.larger_us),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beyond(tables: Option<TableRange>) -> Beyond {
        Beyond {
            algo: "ring".into(),
            proto: "ll128".into(),
            crosses: Crossing::Infiniband,
            ranks: 64,
            bytes: [1 << 28, 1 << 28],
            tables,
        }
    }

    #[test]
    fn what_no_table_shows_is_said_with_the_nearest() {
        let none = "Beyond published tables: ring LL128 over InfiniBand on 64 GPUs, 256 MiB; there are none \
                    of it over InfiniBand.";
        assert_eq!(beyond(None).sentence("all-reduce"), none);
        let tables = TableRange {
            collective: "all-gather".into(),
            algo: "ring".into(),
            proto: "ll128".into(),
            crosses: Crossing::Infiniband,
            ranks: [16, 80],
            nodes: [2, 10],
            bytes: [1 << 20, 1 << 27],
            rows: 12,
            median: 0.034,
            most: 0.31,
        };
        let text = beyond(Some(tables)).sentence("all-reduce");
        let end = "those of all-gather show up to 80 GPUs, 1 MiB to 128 MiB: off by 3.4 % in the median, 31 % at \
                   most.";
        assert!(text.ends_with(end), "{text}");
    }
}
