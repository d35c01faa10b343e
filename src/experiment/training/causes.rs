//! Where the time of a job's last step goes, by cause: the parts that waterfalls are made of.
//!
//! It is the accounting of an average GPU. Every picosecond of a GPU is in one part of its ledger;
//! what is in a communication that no kernel hides is divided further, in the ratio in which that
//! communication's whole time is made up: starting its kernels, its bytes on the link on which
//! they take longest, what it waits for others on its links, and the rest, which is the protocol's
//! synchronisation and latency.

use super::valid::ValidTraining;
use fabricsim_engine::job::{JobOutcome, Ledger, Rehearsed, Traffic};
use fabricsim_plan::job::{ExchangeId, GroupRole, Job, TaskKind};
use fabricsim_report::{Part, apportion};
use fabricsim_topology::{DeviceKind, LinkFamily, LinkId, Topology};
use fabricsim_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A cause. Their order is that of parts that are equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Kernels(TaskKind),
    /// What kernels take longer as communications hold SMs.
    Slowed,
    /// A rank's GPU is slower than it should be.
    SlowGpu(u32),
    /// Kernels of communications start.
    Launch,
    /// Bytes on their way over links of a class.
    Link(LinkClass, GroupRole),
    /// Bytes on their way, at the rate at which channels copy them.
    Copying(GroupRole),
    Protocol(GroupRole),
    /// Others use the same links.
    Sharing(GroupRole),
    /// Links are disturbed.
    LinkFault,
    Bubble,
    WaitingFor(u32),
    Waiting(GroupRole),
    Copies,
    /// Transfers outside of communicators.
    Transfers,
    Host,
    Idle,
}

/// Links that are alike in what they join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkClass {
    pub(super) family: LinkFamily,
    /// Both ends are switches of the network.
    pub(super) between_switches: bool,
}

impl LinkClass {
    pub(super) fn of(topology: &Topology, link: LinkId) -> LinkClass {
        let (from, to) = topology.ends(link);
        let switch = |device| topology.device(device).kind == DeviceKind::Switch;
        LinkClass {
            family: topology.family(link),
            between_switches: switch(from) && switch(to),
        }
    }

    /// `NVLink`, `network between switches`.
    pub(super) fn name(self) -> String {
        let family = match self.family {
            LinkFamily::Network => "network",
            LinkFamily::Socket => "socket link",
            other => other.label(),
        };
        let between = if self.between_switches {
            " between switches"
        } else {
            ""
        };
        format!("{family}{between}")
    }
}

/// What kernels take longer as communications at the same time hold SMs.
pub(super) const SLOWED: &str = "kernels slowed by collectives";

const fn kernels_name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Forward => "forward kernels",
        TaskKind::Recompute => "recomputation",
        TaskKind::Backward => "backward kernels",
        TaskKind::Optimiser => "optimiser",
        TaskKind::Gradients => "adding up and compressing gradients",
    }
}

/// Where the last step's time went on an average GPU; adds up to the step's time.
pub(super) fn causes(
    variant: &ValidTraining,
    job: &Job,
    rehearsed: &[Rehearsed],
    outcome: &JobOutcome,
) -> Vec<Part> {
    let Some(step) = outcome.last_step.first().map(Ledger::total) else {
        return Vec::new();
    };
    let accounts = Accounts::new(variant, job, rehearsed, outcome);
    let mut sums: BTreeMap<Cause, u128> = BTreeMap::new();
    for (index, ledger) in outcome.last_step.iter().enumerate() {
        let alike = u128::from(job.actors[index].alike);
        accounts.of_actor(index, ledger, &mut |cause, picos| {
            *sums.entry(cause).or_default() += alike * u128::from(picos);
        });
    }
    let weights: Vec<u128> = sums.values().copied().collect();
    let each = apportion(step.picos(), &weights);
    let parts = sums.keys().zip(each).filter(|(_, picos)| *picos > 0);
    parts
        .map(|(cause, picos)| Part::new(accounts.name(*cause), Time::from_picos(picos)))
        .collect()
}

/// What an exchange's time is made up of.
type Shares = Vec<(Cause, u128)>;

struct Accounts<'a> {
    variant: &'a ValidTraining,
    job: &'a Job,
    /// By exchange.
    shares: BTreeMap<ExchangeId, Shares>,
    roles: BTreeMap<ExchangeId, GroupRole>,
    /// Places of faults of links.
    faulty: String,
}

impl<'a> Accounts<'a> {
    fn new(
        variant: &'a ValidTraining,
        job: &'a Job,
        rehearsed: &[Rehearsed],
        outcome: &JobOutcome,
    ) -> Self {
        let disturbed: BTreeSet<LinkId> = variant.faults.touched_links().collect();
        let mut accounts = Accounts {
            variant,
            job,
            shares: BTreeMap::new(),
            roles: BTreeMap::new(),
            faulty: places(variant, outcome.end),
        };
        let rate = variant.topology.rates();
        for (group, traffic) in job.groups.iter().zip(&outcome.last_traffic) {
            for (&exchange, &done) in group.exchanges.iter().zip(traffic) {
                let alone = &rehearsed[exchange.0 as usize];
                accounts.roles.insert(exchange, group.role);
                let meets = || alone.loads.iter().any(|l| disturbed.contains(&l.link));
                let late = if !disturbed.is_empty() && meets() {
                    Cause::LinkFault
                } else {
                    Cause::Sharing(group.role)
                };
                let shares = shares(&variant.topology, group.role, (alone, done), &rate, late);
                accounts.shares.insert(exchange, shares);
            }
        }
        accounts
    }

