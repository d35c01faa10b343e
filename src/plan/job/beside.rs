//! Jobs that run at once, as one job.

use super::{
    ActorId, ExchangeId, GroupId, Job, StreamId, StreamRole, Tag, Task, TaskId, TransferRouteId,
    Work,
};
use fabricsim_units::Time;
use smallvec::SmallVec;
use std::ops::Range;

/// What is one job's own in a job of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPart {
    /// Its actors.
    pub actors: Range<usize>,
    /// Its groups.
    pub groups: Range<usize>,
    /// Its exchanges.
    pub exchanges: Range<usize>,
    /// The ways of its transfers.
    pub routes: Range<usize>,
    /// Its streams, by their numbers in the job alone.
    pub streams: Vec<StreamId>,
}

impl JobPart {
    /// All of a job.
    #[must_use]
    pub fn whole(job: &Job) -> Self {
        JobPart {
            actors: 0..job.actors.len(),
            groups: 0..job.groups.len(),
            exchanges: 0..job.exchanges.len(),
            routes: 0..job.transfer_routes.len(),
            streams: (0..job.streams.len())
                .map(|stream| StreamId(stream as u8))
                .collect(),
        }
    }
}

impl Job {
    /// The same job on other ranks: what was rank `r` is `ranks[r]`. Ranks beyond those stay.
    #[must_use]
    pub fn on_ranks(mut self, ranks: &[u32]) -> Job {
        let place = |rank: &mut u32| {
            if let Some(&other) = ranks.get(*rank as usize) {
                *rank = other;
            }
        };
        self.actors.iter_mut().for_each(|a| place(&mut a.rank));
        let of_groups = self.groups.iter_mut().flat_map(|g| &mut g.ranks);
        of_groups.for_each(place);
        self
    }

    /// The same job, whose scripts begin at `start`.
    #[must_use]
    pub fn delayed(mut self, start: Time) -> Job {
        if start == Time::ZERO {
            return self;
        }
        let name = self.name("before the start");
        let task = |work| Task {
            stream: StreamId(0),
            after: SmallVec::new(),
            work,
            tag: Tag {
                name,
                ..Tag::default()
            },
        };
        // The process starts nothing before the wait is over.
        let wait = [task(Work::Wait(start)), task(Work::Synchronise)];
        for script in &mut self.scripts {
            let mut seen = 0u64;
            for Task { stream, after, .. } in &mut script.tasks {
                let before = after.iter_mut();
                before.for_each(|TaskId(before)| *before += wait.len() as u32);
                // Nothing has its turn before, so that nothing seems to wait for others.
                if seen & (1 << stream.0) == 0 {
                    seen |= 1 << stream.0;
                    after.push(TaskId(0));
                }
            }
            script.tasks.splice(..0, wait.iter().cloned());
        }
        self
    }

    /// Adds a job that runs at the same time, on other ranks or as processes of its own on the same ones,
    /// and says what of this one is its own.
    /// Streams for the same thing are one, for each rank has its own.
    pub fn add_beside(&mut self, other: Job) -> JobPart {
        let names: Vec<u16> = other.names.iter().map(|name| self.name(name)).collect();
        let streams = self.streams_for(&other.streams);
        let base = Offsets::of(self);
        for mut script in other.scripts {
            for task in &mut script.tasks {
                task.stream = streams[usize::from(task.stream.0)];
                task.tag.name = names.get(usize::from(task.tag.name)).copied().unwrap_or(0);
                match &mut task.work {
                    Work::Transfer { route, .. } => {
                        *route = TransferRouteId(route.0 + base.routes);
                    }
                    Work::HostSync {
                        stream: Some(stream),
                        ..
                    } => *stream = streams[usize::from(stream.0)],
                    _ => {}
                }
            }
            self.scripts.push(script);
        }
        for mut actor in other.actors {
            actor.script = actor.script.map(|script| script + base.scripts);
            let own = actor.groups.iter_mut().flatten();
            own.for_each(|GroupId(group)| *group += base.groups);
            self.actors.push(actor);
        }
        for mut group in other.groups {
            let members = group.members.iter_mut();
            members.for_each(|ActorId(actor)| *actor += base.actors);
            let exchanges = group.exchanges.iter_mut();
            exchanges.for_each(|ExchangeId(exchange)| *exchange += base.exchanges);
            self.groups.push(group);
        }
        for mut exchange in other.exchanges {
            // Without a plan the number says nothing.
            if exchange.plan.is_some() {
                exchange.alike += base.alike;
            }
            self.exchanges.push(exchange);
        }
        self.transfer_routes.extend(other.transfer_routes);
        JobPart {
            actors: base.actors as usize..self.actors.len(),
            groups: base.groups as usize..self.groups.len(),
            exchanges: base.exchanges as usize..self.exchanges.len(),
            routes: base.routes as usize..self.transfer_routes.len(),
            streams,
        }
    }

