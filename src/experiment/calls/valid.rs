//! Calls whose every part has been checked, ready to be gone through.

use super::meet::{Call, ELEMENT, Message, Operation, What};
use super::spec::{CallSpec, CallsSpec, MessageSpec, OperationSpec, StreamsSpec};
use crate::collective::check_memory;
use crate::error::ScenarioError;
use crate::refusal::{fault, refuse};
use crate::site::{At, Site, site};
use crate::spec::ScenarioSpec;
use fabricsim_collective::Collective;
use fabricsim_nccl::Env;
use fabricsim_topology::error::nearest;
use fabricsim_topology::watchdogs::watchdogs;
use fabricsim_topology::{DeviceId, Fault, Topology};
use fabricsim_units::Time;
use std::sync::Arc;

/// Checked calls.
#[derive(Debug, Clone)]
pub struct ValidCalls {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
    /// Of a machine from a file of another program: what was assumed, left out or read otherwise
    /// than it looks.
    pub notes: Vec<String>,
    /// The GPUs that take part, by rank.
    pub gpus: Vec<DeviceId>,
    /// NCCL's variables.
    pub env: Env,
    /// The seed.
    pub seed: u64,
    pub(super) timeout: Time,
    pub(super) side_by_side: bool,
    /// Communicators: their names and ranks. The first one is `world`.
    pub(super) names: Vec<String>,
    pub(super) members: Vec<Vec<u32>>,
    /// What each rank calls.
    pub(super) calls: Vec<Vec<Call>>,
}

/// The communicator that has all ranks.
const WORLD: &str = "world";
/// More calls than anyone writes, of all ranks together.
const MAX_CALLS: usize = 1_000_000;

/// Checks calls and builds their machine.
///
/// # Errors
/// Everything that is wrong with the values of their scenario, or with its topology.
pub(crate) fn calls(
    spec: &ScenarioSpec,
    job: &CallsSpec,
    at: At<'_>,
) -> Result<ValidCalls, ScenarioError> {
    let origin = at.origin;
    let mut faults = Vec::new();
    if !spec.faults.0.is_empty() {
        let found = format!("{} faults", spec.faults.0.len());
        faults.push(fault(
            "faults",
            found,
            "none: say what ranks do (`crash`, `wait`) among their calls",
        ));
    }
    refuse(origin, faults)?;
    let Site {
        topology,
        notes,
        warnings,
        gpus,
        env,
        ..
    } = site(spec, at)?;
    let mut faults = Vec::new();
    let mut names = vec![WORLD.to_owned()];
    let mut members: Vec<Vec<u32>> = vec![(0..gpus.len() as u32).collect()];
    for (name, ranks) in &job.communicators {
        let place = format!("job.calls.communicators.{name}");
        if name == WORLD {
            faults.push(fault(
                &place,
                "`world` again".into(),
                "another name: it has all ranks",
            ));
        }
        match ranks.resolve(&topology, &gpus, &place) {
            Ok(ranks) => {
                names.push(name.clone());
                members.push(ranks.into_iter().map(|rank| rank as u32).collect());
            }
            Err(wrong) => faults.push(wrong),
        }
    }
    let timeout = job.timeout.unwrap_or(watchdogs().torch_timeout.value);
    let mut reader = Reader {
        topology: &topology,
        names: &names,
        members: &members,
        timeout,
        faults: Vec::new(),
    };
    let mut calls: Vec<Option<Vec<Call>>> = vec![None; gpus.len()];
    let mut count = 0usize;
    for (index, own) in job.ranks.iter().enumerate() {
        let place = format!("job.calls.ranks[{index}]");
        let ranks = match own
            .ranks
            .resolve(&topology, &gpus, &format!("{place}.ranks"))
        {
            Ok(ranks) => ranks,
            Err(wrong) => {
                faults.push(wrong);
                continue;
            }
        };
        count = count.saturating_add(ranks.len().saturating_mul(own.calls.len()));
        if count > MAX_CALLS {
            let found = format!("{count} calls of all ranks together");
            faults.push(fault(
                &format!("{place}.calls"),
                found,
                format!("at most {MAX_CALLS}"),
            ));
            break;
        }
        let so_far = reader.faults.len();
        for rank in ranks {
            // What is wrong is said of the first rank alone.
            let before = reader.faults.len();
            let read = reader.calls(&own.calls, rank as u32, &format!("{place}.calls"));
            if before > so_far {
                reader.faults.truncate(before);
            }
            if calls[rank].replace(read).is_some() {
                let found = format!("rank {rank} again");
                faults.push(fault(
                    &format!("{place}.ranks"),
                    found,
                    "each rank in one entry",
                ));
            }
        }
    }
    faults.append(&mut reader.faults);
    refuse(origin, faults)?;
    Ok(ValidCalls {
        topology,
        warnings,
        notes,
        gpus,
        env,
        seed: spec.seed,
        timeout,
        side_by_side: job.streams == Some(StreamsSpec::PerCommunicator),
        names,
        members,
        calls: calls.into_iter().map(Option::unwrap_or_default).collect(),
    })
}

