//! Published profiles of kernels, and what the laws say of them.

use super::columns::{self, Operator, Row};
use super::models;
use super::table::ServingTable;
use fabricsim_report::validation::{ServingRow, ServingSet, ServingSkip};
use fabricsim_topology::hardware::{DeviceModel, GpuModel, LinkFamily};
use fabricsim_topology::{Hardware, Overrides, catalogue, expand, load};
use fabricsim_units::{Bandwidth, Time};
use fabricsim_workload::kernel::{Kernel, KernelLaw, KernelParameters};
use std::collections::BTreeMap;

/// A GPU of tables, by the beginning of what they call it: its model, and a shipped machine of them.
const GPUS: [(&str, &str, &str); 8] = [
    ("a100", "a100-sxm-80gb", "dgx-a100"),
    ("l40s", "l40s", "l40s-pcie"),
    ("h100", "h100-sxm", "dgx-h100"),
    ("h200", "h200", "dgx-h200"),
    ("b200", "b200", "dgx-b200"),
    ("gb200", "gb200", "gb200-nvl72"),
    ("b300", "b300", "dgx-b300"),
    ("gb300", "gb300", "gb300-nvl72"),
];

/// Versions of published tables that are wrong, from comparing them with the peaks and with each
/// other: engine, release, GPUs (none: all), operators, what is wrong.
type Fault = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [Operator],
    &'static str,
);

const DECODE: &[Operator] = &[Operator::Decode];
const ATTENTION: &[Operator] = &[Operator::Decode, Operator::Prefill];
const ABOVE: &str = "a release whose profile exceeds the memory's peak: keys found in the cache";
const SLOW: &str = "a release whose profile is many times slower than others of the same kernel";
const FAULTS: [Fault; 10] = [
    ("trtllm", "1.0.0", &[], DECODE, ABOVE),
    ("trtllm", "1.2.0rc5", &[], DECODE, ABOVE),
    ("trtllm", "1.3.0rc10", &[], DECODE, ABOVE),
    ("trtllm", "1.3.0rc15", &[], DECODE, ABOVE),
    ("trtllm", "1.3.0rc17", &[], DECODE, ABOVE),
    ("sglang", "0.5.12", &["l40s"], ATTENTION, ABOVE),
    ("vllm", "0.19", &["h200"], &[Operator::Prefill], ABOVE),
    ("sglang", "0.5.10", &["b200"], &[Operator::Prefill], ABOVE),
    (
        "sglang",
        "0.5.6.post2",
        &["h100-sxm"],
        &[Operator::Moe],
        SLOW,
    ),
    (
        "vllm",
        "0.24",
        &["h100-sxm", "h200"],
        &[Operator::Moe],
        SLOW,
    ),
];

/// A kernel that was measured.
#[derive(Debug, Clone)]
pub struct KernelRow {
    /// Its table.
    pub id: String,
    /// The GPU's model.
    pub gpu: &'static str,
    /// The GPU's generation.
    pub generation: String,
    /// What it is of.
    pub operator: Operator,
    /// The data type, as the table has it.
    pub data: String,
    /// Its shape.
    pub kernel: Kernel,
    /// As published.
    pub micros: f64,
    /// Twice as much work is one more: the logarithm of what the peaks allow.
    pub octave: i32,
    /// The octave of its size, by which rows may be weighted in a fit: of a product its tokens, since
    /// shapes of weights differ little; else as `octave`.
    pub size: i32,
}

impl KernelRow {
    /// What it counts together with: GPU, operator and data type.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{} {} {}", self.gpu, self.operator.name(), self.data)
    }

    /// The GPU's model.
    ///
    /// # Panics
    /// Never: rows are only read for GPUs of the catalogue.
    #[must_use]
    pub fn model(&self) -> &'static GpuModel {
        model(self.gpu, catalogue::hardware()).expect("rows are of GPUs in the catalogue")
    }
}

/// What profiles have, and what is left out of them.
#[derive(Debug, Clone, Default)]
pub struct KernelTables {
    /// Rows, in the order of tables.
    pub rows: Vec<KernelRow>,
    /// What is left out, counted by table and reason.
    pub skipped: Vec<ServingSkip>,
}