    /// All of an actor's time.
    fn of_actor(&self, index: usize, ledger: &Ledger, add: &mut dyn FnMut(Cause, u64)) {
        let rank = self.job.actors[index].rank;
        let speed = self.variant.faults.speed(rank as usize, Time::ZERO);
        for kind in TaskKind::ALL {
            let (all, slowed) = (ledger.kernels[kind.index()], ledger.slowed[kind.index()]);
            // What a GPU of full speed takes, and what it takes longer.
            let at_speed = |t: Time| (t.picos() as f64 * speed.clamp(0.0, 1.0)).round() as u64;
            let full = at_speed(all);
            let slowed = at_speed(slowed).min(full);
            add(Cause::Kernels(kind), full - slowed);
            add(Cause::Slowed, slowed);
            add(Cause::SlowGpu(rank), all.picos() - full);
        }
        for (exchange, time) in &ledger.exposed_in {
            let shares = self.shares.get(exchange).map_or(&[][..], Vec::as_slice);
            let weights: Vec<u128> = shares.iter().map(|(_, weight)| *weight).collect();
            if weights.is_empty() {
                let role = self.roles.get(exchange).copied().unwrap_or_default();
                add(Cause::Protocol(role), time.picos());
                continue;
            }
            for ((cause, _), picos) in shares.iter().zip(apportion(time.picos(), &weights)) {
                add(*cause, picos);
            }
        }
        self.waiting(ledger, add);
        add(Cause::Copies, ledger.other.picos());
        add(Cause::Transfers, ledger.transfers.picos());
        add(Cause::Host, ledger.host.picos());
        add(Cause::Idle, ledger.idle.picos());
    }

    /// What it waited for others: for ranks that faults touch by name, in the ratio in which it
    /// waited for them.
    fn waiting(&self, ledger: &Ledger, add: &mut dyn FnMut(Cause, u64)) {
        let mut peers: BTreeMap<Option<u32>, u128> = BTreeMap::new();
        for (actor, time) in &ledger.waited_for {
            let rank = self.job.actors[actor.0 as usize].rank;
            let touched = !self.variant.faults.is_plain(rank as usize);
            let peer = touched.then_some(rank);
            *peers.entry(peer).or_default() += u128::from(time.picos());
        }
        let weights: Vec<u128> = peers.values().copied().collect();
        for (exchange, time) in &ledger.waiting_in {
            let role = self.roles.get(exchange).copied().unwrap_or_default();
            let pipeline = self.variant.training.dims.pp > 1;
            let plain = match role {
                GroupRole::Pipeline | GroupRole::Embedding => Cause::Bubble,
                GroupRole::StepEnd if pipeline => Cause::Bubble,
                other => Cause::Waiting(other),
            };
            if peers.is_empty() {
                add(plain, time.picos());
                continue;
            }
            for (peer, picos) in peers.keys().zip(apportion(time.picos(), &weights)) {
                add(peer.map_or(plain, Cause::WaitingFor), picos);
            }
        }
    }

    fn name(&self, cause: Cause) -> String {
        let of = |what: &str, role: GroupRole| format!("{what} ({})", role.name());
        match cause {
            Cause::Kernels(kind) => kernels_name(kind).to_owned(),
            Cause::Slowed => SLOWED.to_owned(),
            Cause::SlowGpu(rank) => format!("slow GPU of rank {rank}"),
            Cause::Launch => "starting kernels of communications".to_owned(),
            Cause::Link(class, role) => of(&class.name(), role),
            Cause::Copying(role) => of("channels' copy rate", role),
            Cause::Protocol(role) => of("protocol and latency", role),
            Cause::Sharing(role) => of("links shared with others", role),
            Cause::LinkFault => self.faulty.clone(),
            Cause::Bubble => "pipeline bubble".to_owned(),
            Cause::WaitingFor(rank) => format!("waiting for rank {rank}"),
            Cause::Waiting(role) => of("waiting for other ranks", role),
            Cause::Copies if self.variant.training.offload().is_some() => {
                "the CPU, and delays".to_owned()
            }
            Cause::Copies => "copies and delays".to_owned(),
            Cause::Transfers => "copies from and to hosts and drives".to_owned(),
            Cause::Host => "starting kernels".to_owned(),
            Cause::Idle => "done before others".to_owned(),
        }
    }
}

/// What all times of an exchange together are made up of.
fn shares(
    topology: &Topology,
    role: GroupRole,
    (alone, done): (&Rehearsed, Traffic),
    rate: &impl Fn(LinkId) -> fabricsim_units::Bandwidth,
    late: Cause,
) -> Shares {
    if alone.time == Time::ZERO || done.count == 0 {
        return Vec::new();
    }
    let launch = alone.launch.min(alone.time);
    let busiest = alone.busiest(rate);
    let moving = busiest
        .map_or(Time::ZERO, |b| b.time)
        .min(alone.time - launch);
    let carrier = match busiest {
        Some(b) if b.by_link => Cause::Link(LinkClass::of(topology, b.link), role),
        _ => Cause::Copying(role),
    };
    let rest = alone.time - launch - moving;
    let times = |time: Time| u128::from(time.picos()) * u128::from(done.count);
    vec![
        (Cause::Launch, times(launch)),
        (carrier, times(moving)),
        (Cause::Protocol(role), times(rest)),
        (
            late,
            u128::from(done.time.saturating_sub(done.alone).picos()),
        ),
    ]
}

/// What is wrong with links, and where: `link down at node0/nic2`.
fn places(variant: &ValidTraining, end: Time) -> String {
    let windows = variant.faults.windows(end);
    let mut faults: Vec<(&str, &str)> = Vec::new();
    for window in &windows {
        let fault = (window.what.as_str(), window.place.as_str());
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    match faults.as_slice() {
        [] => "disturbed links".to_owned(),
        [(what, place)] => format!("{what} at {place}"),
        several => format!("{} faults of links", several.len()),
    }
}
