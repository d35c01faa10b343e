//! What monitoring of a run would have shown: bytes of links and times of kernels, as series of
//! samples under DCGM's and node_exporter's names.
//!
//! Bytes are those of links over time, so that a series' sum is what its links carried. A GPU is
//! active while a kernel runs: all of its SMs in kernels of a model, one for each channel in a
//! communication's. Memory of the GPU also carries once what its links carry. Power lies between that of
//! a GPU without work and that of a busy one, by the time in which a model's kernels run, as a
//! machine's bill has it.

mod collective;
mod job;
mod levels;

pub use job::{Activity, Both};

use fabricsim_report::spread;
use fabricsim_report::telemetry::{
    Field, GpuSeries, MAX_VALUES, PortSeries, SAMPLES, Telemetry, samples,
};
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, LinkId, Topology};
use fabricsim_units::{Bytes, Time};
use levels::{Busy, Levels};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why there are no series.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// More values than anyone reads.
    #[error(
        "a sample each {} is {count} values: expected {} or more", sample.human(), least.human()
    )]
    TooMany {
        /// What was asked for.
        sample: Time,
        /// How many values that is.
        count: u64,
        /// What would do.
        least: Time,
    },
}

/// Whose series, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'w> {
    /// The machine.
    pub topology: &'w Topology,
    /// The GPU of each rank.
    pub gpus: &'w [DeviceId],
    /// The time from sample to sample; if it is not given, there are 200 of them.
    pub sample: Option<Time>,
    /// The memory that is taken on each GPU, in the order of `gpus`; none where that is not known.
    pub memory: &'w [Option<Bytes>],
}

/// Series that are being filled.
struct Filling<'w> {
    wanted: Wanted<'w>,
    sample: Time,
    end: Time,
    count: usize,
    /// GPUs that have a series, each once, and by rank which.
    gpus: Vec<DeviceId>,
    of_rank: Vec<usize>,
    ports: Vec<DeviceId>,
    /// Bytes by sample: rows of each GPU as in `LINKS`, then two a port.
    rows: Vec<Vec<f64>>,
    /// The rows that a link's bytes go to.
    of_link: FxHashMap<LinkId, SmallVec<[usize; 2]>>,
    levels: Vec<Levels>,
}

/// The links of a GPU that have series: what goes out of it, and what comes in.
const LINKS: [(LinkFamily, [Field; 2]); 3] = [
    (LinkFamily::Nvlink, [Field::NvlinkTx, Field::NvlinkRx]),
    (LinkFamily::Pcie, [Field::PcieTx, Field::PcieRx]),
    (LinkFamily::C2c, [Field::C2cTx, Field::C2cRx]),
];

/// Rows of a GPU.
const GPU_ROWS: usize = LINKS.len() * 2;

impl<'w> Filling<'w> {
    fn new(wanted: Wanted<'w>, end: Time) -> Result<Self, TelemetryError> {
        let topology = wanted.topology;
        let mut gpus: Vec<DeviceId> = Vec::new();
        let mut known: FxHashMap<DeviceId, usize> = FxHashMap::default();
        let mut of_rank = Vec::new();
        for &gpu in wanted.gpus {
            let place = *known.entry(gpu).or_insert_with(|| {
                gpus.push(gpu);
                gpus.len() - 1
            });
            of_rank.push(place);
        }
        let nodes: BTreeSet<_> = gpus
            .iter()
            .filter_map(|&gpu| topology.node_of(gpu))
            .collect();
        let nics = nodes
            .iter()
            .flat_map(|node| topology.nodes[node.0 as usize].nics.iter().copied());
        let ports: Vec<DeviceId> = nics.collect();
        let whole = end.picos().div_ceil(SAMPLES).max(1);
        let sample = wanted.sample.unwrap_or(Time::from_picos(whole));
        let of_c2c = gpus.iter().filter(|&&gpu| c2c_links(topology, gpu) > 0);
        let fields = gpus.len() * (Field::ALL.len() - Field::OF_C2C.len())
            + of_c2c.count() * Field::OF_C2C.len();
        let series = (fields + ports.len() * 2) as u64;
        let all = end
            .picos()
            .div_ceil(sample.picos().max(1))
            .saturating_mul(series);
        if all > MAX_VALUES {
            let most = (MAX_VALUES / series.max(1)).max(1);
            return Err(TelemetryError::TooMany {
                sample,
                count: all,
                least: Time::from_picos(end.picos().div_ceil(most)),
            });
        }
        let count = samples(sample, end);
        let mut filling = Filling {
            wanted,
            sample,
            end,
            count,
            rows: vec![vec![0.0; count]; gpus.len() * GPU_ROWS + ports.len() * 2],
            of_link: FxHashMap::default(),
            levels: gpus.iter().map(|_| Levels::default()).collect(),
            gpus,
            of_rank,
            ports,
        };
        filling.join();
        Ok(filling)
    }