/// Reads calls of ranks.
struct Reader<'a> {
    topology: &'a Topology,
    names: &'a [String],
    members: &'a [Vec<u32>],
    timeout: Time,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn calls(&mut self, specs: &[CallSpec], rank: u32, place: &str) -> Vec<Call> {
        let each = specs.iter().enumerate();
        each.map(|(index, spec)| self.call(spec, rank, &format!("{place}[{index}]")))
            .collect()
    }

    fn call(&mut self, spec: &CallSpec, rank: u32, place: &str) -> Call {
        let operation = |this: &mut Self, collective: Collective, of: &OperationSpec| {
            let place = format!("{place}.{}", collective.name());
            this.sized(of.size.get(), &place);
            Call::Operation(Operation {
                on: this.on(of.on.as_deref(), rank, &place),
                what: What::Collective(collective),
                bytes: of.size.get(),
                registered: of.registered,
            })
        };
        match spec {
            CallSpec::AllReduce(of) => operation(self, Collective::AllReduce, of),
            CallSpec::AllGather(of) => operation(self, Collective::AllGather, of),
            CallSpec::ReduceScatter(of) => operation(self, Collective::ReduceScatter, of),
            CallSpec::Broadcast(of) => operation(self, Collective::Broadcast, of),
            CallSpec::Reduce(of) => operation(self, Collective::Reduce, of),
            CallSpec::AllToAll(of) => operation(self, Collective::AllToAll, of),
            CallSpec::Barrier => Call::Operation(Operation {
                on: 0,
                what: What::Barrier,
                bytes: ELEMENT,
                registered: false,
            }),
            CallSpec::Register(of) => Call::Operation(Operation {
                on: self.on(of.on.as_deref(), rank, &format!("{place}.register")),
                what: What::Register,
                bytes: 0,
                registered: false,
            }),
            CallSpec::MonitoredBarrier(of) => Call::Monitored {
                on: self.on(
                    of.on.as_deref(),
                    rank,
                    &format!("{place}.monitored-barrier"),
                ),
                timeout: of.timeout.unwrap_or(self.timeout),
            },
            CallSpec::Send(of) => Call::Messages(vec![self.message(
                (of, true),
                rank,
                &format!("{place}.send"),
            )]),
            CallSpec::Recv(of) => Call::Messages(vec![self.message(
                (of, false),
                rank,
                &format!("{place}.recv"),
            )]),
            CallSpec::Group(list) => Call::Messages(self.group(list, rank, place)),
            CallSpec::Synchronize => Call::Synchronize,
            CallSpec::Wait(time) => Call::Wait(*time),
            CallSpec::Crash => Call::Crash,
        }
    }

    fn group(&mut self, list: &[CallSpec], rank: u32, place: &str) -> Vec<Message> {
        let mut messages = Vec::new();
        for (index, call) in list.iter().enumerate() {
            let place = format!("{place}.group[{index}]");
            match call {
                CallSpec::Send(of) => {
                    messages.push(self.message((of, true), rank, &format!("{place}.send")))
                }
                CallSpec::Recv(of) => {
                    messages.push(self.message((of, false), rank, &format!("{place}.recv")))
                }
                _ => self
                    .faults
                    .push(fault(&place, "another call".into(), "`send` or `recv`")),
            }
        }
        if list.is_empty() {
            self.faults.push(fault(
                &format!("{place}.group"),
                "no call".into(),
                "sends and receives",
            ));
        }
        if messages.iter().any(|message| message.on != messages[0].on) {
            let found = "several communicators".to_owned();
            self.faults.push(fault(
                &format!("{place}.group"),
                found,
                "sends and receives of one communicator",
            ));
        }
        messages
    }

    fn message(&mut self, (of, sends): (&MessageSpec, bool), rank: u32, place: &str) -> Message {
        self.sized(of.size.get(), place);
        let on = self.on(of.on.as_deref(), rank, place);
        if of.with == rank || !self.members[on].contains(&of.with) {
            let found = format!("rank {} with rank {}", rank, of.with);
            let expected = format!("another rank of {}", self.names[on]);
            self.faults
                .push(fault(&format!("{place}.with"), found, expected));
        }
        Message {
            on,
            sends,
            with: of.with,
            bytes: of.size.get(),
        }
    }

    fn sized(&mut self, bytes: u64, place: &str) {
        if bytes == 0 {
            self.faults
                .push(fault(&format!("{place}.size"), "0B".into(), "at least 1B"));
        }
        check_memory(
            &[bytes],
            self.topology,
            &format!("{place}.size"),
            &mut self.faults,
        );
    }

    /// The number of a communicator that the rank is in.
    fn on(&mut self, name: Option<&str>, rank: u32, place: &str) -> usize {
        let name = name.unwrap_or(WORLD);
        let Some(on) = self.names.iter().position(|known| known == name) else {
            self.faults.push(Fault {
                nearest: nearest(name, self.names.iter().map(String::as_str)),
                ..fault(
                    &format!("{place}.on"),
                    format!("`{name}`"),
                    format!("one of {}", self.names.join(", ")),
                )
            });
            return 0;
        };
        if !self.members[on].contains(&rank) {
            let expected = format!("a communicator of rank {rank}: {name} has other ranks");
            self.faults
                .push(fault(&format!("{place}.on"), format!("`{name}`"), expected));
            return 0;
        }
        on
    }
}
