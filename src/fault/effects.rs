//! The faults of a machine, and what they do at a time, to a rank or to a link.
//!
//! Nothing here has a state: every answer depends on the question, the faults and the seed
//! only. Faults that meet multiply their factors and add their delays. What a failed device
//! means for routes (whether traffic goes another way, or waits for ever) is not decided here.

mod kernels;
mod links;
mod software;

use super::distribution::Sampler;
use super::spec::Per;
use super::window::Windows;
use fabricsim_topology::{DeviceId, DeviceKind, LinkId, Topology};
use fabricsim_units::Time;
pub use software::{Fall, Release};
use std::collections::BTreeMap;
use std::ops::Range;

/// Speeds count in parts of this, so that the time of a computation is exact.
pub(super) const PARTS: u64 = 1_000_000_000;

/// One piece of compute of a rank. Kernels count from 0 in every micro-batch (over all its
/// passes), micro-batches from 0 in every step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The step.
    pub step: u64,
    /// The micro-batch in the step.
    pub micro_batch: u32,
    /// The kernel in the micro-batch.
    pub kernel: u32,
}

/// When a fault is on, for timelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultWindow {
    /// What is wrong, such as `link down`.
    pub what: String,
    /// The ranks, links or devices.
    pub place: String,
    /// The start.
    pub from: Time,
    /// The end; the end of what was asked for, if the fault goes on.
    pub to: Time,
}

/// The faults of one job on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    pub(super) seed: u64,
    pub(super) items: Vec<Item>,
    /// For each rank the faults that touch it, in order.
    pub(super) by_rank: Vec<Vec<u32>>,
    /// For each link that any touches: the fault, and what it leaves of the link's rate.
    pub(super) by_link: BTreeMap<LinkId, Vec<(u32, f64)>>,
    pub(super) failed: BTreeMap<DeviceId, Time>,
    pub(super) signatures: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) what: String,
    pub(super) place: String,
    pub(super) effect: Effect,
    /// It is left out ([`Faults::without`]).
    pub(super) off: bool,
}

impl Item {
    fn told(&self) -> String {
        format!("{}: {}", self.place, self.what)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    Slow {
        windows: Windows,
        /// Of [`PARTS`].
        parts: u64,
    },
    Jitter {
        add: Option<Sampler>,
        stretch: Option<Sampler>,
        draws: Draws,
    },
    Stall {
        probability: f64,
        sampler: Sampler,
        steps: Range<u64>,
    },
    Link {
        windows: Windows,
    },
    Failed {
        windows: Windows,
        devices: Vec<DeviceId>,
    },
    /// Software plans otherwise.
    Fallback(Fall),
    /// NCCL refuses.
    OtherRelease(Release),
}

/// Which draw a piece of work uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draws {
    pub(super) per: Per,
    pub(super) steps: Range<u64>,
}

impl Effect {
    /// Whether ranks draw different values.
    pub(super) fn is_random(&self) -> bool {
        let random = |sampler: &Option<Sampler>| sampler.is_some_and(|s| !s.is_constant());
        match self {
            Effect::Jitter { add, stretch, .. } => random(add) || random(stretch),
            Effect::Stall {
                probability,
                sampler,
                ..
            } => *probability > 0.0 && (*probability < 1.0 || !sampler.is_constant()),
            Effect::Slow { .. }
            | Effect::Link { .. }
            | Effect::Failed { .. }
            | Effect::Fallback(_)
            | Effect::OtherRelease(_) => false,
        }
    }

    /// Whether it is the same at any time and in any step.
    fn is_steady(&self) -> bool {
        let steps = match self {
            Effect::Jitter { draws, .. } => &draws.steps,
            Effect::Stall { steps, .. } => steps,
            _ => &(0..u64::MAX),
        };
        !self.is_random() && *steps == (0..u64::MAX) && self.windows().is_none_or(Windows::always)
    }

    fn windows(&self) -> Option<&Windows> {
        match self {
            Effect::Slow { windows, .. }
            | Effect::Link { windows }
            | Effect::Failed { windows, .. } => Some(windows),
            _ => None,
        }
    }
}

impl Draws {
    /// The first kernel that shares the draw with `work`; `None` in steps without it.
    fn first(&self, work: Work) -> Option<Work> {
        if !self.steps.contains(&work.step) {
            return None;
        }
        Some(match self.per {
            Per::Kernel => work,
            Per::MicroBatch => Work { kernel: 0, ..work },
            Per::Step => Work {
                step: work.step,
                micro_batch: 0,
                kernel: 0,
            },
        })
    }
}