    /// Finds the rows of each link.
    fn join(&mut self) {
        let topology = self.wanted.topology;
        let places = |devices: &[DeviceId]| -> FxHashMap<DeviceId, usize> {
            devices.iter().copied().zip(0..).collect()
        };
        let (gpus, ports) = (places(&self.gpus), places(&self.ports));
        for (link, _) in topology.links() {
            let (from, to) = topology.ends(link);
            let family = topology.family(link);
            let pair = LINKS.iter().position(|(own, _)| *own == family);
            for (device, side) in [(from, 0), (to, 1)] {
                let row = match (pair, family) {
                    (Some(pair), _) => gpus
                        .get(&device)
                        .map(|gpu| gpu * GPU_ROWS + pair * 2 + side),
                    (None, LinkFamily::Network) => ports
                        .get(&device)
                        .map(|port| gpus.len() * GPU_ROWS + port * 2 + side),
                    (None, _) => None,
                };
                if let Some(row) = row {
                    self.of_link.entry(link).or_default().push(row);
                }
            }
        }
    }

    /// Bytes went over a link, evenly from one time to another.
    fn carried(&mut self, link: LinkId, (from, to): (Time, Time), bytes: f64) {
        let Some(rows) = self.of_link.get(&link) else {
            return;
        };
        for &row in rows {
            spread(&mut self.rows[row], self.sample, (from, to), bytes);
        }
    }

    /// Something kept a rank's GPU busy.
    fn busy(&mut self, rank: usize, busy: Busy) {
        if let Some(&gpu) = self.of_rank.get(rank) {
            self.levels[gpu].add(busy);
        }
    }

