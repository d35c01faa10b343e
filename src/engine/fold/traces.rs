//! What each worker does, as hashes: its steps but for the names of its connections, and for
//! each connection the steps in which it is used; and who is joined to whom.

use super::refine::{mix, mix_in};
use fabricsim_budget::Stop;
use fabricsim_collective::{ConnId, Connection, Program, Step, WorkerId};
use rustc_hash::FxHashMap;

/// Hashes of all steps of a program.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// By worker: how its steps look, connections aside.
    pub(super) worker: Vec<u64>,
    /// By connection: when its sender puts how much into it, and when its receiver takes it.
    pub(super) sent: Vec<u64>,
    pub(super) taken: Vec<u64>,
    /// Who waits for whom, and at which steps.
    pub(super) after: Vec<(WorkerId, WorkerId, u64)>,
    /// Of each connection.
    pub(super) ends: Vec<Connection>,
    /// The rank of each worker.
    pub(super) ranks: Vec<u32>,
}

/// The connections of each worker on one side, in order of their ids.
struct Side {
    starts: Vec<u32>,
    conns: Vec<u32>,
}

impl Side {
    /// By the worker at that side of each connection.
    fn new(
        program: &dyn Program,
        workers: impl DoubleEndedIterator<Item = WorkerId> + ExactSizeIterator + Clone,
    ) -> Self {
        let mut starts = vec![0u32; program.workers() as usize + 1];
        for worker in workers.clone() {
            starts[worker.index()] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut conns = vec![0; sum as usize];
        for (c, worker) in workers.enumerate().rev() {
            let start = &mut starts[worker.index()];
            *start -= 1;
            conns[*start as usize] = c as u32;
        }
        Side { starts, conns }
    }

    fn of(&self, worker: WorkerId) -> &[u32] {
        let (start, end) = (self.starts[worker.index()], self.starts[worker.index() + 1]);
        &self.conns[start as usize..end as usize]
    }
}

impl Traces {
    /// Looks at the steps of each worker, or of one worker of those that are alike; `None` if it is told to end
    /// before it has.
    pub(crate) fn new(program: &dyn Program, stop: Option<&Stop>) -> Option<Self> {
        let connections = program.connections() as usize;
        let mut traces = Traces {
            worker: Vec::with_capacity(program.workers() as usize),
            sent: vec![0; connections],
            taken: vec![0; connections],
            after: Vec::new(),
            ends: (0..program.connections())
                .map(|c| program.connection(ConnId(c)))
                .collect(),
            ranks: (0..program.workers())
                .map(|w| program.worker(WorkerId(w)).rank.0)
                .collect(),
        };
        let mut sides: Option<[Side; 2]> = None;
        let mut known: FxHashMap<u64, WorkerId> = FxHashMap::default();
        let copies = program.copies();
        for worker in (0..program.workers() / copies).map(WorkerId) {
            if stop.is_some_and(Stop::is_now) {
                return None;
            }
            let Some(key) = program.alike(worker) else {
                traces.look(program, worker);
                continue;
            };
            let first = *known.entry(key).or_insert(worker);
            if first == worker {
                traces.look(program, worker);
                continue;
            }
            let [out, into] = sides.get_or_insert_with(|| {
                [
                    Side::new(program, traces.ends.iter().map(|ends| ends.from)),
                    Side::new(program, traces.ends.iter().map(|ends| ends.to)),
                ]
            });
            for (side, trace) in [(out, &mut traces.sent), (into, &mut traces.taken)] {
                for (&c, &like) in side.of(worker).iter().zip(side.of(first)) {
                    trace[c as usize] = trace[like as usize];
                }
            }
            traces.worker.push(traces.worker[first.index()]);
        }
        traces.repeat(copies);
        Some(traces)
    }

    /// How a worker's steps look, connections aside.
    pub(crate) fn of_worker(&self, worker: WorkerId) -> u64 {
        self.worker[worker.index()]
    }

    /// When how much is put into a connection, and taken from it.
    pub(crate) fn of_connection(&self, connection: ConnId) -> (u64, u64) {
        (
            self.sent[connection.index()],
            self.taken[connection.index()],
        )
    }

