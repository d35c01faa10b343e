//! Series of a run under the names that monitoring has for them: DCGM's fields for GPUs, as
//! dcgm-exporter gives them out, and node_exporter's counters for ports of InfiniBand.

mod beside;
mod csv;
mod draw;
mod open_metrics;
mod panels;
mod read;

pub use beside::{Beside, MetricRow, Side};
pub use read::{Mean, Metric, Series, is_prometheus_answer, read_series};

pub(super) use csv::write_csv;
pub(super) use draw::svg;
pub(super) use open_metrics::write_open_metrics;

use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Samples of a run where nothing else is asked for.
pub const SAMPLES: u64 = 200;

/// Values of all series together beyond which a run's files are more than anyone reads.
pub const MAX_VALUES: u64 = 20_000_000;

/// What monitoring would have shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Telemetry {
    /// From one sample to the next. A sample is of the time before it.
    pub sample: Time,
    /// The end of the run: the last sample is of what is left until then.
    pub end: Time,
    /// GPUs, in order of their ranks.
    pub gpus: Vec<GpuSeries>,
    /// Ports of the network, in order of their nodes.
    pub ports: Vec<PortSeries>,
    /// What there is no series of, and why.
    pub left_out: Vec<String>,
}

/// A GPU's series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuSeries {
    /// Its node.
    pub host: String,
    /// Its number in the node.
    pub gpu: u32,
    /// Of each field a value a sample, in the field's unit.
    pub fields: BTreeMap<Field, Vec<f64>>,
}

/// A port's series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PortSeries {
    /// Its node.
    pub host: String,
    /// Its adapter: `mlx5_0`.
    pub device: String,
    /// Its number on the adapter, from 1.
    pub port: u32,
    /// Bytes that went out, by sample.
    pub transmitted: Vec<f64>,
    /// Bytes that came in.
    pub received: Vec<f64>,
}

/// A field of DCGM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Bytes a second out over NVLink, without headers.
    NvlinkTx,
    /// In over NVLink.
    NvlinkRx,
    /// Out over PCIe.
    PcieTx,
    /// In over PCIe.
    PcieRx,
    /// Bytes a second out over NVLink-C2C to the CPU, without headers.
    C2cTx,
    /// In over NVLink-C2C.
    C2cRx,
    /// The part of SMs and time in which a kernel is on an SM, 0 to 1.
    SmActive,
    /// The part of their peak that tensor cores do, 0 to 1.
    TensorActive,
    /// The part of its peak that memory does, 0 to 1.
    DramActive,
    /// The part of time in which any kernel runs, %.
    GpuUtil,
    /// Memory that is taken, MiB.
    FbUsed,
    /// What the GPU draws, W.
    Power,
    /// Links that its NVLink-C2C is made up of.
    C2cLinks,
}

impl Field {
    /// All of them, in the order in which files have them.
    pub const ALL: [Field; 13] = [
        Field::NvlinkTx,
        Field::NvlinkRx,
        Field::PcieTx,
        Field::PcieRx,
        Field::C2cTx,
        Field::C2cRx,
        Field::SmActive,
        Field::TensorActive,
        Field::DramActive,
        Field::GpuUtil,
        Field::FbUsed,
        Field::Power,
        Field::C2cLinks,
    ];

    /// Those of GPUs that are joined to their CPU by NVLink-C2C.
    pub const OF_C2C: [Field; 3] = [Field::C2cTx, Field::C2cRx, Field::C2cLinks];

