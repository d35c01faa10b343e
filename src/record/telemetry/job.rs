//! Of a job of tasks: its kernels, and its bytes on links.

use super::levels::Busy;
use super::{Filling, TelemetryError, Wanted};
use fabricsim_engine::job::{Done, Flowing, JobProbe, Moved, Rehearsed};
use fabricsim_plan::job::{Job, Task, Work};
use fabricsim_report::telemetry::{Field, Telemetry};
use fabricsim_topology::LinkId;
use fabricsim_units::Time;
use rustc_hash::FxHashMap;

/// Watches a job's kernels and bytes.
pub struct Activity<'j> {
    job: &'j Job,
    /// Of each actor's rank.
    busy: Vec<(u32, Busy)>,
    moved: Vec<Moved>,
}

impl<'j> Activity<'j> {
    /// Nothing has been seen.
    #[must_use]
    pub fn new(job: &'j Job) -> Self {
        Activity {
            job,
            busy: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// The series of a job that ended; `without` names fields of which there is none, with the
    /// reason. Tasks of a rank keep those GPUs busy that `on` says.
    ///
    /// # Errors
    /// Samples that are too short.
    pub fn telemetry(
        self,
        wanted: Wanted<'_>,
        rehearsed: &[Rehearsed],
        end: Time,
        on: impl Fn(u32) -> Vec<u32>,
        without: Vec<(&[Field], &str)>,
    ) -> Result<Telemetry, TelemetryError> {
        let mut filling = Filling::new(wanted, end)?;
        let mut ranks: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (rank, busy) in self.busy {
            let ranks = ranks.entry(rank).or_insert_with(|| on(rank));
            for &rank in ranks.iter() {
                filling.busy(rank as usize, busy);
            }
        }
        let of_exchange = |moved: Moved, exchange: usize, filling: &mut Filling<'_>| {
            let loads = rehearsed.get(exchange).map(|alone| alone.loads.as_slice());
            for load in loads.unwrap_or_default() {
                let bytes = load.bytes * moved.part;
                filling.carried(load.link, (moved.from, moved.to), bytes);
            }
        };
        for moved in self.moved {
            match moved.what {
                Flowing::Exchange(exchange) => {
                    of_exchange(moved, exchange.0 as usize, &mut filling);
                }
                Flowing::Transfer(route, bytes) => {
                    let route = &self.job.transfer_routes[route.0 as usize].route;
                    let bytes = bytes.get() as f64 * moved.part;
                    let hops: Vec<(LinkId, f64)> = route
                        .hops
                        .iter()
                        .map(|hop| (hop.link, hop.share.as_f64()))
                        .collect();
                    for (link, share) in hops {
                        filling.carried(link, (moved.from, moved.to), bytes * share);
                    }
                }
            }
        }
        Ok(filling.finish(without))
    }
}

impl JobProbe for Activity<'_> {
    fn task(&mut self, done: Done, task: &Task) {
        let actor = &self.job.actors[done.actor.0 as usize];
        let busy = match task.work {
            Work::Kernels(kernels) => Busy {
                from: done.begun,
                to: done.ended,
                sms: 1.0,
                kernels: true,
                tensor: kernels.tensor.part() * kernels.time().seconds(),
                dram: kernels.dram.part() * kernels.time().seconds(),
            },
            Work::Communicate { group, exchange } => {
                let Some(group) = actor.groups[usize::from(group)] else {
                    return;
                };
                let exchange = self.job.groups[group.0 as usize].exchanges[usize::from(exchange)];
                let sms = self.job.exchanges[exchange.0 as usize].sms;
                if sms == 0 {
                    return;
                }
                Busy {
                    from: done.came,
                    to: done.ended,
                    sms: sms as f32 / actor.sms.max(1) as f32,
                    kernels: false,
                    tensor: 0.0,
                    dram: 0.0,
                }
            }
            Work::Transfer { .. } | Work::Wait(_) | Work::Synchronise | Work::HostSync { .. } => {
                return;
            }
        };
        self.busy.push((actor.rank, busy));
    }

    fn sees_bytes(&self) -> bool {
        true
    }

    fn moved(&mut self, moved: Moved) {
        self.moved.push(moved);
    }
}

/// Two that look at the same job; the second one, if there is one.
pub struct Both<'a, 'j, P>(pub &'a mut P, pub Option<&'a mut Activity<'j>>);

impl<P: JobProbe> JobProbe for Both<'_, '_, P> {
    fn task(&mut self, done: Done, task: &Task) {
        self.0.task(done, task);
        if let Some(activity) = &mut self.1 {
            activity.task(done, task);
        }
    }

    fn sees_bytes(&self) -> bool {
        self.1.is_some()
    }

    fn moved(&mut self, moved: Moved) {
        if let Some(activity) = &mut self.1 {
            activity.moved(moved);
        }
    }
}