    /// What is known of the first copy holds for all others.
    fn repeat(&mut self, copies: u32) {
        if copies == 1 {
            return;
        }
        let (workers, waits) = (self.worker.len(), self.after.len());
        self.worker = self.worker.repeat(copies as usize);
        for traces in [&mut self.sent, &mut self.taken] {
            let each = traces.len() / copies as usize;
            for at in each..traces.len() {
                traces[at] = traces[at - each];
            }
        }
        for copy in 1..copies {
            let later = |w: WorkerId| WorkerId(w.0 + copy * workers as u32);
            for at in 0..waits {
                let (worker, other, moment) = self.after[at];
                self.after.push((later(worker), later(other), moment));
            }
        }
    }

    fn look(&mut self, program: &dyn Program, worker: WorkerId) {
        let steps = program.steps(worker);
        // Without anybody to count them, steps that move nothing are nothing.
        let all_count = program.waits_inside();
        let (mut trace, mut counted) = (mix(u64::from(all_count) * steps), 0);
        let mut after: Vec<(WorkerId, u64)> = Vec::new();
        // Steps that follow each other are mostly alike: told once, with their number.
        let mut alike: Option<(Step, u64, u64)> = None;
        let mut index = 0;
        while index <= steps {
            let step = (index < steps).then(|| program.step(worker, index));
            if step.as_ref().is_some_and(|step| step.len == 0) {
                counted += u64::from(all_count);
                index += 1;
                continue;
            }
            // Those that the program knows to be alike need not be looked at.
            let more = match &step {
                Some(step) if step.after.is_none() => program.same_after(worker, index, 1),
                _ => 0,
            };
            match (&mut alike, &step) {
                (Some((first, from, count)), Some(step))
                    if counted == *from + *count && same(first, *count, step) =>
                {
                    *count += 1 + more;
                }
                _ => {
                    let now = step.map(|s| (s, counted, 1 + more));
                    let before = std::mem::replace(&mut alike, now);
                    if let Some((step, from, count)) = before {
                        let moment = mix_in(from, count);
                        trace = mix_in(trace, mix_in(moment, look_of(&step)));
                        self.tell(&step, moment, &mut after);
                    }
                }
            }
            counted += 1 + more;
            index += 1 + more;
        }
        self.worker.push(trace);
        let after = after.into_iter().map(|(other, m)| (worker, other, m));
        self.after.extend(after);
    }

    /// Tells the connections of a step, and whom it waits for, when that is.
    fn tell(&mut self, step: &Step, moment: u64, after: &mut Vec<(WorkerId, u64)>) {
        let step = step.trimmed();
        for (peers, traces) in [(step.send, &mut self.sent), (step.recv, &mut self.taken)] {
            for (k, c) in peers.iter().enumerate() {
                // Of a dealt chunk, what is left for it.
                let len = step.deal.map_or(step.len, |deal| {
                    deal.each.min(step.len - k as u64 * deal.each)
                });
                let trace = &mut traces[c.index()];
                *trace = mix_in(*trace, mix_in(moment, len));
            }
        }
        if let Some(point) = step.after {
            let moment = mix_in(moment, u64::from(point.steps));
            match after.iter_mut().find(|(w, _)| *w == point.worker) {
                Some((_, moments)) => *moments = mix_in(*moments, moment),
                None => after.push((point.worker, moment)),
            }
        }
    }
}

/// Whether a step that comes `later` than `first` differs from it only in its place in memory,
/// and waits for a step that comes as much later.
fn same(first: &Step, later: u64, step: &Step) -> bool {
    let local = |s: &Step| [s.source, s.addend, s.target].map(|at| at.is_some());
    let after = |s: &Step| s.after.map(|a| (a.worker, u64::from(a.steps)));
    first.len == step.len
        && first.recv == step.recv
        && first.send == step.send
        && first.deal == step.deal
        && local(first) == local(step)
        && after(first).map(|(worker, steps)| (worker, steps + later)) == after(step)
}

/// All of a step that its duration depends on, but for its connections' names.
fn look_of(step: &Step) -> u64 {
    let local = [step.source, step.addend, step.target];
    let counts = (step.recv.len() as u64) << 32
        | (step.send.len() as u64) << 8
        | local.iter().flatten().count() as u64;
    let each = step.deal.map_or(0, |deal| deal.each);
    mix_in(
        mix_in(mix_in(step.len, each), counts),
        u64::from(step.after.is_some()),
    )
}