    /// As DCGM names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::NvlinkTx => "DCGM_FI_PROF_NVLINK_TX_BYTES",
            Field::NvlinkRx => "DCGM_FI_PROF_NVLINK_RX_BYTES",
            Field::PcieTx => "DCGM_FI_PROF_PCIE_TX_BYTES",
            Field::PcieRx => "DCGM_FI_PROF_PCIE_RX_BYTES",
            Field::C2cTx => "DCGM_FI_PROF_C2C_TX_DATA_BYTES",
            Field::C2cRx => "DCGM_FI_PROF_C2C_RX_DATA_BYTES",
            Field::SmActive => "DCGM_FI_PROF_SM_ACTIVE",
            Field::TensorActive => "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            Field::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Field::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Field::FbUsed => "DCGM_FI_DEV_FB_USED",
            Field::Power => "DCGM_FI_DEV_POWER_USAGE",
            Field::C2cLinks => "DCGM_FI_DEV_C2C_LINK_COUNT",
        }
    }

    /// The short name of `dcgmi dmon`'s columns; of C2C it is not known.
    #[must_use]
    pub const fn short(self) -> Option<&'static str> {
        Some(match self {
            Field::NvlinkTx => "NVLTX",
            Field::NvlinkRx => "NVLRX",
            Field::PcieTx => "PCITX",
            Field::PcieRx => "PCIRX",
            Field::SmActive => "SMACT",
            Field::TensorActive => "TENSO",
            Field::DramActive => "DRAMA",
            Field::GpuUtil => "GPUTL",
            Field::FbUsed => "FBUSD",
            Field::Power => "POWER",
            Field::C2cTx | Field::C2cRx | Field::C2cLinks => return None,
        })
    }

    /// What it is, with its unit, as exporters say it.
    const fn help(self) -> &'static str {
        match self {
            Field::NvlinkTx => "The rate of data transmitted over NVLink, in bytes per second.",
            Field::NvlinkRx => "The rate of data received over NVLink, in bytes per second.",
            Field::PcieTx => "The rate of data transmitted over PCIe, in bytes per second.",
            Field::PcieRx => "The rate of data received over PCIe, in bytes per second.",
            Field::C2cTx => {
                "The rate of data transmitted over NVLink-C2C without headers, in bytes per second."
            }
            Field::C2cRx => {
                "The rate of data received over NVLink-C2C without headers, in bytes per second."
            }
            Field::SmActive => "The ratio of cycles an SM has at least one warp assigned.",
            Field::TensorActive => "Ratio of cycles the tensor (HMMA) pipe is active.",
            Field::DramActive => {
                "Ratio of cycles the device memory interface is active sending or receiving data."
            }
            Field::GpuUtil => "GPU utilization (in %).",
            Field::FbUsed => "Framebuffer memory used (in MiB).",
            Field::Power => "Power draw (in W).",
            Field::C2cLinks => "Number of NVLink-C2C links.",
        }
    }

    /// Decimals of its values in files.
    const fn decimals(self) -> usize {
        match self {
            Field::NvlinkTx
            | Field::NvlinkRx
            | Field::PcieTx
            | Field::PcieRx
            | Field::C2cTx
            | Field::C2cRx
            | Field::GpuUtil
            | Field::FbUsed
            | Field::Power => 3,
            Field::SmActive | Field::TensorActive | Field::DramActive => 6,
            Field::C2cLinks => 0,
        }
    }
}

/// node_exporter's counters of a port: bytes out, bytes in.
pub const PORT_COUNTERS: [&str; 2] = [
    "node_infiniband_port_data_transmitted_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
];

impl Telemetry {
    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        samples(self.sample, self.end)
    }

    /// From when to when a sample is.
    #[must_use]
    pub fn span(&self, index: usize) -> (Time, Time) {
        let start = self.sample.picos().saturating_mul(index as u64);
        let end = start.saturating_add(self.sample.picos());
        (
            Time::from_picos(start),
            Time::from_picos(end.min(self.end.picos().max(start))),
        )
    }

    /// Fields of which there is a series.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let any = |field: &Field| self.gpus.iter().any(|gpu| gpu.fields.contains_key(field));
        Field::ALL.into_iter().filter(any)
    }
}

/// How many samples a run of this length has.
#[must_use]
pub fn samples(sample: Time, end: Time) -> usize {
    end.picos().div_ceil(sample.picos().max(1)).max(1) as usize
}
