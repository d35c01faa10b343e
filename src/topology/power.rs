//! What parts draw and cost, as models of hardware tell it. All of it is optional: what a file does
//! not say is unknown, and never nothing.

use super::hardware::{DeviceModel, Sourced};
use fabricsim_units::{Money, Power};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a part draws.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerModel {
    /// Ready for work and without any; of a GPU with a process on it, as between two kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Sourced<Power>>,
    /// At full load; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Sourced<Power>>,
}

/// What a cable is made of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Fibre between two transceivers.
    Optical,
    /// Passive copper, which draws less than 0.1 W: counted as none.
    Copper,
}

impl Medium {
    /// The name used in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Medium::Optical => "optical cable",
            Medium::Copper => "copper cable",
        }
    }
}

/// A cable of the network, one for each lane of its link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CableModel {
    /// What it is made of.
    pub medium: Sourced<Medium>,
    /// What it costs: its transceivers included, unless they have a price of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
    /// The transceiver at each end of an optical cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transceiver: Option<TransceiverModel>,
}

/// One end of an optical cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransceiverModel {
    /// For people.
    pub title: String,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What it costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}

impl DeviceModel {
    /// What it draws, if that is known.
    #[must_use]
    pub fn power(&self) -> Option<&PowerModel> {
        match self {
            DeviceModel::Gpu(m) => m.power.as_ref(),
            DeviceModel::Nvswitch(m) | DeviceModel::Switch(m) => m.power.as_ref(),
            DeviceModel::Cpu(m) => m.power.as_ref(),
            DeviceModel::PcieSwitch(m) => m.power.as_ref(),
            DeviceModel::Nic(m) => m.power.as_ref(),
            DeviceModel::Storage(m) => m.power.as_ref(),
        }
    }

    /// What one costs, if that is known.
    #[must_use]
    pub fn price(&self) -> Option<&Sourced<Money>> {
        match self {
            DeviceModel::Gpu(m) => m.price.as_ref(),
            DeviceModel::Nvswitch(m) | DeviceModel::Switch(m) => m.price.as_ref(),
            DeviceModel::Cpu(m) => m.price.as_ref(),
            DeviceModel::PcieSwitch(m) => m.price.as_ref(),
            DeviceModel::Nic(m) => m.price.as_ref(),
            DeviceModel::Storage(m) => m.price.as_ref(),
        }
    }
}