/// More windows of one fault than this are not listed.
const MOST_WINDOWS: usize = 10_000;

impl Faults {
    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.on().next().is_none()
    }

    /// The same without one of them, by its place in the list; what the others do stays the same, and
    /// so do their places.
    #[must_use]
    pub fn without(&self, fault: usize) -> Self {
        self.without_those(|item| item == fault)
    }

    /// The same without those, by their places in the list.
    fn without_those(&self, off: impl Fn(usize) -> bool) -> Self {
        let mut faults = self.clone();
        for (place, item) in faults.items.iter_mut().enumerate() {
            item.off |= off(place);
        }
        let kept = |item: u32| !off(item as usize);
        for own in &mut faults.by_rank {
            own.retain(|&item| kept(item));
        }
        for own in faults.by_link.values_mut() {
            own.retain(|&(item, _)| kept(item));
        }
        faults.by_link.retain(|_, own| !own.is_empty());
        faults.failed.clear();
        for item in faults.items.iter().filter(|item| !item.off) {
            let Effect::Failed { windows, devices } = &item.effect else {
                continue;
            };
            for &device in devices {
                let time = faults.failed.entry(device).or_insert(windows.from);
                *time = windows.from.min(*time);
            }
        }
        faults.signatures = faults.classify();
        faults
    }

    /// The same as a job sees them that has some of the ranks: its rank `r` is what was `ranks[r]`.
    #[must_use]
    pub fn of_part(&self, ranks: &[u32]) -> Self {
        let mut faults = self.clone();
        let own = |&rank: &u32| self.by_rank.get(rank as usize).cloned().unwrap_or_default();
        faults.by_rank = ranks.iter().map(own).collect();
        faults.signatures = faults.classify();
        faults
    }

    /// The same without any.
    #[must_use]
    pub fn healthy(&self) -> Self {
        self.without_those(|_| true)
    }

    /// Of how many ranks they are told.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.by_rank.len()
    }

    /// The places of those that are not left out.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let all = self.items.iter().enumerate();
        all.filter(|(_, item)| !item.off).map(|(place, _)| place)
    }

    /// What is wrong where, by the fault's place in the list: with the device's name if all the links
    /// of a fault are one's.
    #[must_use]
    pub fn describe(&self, fault: usize, topology: &Topology) -> String {
        let Some(item) = self.items.get(fault) else {
            return String::new();
        };
        let mut links = self.links_of(fault).map(|link| topology.ends(link));
        let Some((from, to)) = links.next() else {
            return item.told();
        };
        let rest: Vec<(DeviceId, DeviceId)> = links.collect();
        let all = |device: &DeviceId| rest.iter().all(|e| e.0 == *device || e.1 == *device);
        // Of a cable's two ends the one that does not only forward.
        let forwards = |device: DeviceId| topology.device(device).kind == DeviceKind::Switch;
        let devices = [from, to].into_iter().filter(all);
        match devices.min_by_key(|&device| (forwards(device), device)) {
            Some(device) => format!("{}: {}", topology.device_name(device), item.what),
            None => item.told(),
        }
    }

    /// Whether a fault is not on before `end`.
    #[must_use]
    pub fn begins_after(&self, fault: usize, end: Time) -> bool {
        let windows = self.items.get(fault).and_then(|i| i.effect.windows());
        windows.is_some_and(|w| {
            let first = w.at_or_after(Time::ZERO);
            first.is_none_or(|(from, _)| from >= end)
        })
    }

    /// Whether a fault is always on.
    #[must_use]
    pub fn is_always(&self, fault: usize) -> bool {
        let windows = self.items.get(fault).and_then(|i| i.effect.windows());
        windows.is_none_or(Windows::always)
    }

    /// The ranks that a fault touches.
    pub fn ranks_of(&self, fault: usize) -> impl Iterator<Item = usize> {
        let ranks = self.by_rank.iter().enumerate();
        ranks
            .filter(move |(_, own)| own.contains(&(fault as u32)))
            .map(|(rank, _)| rank)
    }

    /// The links that a fault touches.
    pub fn links_of(&self, fault: usize) -> impl Iterator<Item = LinkId> {
        let of = move |own: &[(u32, f64)]| own.iter().any(|&(item, _)| item as usize == fault);
        let links = self.by_link.iter();
        links.filter(move |(_, own)| of(own)).map(|(&link, _)| link)
    }

    /// Classes of ranks that nothing distinguishes: the same faults, none of them random.
    pub(super) fn classify(&self) -> Vec<u32> {
        let of_rank = |(rank, own): (usize, &Vec<u32>)| {
            let random = own
                .iter()
                .any(|&i| self.items[i as usize].effect.is_random());
            (random.then_some(rank), own.clone())
        };
        let keys: Vec<_> = self.by_rank.iter().enumerate().map(of_rank).collect();
        let plain = (None, Vec::new());
        let mut classes = BTreeMap::from([(&plain, 0)]);
        let mut signatures = Vec::with_capacity(keys.len());
        for key in &keys {
            let next = classes.len() as u32;
            signatures.push(*classes.entry(key).or_insert(next));
        }
        signatures
    }

    fn on(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| !item.off)
    }

    /// Whether what faults do depends on the rank or link alone: not on the time, on the step, or on a
    /// draw.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.on().all(|item| item.effect.is_steady())
    }

    /// The place in the list of a fault that slows a rank down and depends on the time, on the step or
    /// on a draw, if there is one. A GPU that fails slows nothing down: its links are gone.
    #[must_use]
    pub fn unsteady_of(&self, rank: usize) -> Option<usize> {
        let mut slow = self
            .of_rank(rank)
            .filter(|(_, effect)| !matches!(effect, Effect::Failed { .. }) && !effect.is_steady());
        slow.next().map(|(item, _)| item as usize)
    }

    /// Each fault in a few words, in the order of the file.
    pub fn told(&self) -> impl Iterator<Item = String> {
        self.on().map(Item::told)
    }

    /// Faults that are not on before `end`, in a few words.
    pub fn not_before(&self, end: Time) -> impl Iterator<Item = String> {
        let late = move |item: &&Item| {
            let windows = item.effect.windows();
            windows.is_some_and(|w| {
                w.at_or_after(Time::ZERO)
                    .is_none_or(|(from, _)| from >= end)
            })
        };
        self.on().filter(late).map(Item::told)
    }

    /// Whether no fault touches the rank. Links that it uses may still have some.
    #[must_use]
    pub fn is_plain(&self, rank: usize) -> bool {
        self.of_rank(rank).next().is_none()
    }

    /// Equal for ranks that no fault distinguishes, 0 for those that none touches. Ranks that
    /// draw at random all differ.
    #[must_use]
    pub fn signature(&self, rank: usize) -> u32 {
        self.signatures.get(rank).copied().unwrap_or(0)
    }

    /// When a rank's GPU fails, if it does.
    #[must_use]
    pub fn failed_at(&self, rank: usize) -> Option<Time> {
        let fails = self.of_rank(rank).filter_map(|(_, effect)| match effect {
            Effect::Failed { windows, .. } => Some(windows.from),
            _ => None,
        });
        fails.min()
    }

    /// When a device fails, if it does.
    #[must_use]
    pub fn device_failed_at(&self, device: DeviceId) -> Option<Time> {
        self.failed.get(&device).copied()
    }

    /// All devices that fail, with their times, in order of id.
    pub fn failed_devices(&self) -> impl Iterator<Item = (DeviceId, Time)> {
        self.failed.iter().map(|(&device, &time)| (device, time))
    }

    /// When the speed of any rank or the rate of any link next changes (or may) after `time`.
    #[must_use]
    pub fn next_change(&self, time: Time) -> Option<Time> {
        let windows = self.on().filter_map(|item| item.effect.windows());
        windows.filter_map(|w| w.next_change(time)).min()
    }

    /// When faults are on between 0 and `until`, fault by fault in the order of the file; the
    /// first ten thousand windows of each. Jitter and stalls are of steps, not of times, and
    /// are not among them.
    #[must_use]
    pub fn windows(&self, until: Time) -> Vec<FaultWindow> {
        let mut list = Vec::new();
        for item in self.on() {
            let Some(windows) = item.effect.windows() else {
                continue;
            };
            let windows = windows.list(until).take(MOST_WINDOWS);
            list.extend(windows.map(|(from, to)| FaultWindow {
                what: item.what.clone(),
                place: item.place.clone(),
                from,
                to: to.min(until),
            }));
        }
        list
    }

    /// The faults of a rank with their numbers.
    fn of_rank(&self, rank: usize) -> impl Iterator<Item = (u32, &Effect)> {
        let own = self.by_rank.get(rank).into_iter().flatten();
        own.map(|&item| (item, &self.items[item as usize].effect))
    }
}