    /// The number of a name. Beyond those that a tag can tell apart all have the last one.
    fn name(&mut self, name: &str) -> u16 {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u16::try_from(index).unwrap_or(u16::MAX)
    }

    /// Streams for these roles, in their order; those that are missing are added.
    fn streams_for(&mut self, roles: &[StreamRole]) -> Vec<StreamId> {
        let mut taken: Vec<StreamId> = Vec::with_capacity(roles.len());
        for &role in roles {
            let all = (0u8..).map(StreamId).zip(&self.streams);
            let mut free = all.filter(|(id, known)| **known == role && !taken.contains(id));
            let found = free.next().map(|(id, _)| id);
            taken.push(found.unwrap_or_else(|| {
                self.streams.push(role);
                StreamId(self.streams.len() as u8 - 1)
            }));
        }
        taken
    }
}

/// How many there are of each before a job is added.
struct Offsets {
    scripts: u32,
    actors: u32,
    groups: u32,
    exchanges: u32,
    routes: u32,
    alike: u32,
}

impl Offsets {
    fn of(job: &Job) -> Self {
        let planned = job.exchanges.iter().filter(|e| e.plan.is_some());
        Offsets {
            scripts: job.scripts.len() as u32,
            actors: job.actors.len() as u32,
            groups: job.groups.len() as u32,
            exchanges: job.exchanges.len() as u32,
            routes: job.transfer_routes.len() as u32,
            alike: planned.map(|e| e.alike + 1).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Actor, Exchange, Group, GroupRole, Movement, Script};
    use fabricsim_units::Bytes;

    /// Two ranks that send once, behind a wait.
    fn pair(name: &str, streams: &[StreamRole]) -> Job {
        let task = |work, after: &[u32]| Task {
            stream: StreamId(1),
            after: after.iter().map(|&id| TaskId(id)).collect(),
            work,
            tag: Tag::default(),
        };
        let send = Work::Communicate {
            group: 0,
            exchange: 0,
        };
        let wait = Work::Wait(Time::from_micros(1));
        Job {
            streams: streams.to_vec(),
            names: vec![name.to_owned()],
            scripts: vec![Script {
                tasks: vec![task(wait, &[]), task(send, &[0])],
            }],
            actors: vec![Actor {
                rank: 0,
                alike: 2,
                script: Some(0),
                sms: 1,
                launch: Time::ZERO,
                run_ahead: false,
                groups: vec![Some(GroupId(0))],
            }],
            groups: vec![Group {
                role: GroupRole::Collective,
                name: name.to_owned(),
                ranks: vec![0, 1],
                members: vec![ActorId(0); 2],
                actors: 1,
                exchanges: vec![ExchangeId(0)],
            }],
            exchanges: vec![Exchange::free("send", Movement::Send, Bytes::new(1), 1.0)],
            ..Job::default()
        }
    }

    #[test]
    fn what_a_job_has_keeps_its_place_beside_another() {
        use StreamRole::{Collective, Compute, StepEnd};
        let mut both = Job::default();
        let first = both.add_beside(pair("a", &[Compute, Collective]).on_ranks(&[4, 7]));
        let second = both.add_beside(pair("b", &[Collective, StepEnd]).on_ranks(&[5, 6]));
        assert_eq!((first.actors, second.actors), (0..1, 1..2));
        assert_eq!(second.groups, 1..2);
        assert_eq!(second.exchanges, 1..2);
        assert_eq!(both.streams, [Compute, Collective, StepEnd]);
        assert_eq!(both.scripts[1].tasks[1].stream, StreamId(2));
        assert_eq!(
            both.names[usize::from(both.scripts[1].tasks[0].tag.name)],
            "b"
        );
        assert_eq!(both.actors[1].rank, 5);
        assert_eq!(both.actors[1].script, Some(1));
        assert_eq!(both.actors[1].groups, [Some(GroupId(1))]);
        assert_eq!(both.groups[0].ranks, [4, 7]);
        assert_eq!(both.groups[1].members, [ActorId(1); 2]);
        assert_eq!(both.groups[1].exchanges, [ExchangeId(1)]);
    }

    #[test]
    fn a_delayed_job_waits_before_its_first_task() {
        let start = Time::from_micros(5);
        let job = pair("a", &[StreamRole::Compute, StreamRole::Collective]).delayed(start);
        let tasks = &job.scripts[0].tasks;
        assert_eq!(tasks[0].work, Work::Wait(start));
        assert_eq!(tasks[1].work, Work::Synchronise);
        assert_eq!(tasks[2].after.as_slice(), [TaskId(0)]);
        assert_eq!(tasks[3].after.as_slice(), [TaskId(2)]);
    }
}