impl KernelTables {
    /// Reads tables of profiles.
    ///
    /// # Errors
    /// Rows that have the columns of a kernel, but other values than those.
    pub fn read(tables: &[&ServingTable]) -> Result<KernelTables, String> {
        let mut read = KernelTables::default();
        for table in tables {
            read.table(table)?;
        }
        Ok(read)
    }

    fn table(&mut self, table: &ServingTable) -> Result<(), String> {
        let mut left: BTreeMap<&'static str, usize> = BTreeMap::new();
        let Some((gpu, law, port)) = machine(table) else {
            let rows = table.rows.len();
            self.skip(table, "a GPU that has no law", rows);
            return Ok(());
        };
        let shape = table.model.name.as_deref().and_then(models::of);
        let mut kept: Vec<KernelRow> = Vec::new();
        for row in &table.rows {
            let read = match columns::read(table, row, (shape, port))? {
                Row::Read(read) => read,
                Row::Skip(why) => {
                    *left.entry(why).or_default() += 1;
                    continue;
                }
            };
            for found in read {
                let fault = fault(table, gpu, found.operator);
                let least = law.least_profiled(&found.kernel).micros();
                let good = found.micros.is_finite() && found.micros > 0.0;
                let why = match fault {
                    Some(why) => Some(why),
                    None if !good => Some("a time that no clock can have measured"),
                    None if found.micros < least => Some("faster than the GPU's peaks allow"),
                    None => None,
                };
                if let Some(why) = why {
                    *left.entry(why).or_default() += 1;
                    continue;
                }
                let octave = octave(law.bound(&found.kernel));
                kept.push(KernelRow {
                    id: table.id.clone(),
                    gpu,
                    generation: model(gpu, catalogue::hardware())
                        .map_or_else(String::new, |m| m.architecture.clone()),
                    operator: found.operator,
                    octave,
                    size: match &found.kernel {
                        Kernel::Gemm(shape) => shape.m.max(1).ilog2() as i32,
                        _ => octave,
                    },
                    data: found.data,
                    kernel: found.kernel,
                    micros: found.micros,
                });
            }
        }
        let before = kept.len();
        let slow = host_bound(&kept, &law);
        kept.retain(|row| !slow.contains(&row.data));
        if kept.len() < before {
            let why = "the host starts each kernel: none takes less than 100 us, whatever its size";
            *left.entry(why).or_default() += before - kept.len();
        }
        self.rows.extend(kept);
        for (why, rows) in left {
            self.skip(table, why, rows);
        }
        Ok(())
    }

    fn skip(&mut self, table: &ServingTable, why: &str, rows: usize) {
        self.skipped.push(ServingSkip {
            id: table.id.clone(),
            why: why.to_owned(),
            rows,
        });
    }

    /// What the shipped laws say of all rows.
    #[must_use]
    pub fn predicted(&self) -> Vec<ServingSet> {
        let mut laws: BTreeMap<&str, Option<KernelLaw<'static>>> = BTreeMap::new();
        let mut sets: Vec<ServingSet> = Vec::new();
        for row in &self.rows {
            let law = laws
                .entry(row.gpu)
                .or_insert_with(|| KernelLaw::with(row.model(), KernelParameters::shipped()));
            let Some(law) = law else { continue };
            let predicted = ServingRow {
                name: describe(&row.kernel),
                quantity: "kernel time".to_owned(),
                measured: Time::round_micros(row.micros),
                predicted: law.profiled(&row.kernel).micros(),
                unit: "us",
            };
            let group = row.group();
            match sets
                .iter_mut()
                .rev()
                .find(|s| s.id == row.id && s.group == group)
            {
                Some(set) => set.rows.push(predicted),
                None => sets.push(ServingSet {
                    id: row.id.clone(),
                    kind: super::KERNEL_PROFILES.to_owned(),
                    group,
                    rows: vec![predicted],
                    runs: Vec::new(),
                }),
            }
        }
        sets
    }
}