    /// The series; `without` names fields of which there is none, with the reason.
    fn finish(mut self, without: Vec<(&[Field], &str)>) -> Telemetry {
        let topology = self.wanted.topology;
        let mut empty = Telemetry {
            sample: self.sample,
            end: self.end,
            ..Telemetry::default()
        };
        let seconds: Vec<f64> = (0..self.count)
            .map(|index| {
                let (start, end) = empty.span(index);
                end.saturating_sub(start).seconds().max(f64::MIN_POSITIVE)
            })
            .collect();
        let mut unknown_power: BTreeSet<String> = BTreeSet::new();
        let mut gpus = Vec::with_capacity(self.gpus.len());
        for (place, &gpu) in self.gpus.iter().enumerate() {
            let levels = std::mem::take(&mut self.levels[place]);
            let times = levels.times(self.sample, self.count);
            let over = |values: &[f64]| -> Vec<f64> {
                values.iter().zip(&seconds).map(|(v, s)| v / s).collect()
            };
            let ratio = |values: &[f64]| -> Vec<f64> {
                over(values).into_iter().map(|part| part.min(1.0)).collect()
            };
            let own = &self.rows[place * GPU_ROWS..(place + 1) * GPU_ROWS];
            let mut fields: BTreeMap<Field, Vec<f64>> = BTreeMap::new();
            let links = LINKS.iter().flat_map(|(_, fields)| *fields);
            for (field, row) in links.zip(own) {
                fields.insert(field, over(row));
            }
            match c2c_links(topology, gpu) {
                0 => fields.retain(|field, _| !Field::OF_C2C.contains(field)),
                links => {
                    fields.insert(Field::C2cLinks, vec![f64::from(links); self.count]);
                }
            }
            let model = topology.gpu_model(gpu);
            if let Some(model) = model {
                let memory = model.memory_bandwidth.value.bytes_per_sec() as f64;
                let through = (0..self.count).map(|index| {
                    let bytes: f64 = own.iter().map(|row| row[index]).sum();
                    times.dram[index] + bytes / memory
                });
                let through: Vec<f64> = through.collect();
                fields.insert(Field::DramActive, ratio(&through));
            }
            fields.insert(Field::SmActive, ratio(&times.sms));
            fields.insert(Field::TensorActive, ratio(&times.tensor));
            let any = ratio(&times.any).into_iter().map(|part| part * 100.0);
            fields.insert(Field::GpuUtil, any.collect());
            let power = model.and_then(|model| model.power.as_ref());
            match power.and_then(|power| Some((power.idle.as_ref()?, power.busy.as_ref()?))) {
                Some((idle, busy)) => {
                    let (idle, busy) = (idle.value.watts(), busy.value.watts());
                    let drawn = ratio(&times.kernels).into_iter();
                    let drawn = drawn.map(|part| idle + (busy - idle) * part);
                    fields.insert(Field::Power, drawn.collect());
                }
                None => {
                    unknown_power.insert(topology.device_name(gpu));
                }
            }
            let taken = self.wanted.memory.get(place).copied().flatten();
            if let Some(taken) = taken {
                let mebibytes = taken.get() as f64 / f64::from(1 << 20);
                fields.insert(Field::FbUsed, vec![mebibytes; self.count]);
            }
            for (fields_left_out, _) in &without {
                fields.retain(|field, _| !fields_left_out.contains(field));
            }
            gpus.push(GpuSeries {
                host: host(topology, gpu),
                gpu: number(topology, gpu),
                fields,
            });
        }
        for (fields, why) in &without {
            let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
            empty
                .left_out
                .push(format!("No {}: {why}.", names.join(", ")));
        }
        if let Some(first) = unknown_power.first() {
            let name = Field::Power.name();
            empty.left_out.push(format!(
                "No {name} of {} GPUs, of which {first} is the first: their model has no `power`.",
                unknown_power.len()
            ));
        }
        if gpus
            .iter()
            .all(|gpu| !gpu.fields.contains_key(&Field::FbUsed))
        {
            let name = Field::FbUsed.name();
            empty.left_out.push(format!(
                "No {name}: what this job takes of memory is not known."
            ));
        }
        let first = self.gpus.len() * GPU_ROWS;
        let ports = self.ports.iter().enumerate().map(|(place, &nic)| {
            let row = first + place * 2;
            let (device, port) = port(topology, nic);
            PortSeries {
                host: host(topology, nic),
                device,
                port,
                transmitted: std::mem::take(&mut self.rows[row]),
                received: std::mem::take(&mut self.rows[row + 1]),
            }
        });
        Telemetry {
            ports: ports.collect(),
            gpus,
            ..empty
        }
    }
}

/// How many links a GPU's NVLink-C2C is made up of.
fn c2c_links(topology: &Topology, gpu: DeviceId) -> u32 {
    let c2c = topology
        .links_out_of(gpu)
        .filter(|&(link, _)| topology.family(link) == LinkFamily::C2c);
    c2c.map(|(link, _)| u32::from(topology.link(link).lanes))
        .sum()
}

/// A device's node.
fn host(topology: &Topology, device: DeviceId) -> String {
    let node = topology.node_of(device);
    let node = node.map(|node| topology.nodes[node.0 as usize].name.as_str());
    match node {
        None | Some("") => topology.name.clone(),
        Some(name) => name.to_owned(),
    }
}

/// A GPU's number in its node.
fn number(topology: &Topology, gpu: DeviceId) -> u32 {
    let node = topology.node_of(gpu);
    let gpus = node.map(|node| &topology.nodes[node.0 as usize].gpus);
    let place = gpus.and_then(|gpus| gpus.iter().position(|&own| own == gpu));
    place.unwrap_or(0) as u32
}

/// An adapter's name and the number of its port: as the machine's file has them, or as Linux counts
/// the node's adapters.
fn port(topology: &Topology, nic: DeviceId) -> (String, u32) {
    debug_assert_eq!(topology.device(nic).kind, DeviceKind::Nic);
    if let Some(name) = topology.rdma_name(nic) {
        return (name.to_owned(), 1);
    }
    let node = topology.node_of(nic);
    let nics = node.map(|node| &topology.nodes[node.0 as usize].nics);
    let place = nics.and_then(|nics| nics.iter().position(|&own| own == nic));
    (format!("mlx5_{}", place.unwrap_or(0)), 1)
}