/// The GPU of a table, its law, and what it reads from its peers.
fn machine(table: &ServingTable) -> Option<(&'static str, KernelLaw<'static>, Option<Bandwidth>)> {
    let said = table.system.gpu.as_deref()?.to_lowercase();
    let first = said.split([' ', '-', '(']).next()?;
    let (_, gpu, machine) = GPUS.iter().find(|(name, ..)| *name == first)?;
    let law = KernelLaw::new(model(gpu, catalogue::hardware())?)?;
    Some((gpu, law, port(machine)))
}

fn model<'h>(gpu: &str, hardware: &'h Hardware) -> Option<&'h GpuModel> {
    match hardware.devices.get(gpu)? {
        DeviceModel::Gpu(model) => Some(model),
        _ => None,
    }
}

/// What a GPU of a shipped machine reads over NVLink, before any loss; `None` without.
fn port(machine: &str) -> Option<Bandwidth> {
    let spec = load::parse(catalogue::text(machine)?, machine).ok()?;
    let topology = expand(&spec, catalogue::hardware(), &Overrides::default()).ok()?;
    let gpu = topology.gpus().next()?;
    let links = topology.links_from(gpu).into_iter();
    let links = links.filter(|&(link, _)| topology.family(link) == LinkFamily::Nvlink);
    let rate: u64 = links
        .map(|(link, _)| topology.raw_rate(link).bytes_per_sec())
        .sum();
    (rate > 0).then(|| Bandwidth::from_bytes_per_sec(rate))
}

/// What is known to be wrong with a table's rows of an operator.
fn fault(table: &ServingTable, gpu: &str, operator: Operator) -> Option<&'static str> {
    let engine = table.software.engine.as_deref()?;
    let version = table.software.version.as_deref()?;
    let same = |known: &str| {
        version == known
            || version
                .strip_prefix(known)
                .is_some_and(|rest| rest.starts_with('.') && known.matches('.').count() == 1)
    };
    let found = FAULTS.iter().find(|(by, release, gpus, operators, _)| {
        *by == engine
            && same(release)
            && (gpus.is_empty() || gpus.contains(&gpu))
            && operators.contains(&operator)
    });
    found.map(|(.., why)| *why)
}

/// Data types of a table whose fastest row takes far longer than the smallest one could.
fn host_bound(rows: &[KernelRow], law: &KernelLaw<'_>) -> Vec<String> {
    let mut least: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in rows {
        let (micros, bound) = least.entry(&row.data).or_insert((f64::MAX, f64::MAX));
        *micros = micros.min(row.micros);
        *bound = bound.min(law.bound(&row.kernel).micros());
    }
    let slow = least.into_iter();
    let slow = slow.filter(|(_, (micros, bound))| *micros > 100.0 && *micros > 20.0 * bound);
    slow.map(|(data, _)| data.to_owned()).collect()
}

fn octave(bound: Time) -> i32 {
    (bound.picos().max(1) as f64).log2().floor() as i32
}

/// A shape for people.
fn describe(kernel: &Kernel) -> String {
    match kernel {
        Kernel::Gemm(s) => format!("{} x {} x {}", s.m, s.n, s.k),
        Kernel::Products(s) => format!("{} of {} x {} x {}", s.batch, s.m, s.n, s.k),
        Kernel::AttentionPrefill(s) => format!(
            "{} x {} tokens, {} of {} heads",
            s.sequences, s.tokens, s.kv_heads, s.heads
        ),
        Kernel::AttentionDecode(s) => format!(
            "{} x {} cached, {} of {} heads",
            s.sequences,
            s.context / s.sequences.max(1),
            s.kv_heads,
            s.heads
        ),
        Kernel::MlaPrefill(s) => {
            format!("{} x {} tokens, {} heads", s.sequences, s.tokens, s.heads)
        }
        Kernel::MlaDecode(s) => format!(
            "{} x {} cached, {} heads",
            s.sequences,
            s.context / s.sequences.max(1),
            s.heads
        ),
        Kernel::Moe(s) => format!(
            "{} tokens on {} experts of {} x {}",
            s.load.tokens(),
            s.load.experts(),
            s.hidden,
            s.inter
        ),
        Kernel::Small(s) => format!("{} rows of {} bytes", s.rows, s.row),
        Kernel::AllReduce(s) => format!("{} among {}", s.size, s.ranks),
    }
}
