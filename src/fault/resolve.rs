//! From the faults of a file to those of a machine: every name found, every number checked.

use super::effects::{Draws, Effect, Fall, Faults, Item, PARTS, Release};
use super::error::{FaultError, problem};
use super::ranks::Ranks;
use super::spec::{
    Because, DataLoaderStall, DegradedLink, Failed, FallTo, Fallback, FaultKind, FaultSpec, Flap,
    Jitter, OtherRelease, RepeatSpec, SlowGpu,
};
use super::window::{Repeat, Windows};
use fabricsim_topology::{
    DeviceId, DeviceKind, Fault as Problem, LinkId, NodeId, Topology, select,
};
use fabricsim_units::Time;
use std::collections::BTreeMap;
use std::ops::Range;

impl Faults {
    /// Finds everything that `spec` names on the machine. `gpus` holds each rank's GPU; what is
    /// random comes from `seed` alone.
    ///
    /// # Errors
    /// Everything that is wrong with the faults, with paths that start at `faults[0]`.
    pub fn resolve(
        spec: &FaultSpec,
        topology: &Topology,
        gpus: &[DeviceId],
        seed: u64,
    ) -> Result<Faults, FaultError> {
        let mut scene = Scene {
            topology,
            gpus,
            problems: Vec::new(),
            faults: Faults {
                seed,
                items: Vec::new(),
                by_rank: vec![Vec::new(); gpus.len()],
                by_link: BTreeMap::new(),
                failed: BTreeMap::new(),
                signatures: Vec::new(),
            },
        };
        for (i, kind) in spec.0.iter().enumerate() {
            let at = format!("faults[{i}]");
            match kind {
                FaultKind::SlowGpu(slow) => scene.slow_gpu(slow, &format!("{at}.slow_gpu")),
                FaultKind::Jitter(jitter) => scene.jitter(jitter, &format!("{at}.jitter")),
                FaultKind::DataLoaderStall(stall) => {
                    scene.stall(stall, &format!("{at}.data_loader_stall"));
                }
                FaultKind::Link(link) => scene.link(link, &format!("{at}.link")),
                FaultKind::Flap(flap) => scene.flap(flap, &format!("{at}.flap")),
                FaultKind::Failed(failed) => scene.failed(failed, &format!("{at}.failed")),
                FaultKind::Fallback(fall) => scene.fallback(fall, &format!("{at}.fallback")),
                FaultKind::OtherRelease(other) => {
                    scene.other_release(other, &format!("{at}.other_release"));
                }
            }
        }
        if !scene.problems.is_empty() {
            return Err(FaultError {
                problems: scene.problems,
            });
        }
        let mut faults = scene.faults;
        faults.signatures = faults.classify();
        Ok(faults)
    }
}

struct Scene<'a> {
    topology: &'a Topology,
    gpus: &'a [DeviceId],
    problems: Vec<Problem>,
    faults: Faults,
}

impl Scene<'_> {
    /// The value, or `None` with the problem noted.
    fn noted<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    fn wrong(&mut self, path: String, found: impl ToString, expected: &str) {
        self.problems
            .push(problem(path, found.to_string(), expected));
    }

    fn ranks(&mut self, ranks: &Ranks, at: &str) -> Option<Vec<usize>> {
        let found = ranks.resolve(self.topology, self.gpus, &format!("{at}.ranks"));
        self.noted(found)
    }

    fn links(&mut self, text: &str, at: &str) -> Option<Vec<LinkId>> {
        let found = select::links(self.topology, text, &format!("{at}.links"));
        self.noted(found)
    }

    /// Adds a fault; its place in the list.
    fn add(&mut self, what: String, place: String, effect: Effect) -> u32 {
        self.faults.items.push(Item {
            what,
            place,
            effect,
            off: false,
        });
        self.faults.items.len() as u32 - 1
    }

    fn add_to_ranks(&mut self, what: String, ranks: &[usize], effect: Effect) {
        let item = self.add(what, rank_names(ranks), effect);
        for &rank in ranks {
            self.faults.by_rank[rank].push(item);
        }
    }

    fn slow_gpu(&mut self, slow: &SlowGpu, at: &str) {
        let ranks = self.ranks(&slow.ranks, at);
        let windows = self.windows(slow.from, slow.to, slow.repeat, at);
        let speed = slow.speed;
        // Below a part in a billion nothing would be left to count in.
        if !(1.0 / PARTS as f64..=1.0).contains(&speed) {
            self.wrong(format!("{at}.speed"), speed, "above 0 and at most 1");
            return;
        }
        if let (Some(ranks), Some(windows)) = (ranks, windows) {
            let parts = (speed * PARTS as f64).round() as u64;
            let effect = Effect::Slow { windows, parts };
            self.add_to_ranks(format!("GPU at {speed} of its speed"), &ranks, effect);
        }
    }

    fn jitter(&mut self, jitter: &Jitter, at: &str) {
        let ranks = self.ranks(&jitter.ranks, at);
        let steps = self.steps(jitter.from_step, jitter.to_step, at);
        let before = self.problems.len();
        let add = jitter.add.map(|d| d.sampler(&format!("{at}.add")));
        let add = add.and_then(|sampler| self.noted(sampler));
        let stretch = jitter.stretch.map(|d| d.sampler(&format!("{at}.stretch")));
        let stretch = stretch.and_then(|sampler| self.noted(sampler));
        if jitter.add.is_none() && jitter.stretch.is_none() {
            let expected = "`add`, `stretch` or both";
            self.wrong(at.to_owned(), "neither `add` nor `stretch`", expected);
        }
        if let (Some(ranks), Some(steps), true) = (ranks, steps, before == self.problems.len()) {
            let per = jitter.per;
            let effect = Effect::Jitter {
                add,
                stretch,
                draws: Draws { per, steps },
            };
            self.add_to_ranks("jitter".to_owned(), &ranks, effect);
        }
    }

    fn stall(&mut self, stall: &DataLoaderStall, at: &str) {
        let ranks = self.ranks(&stall.ranks, at);
        let steps = self.steps(stall.from_step, stall.to_step, at);
        let sampler = stall.stall.sampler(&format!("{at}.stall"));
        let sampler = self.noted(sampler);
        let probability = stall.probability;
        if !(0.0..=1.0).contains(&probability) {
            self.wrong(format!("{at}.probability"), probability, "0 to 1");
        }
        if let (Some(ranks), Some(steps), Some(sampler)) = (ranks, steps, sampler) {
            let effect = Effect::Stall {
                probability,
                sampler,
                steps,
            };
            self.add_to_ranks("data loader stalls".to_owned(), &ranks, effect);
        }
    }

    fn link(&mut self, link: &DegradedLink, at: &str) {
        let links = self.links(&link.links, at);
        let windows = self.windows(link.from, link.to, link.repeat, at);
        let (Some(links), Some(windows)) = (links, windows) else {
            return;
        };
        let (what, factors): (String, Vec<f64>) = match (link.factor, link.rate) {
            (Some(factor), None) if (0.0..=1.0).contains(&factor) => {
                let what = format!("link at {factor} of its rate");
                (what, vec![factor; links.len()])
            }
            (Some(factor), None) => {
                self.wrong(format!("{at}.factor"), factor, "0 to 1");
                return;
            }
            (None, Some(rate)) => {
                let full = |id: LinkId| self.topology.rate(id);
                if let Some(&id) = links.iter().find(|&&id| full(id) < rate) {
                    let name = self.topology.link_name(id);
                    let expected = format!("at most the {} of `{name}`", full(id));
                    self.wrong(format!("{at}.rate"), rate, &expected);
                    return;
                }
                let share = |&id: &LinkId| {
                    rate.bytes_per_sec() as f64 / full(id).bytes_per_sec().max(1) as f64
                };
                let factors = links.iter().map(share).collect();
                (format!("link at {rate}"), factors)
            }
            (both, _) => {
                let found = both.map_or("neither `factor` nor `rate`", |_| "`factor` and `rate`");
                self.wrong(at.to_owned(), found, "one of `factor` and `rate`");
                return;
            }
        };
        let place = select::in_full(self.topology, &link.links);
        let item = self.add(what, place, Effect::Link { windows });
        for (id, factor) in links.into_iter().zip(factors) {
            self.faults
                .by_link
                .entry(id)
                .or_default()
                .push((item, factor));
        }
    }

    fn flap(&mut self, flap: &Flap, at: &str) {
        let links = self.links(&flap.links, at);
        let count = flap.count.unwrap_or(1);
        if count == 0 {
            self.wrong(format!("{at}.count"), 0, "1 or more");
            return;
        }
        if flap.down == Time::ZERO {
            self.wrong(format!("{at}.down"), flap.down, "more than 0");
            return;
        }
        let up = match (flap.up, count) {
            (None, 1) => Time::ZERO,
            (None, _) => {
                self.wrong(
                    at.to_owned(),
                    "no `up`",
                    "how long the link is up in between",
                );
                return;
            }
            (Some(Time::ZERO), _) => {
                self.wrong(format!("{at}.up"), Time::ZERO, "more than 0");
                return;
            }
            (Some(up), _) => up,
        };
        let Some(period) = flap.down.picos().checked_add(up.picos()) else {
            self.wrong(format!("{at}.up"), up, "a shorter time");
            return;
        };
        // Shorter ones would only slow the simulation down.
        if count > 1 && period < Time::from_micros(1).picos() {
            let found = Time::from_picos(period);
            let expected = "1us or more of `down` and `up` together";
            self.wrong(format!("{at}.up"), found, expected);
            return;
        }
        let rounds = period.saturating_mul(u64::from(count) - 1);
        let end = flap.from + Time::from_picos(rounds);
        let windows = Windows {
            from: flap.from,
            until: end + flap.down,
            repeat: (count > 1).then_some(Repeat {
                period: Time::from_picos(period),
                on: flap.down,
            }),
        };
        if let Some(links) = links {
            let what = "link down".to_owned();
            let place = select::in_full(self.topology, &flap.links);
            let item = self.add(what, place, Effect::Link { windows });
            for id in links {
                self.faults.by_link.entry(id).or_default().push((item, 0.0));
            }
        }
    }

    fn failed(&mut self, failed: &Failed, at: &str) {
        let path = format!("{at}.devices");
        let devices = select::devices(self.topology, &failed.devices, &path);
        let Some(devices) = self.noted(devices) else {
            return;
        };
        if self.outlives_its_cpu(&devices, &path) {
            return;
        }
        let windows = Windows::from(failed.at);
        let dead = |device: DeviceId| devices.binary_search(&device).is_ok();
        let ranks = self.gpus.iter().enumerate();
        let ranks: Vec<usize> = ranks.filter(|g| dead(*g.1)).map(|(rank, _)| rank).collect();
        let when = match failed.at {
            Time::ZERO => "failed from the start".to_owned(),
            at => format!("failed at {}", at.human()),
        };
        let what = match ranks.as_slice() {
            [] => when,
            ranks => format!("{when}, the GPU of {}", rank_names(ranks)),
        };
        let effect = Effect::Failed {
            windows,
            devices: devices.clone(),
        };
        let place = select::in_full(self.topology, &failed.devices);
        let item = self.add(what, place, effect);
        for (rank, &gpu) in self.gpus.iter().enumerate() {
            if dead(gpu) {
                self.faults.by_rank[rank].push(item);
            }
        }
        for (id, _) in self.topology.links() {
            let (from, to) = self.topology.ends(id);
            if dead(from) || dead(to) {
                self.faults.by_link.entry(id).or_default().push((item, 0.0));
            }
        }
        for &device in &devices {
            let time = self.faults.failed.entry(device).or_insert(failed.at);
            *time = failed.at.min(*time);
        }
    }

    fn fallback(&mut self, fall: &Fallback, at: &str) {
        let Some(to) = fall.to.or(fall.because.map(Because::to)) else {
            let expected = "`because`, such as \"no_rdma_devices\", or `to`: staged, tcp or gloo";
            self.wrong(at.to_owned(), "neither `because` nor `to`", expected);
            return;
        };
        let nodes = match &fall.nodes {
            None => (0..self.topology.nodes.len() as u32).map(NodeId).collect(),
            Some(_) if to != FallTo::Staged => {
                let expected =
                    "no `nodes`: the ranks of a communicator have one network, so all fall back";
                let found = format!("nodes, of a fall-back to {}", to.name());
                self.wrong(format!("{at}.nodes"), found, expected);
                return;
            }
            Some(text) => match self.nodes(text, &format!("{at}.nodes")) {
                Some(nodes) => nodes,
                None => return,
            },
        };
        let why = fall
            .because
            .map_or_else(String::new, |why| format!(": {}", why.text()));
        let place = fall.nodes.clone().unwrap_or_else(|| "all nodes".to_owned());
        let what = format!("falls back to {}{why}", to.text());
        self.add(what, place, Effect::Fallback(Fall { to, nodes }));
    }

    fn other_release(&mut self, other: &OtherRelease, at: &str) {
        let Some(nodes) = self.nodes(&other.nodes, &format!("{at}.nodes")) else {
            return;
        };
        let release = Release {
            nodes,
            nccl: other.nccl_version.clone(),
            place: format!("{at}.nccl_version"),
        };
        let what = format!("NCCL {}", other.nccl_version);
        self.add(what, other.nodes.clone(), Effect::OtherRelease(release));
    }

    /// Nodes by the devices that they consist of.
    fn nodes(&mut self, text: &str, at: &str) -> Option<Vec<NodeId>> {
        let devices = select::devices(self.topology, text, at);
        let devices = self.noted(devices)?;
        let mut nodes: Vec<NodeId> = devices
            .into_iter()
            .filter_map(|device| self.topology.node_of(device))
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            self.wrong(at.to_owned(), text, "nodes, such as `node1` or `node[0-3]`");
            return None;
        }
        Some(nodes)
    }

    /// A CPU among the devices whose node would go on without it, as no node does: noted.
    fn outlives_its_cpu(&mut self, devices: &[DeviceId], path: &str) -> bool {
        let topology = self.topology;
        let dead = |device: &DeviceId| devices.binary_search(device).is_ok();
        let found = devices.iter().find_map(|&device| {
            let node = topology.node_of(device)?;
            let cpu = topology.device(device).kind == DeviceKind::Cpu;
            let lives = !topology.nodes[node.index()].gpus.iter().all(dead);
            (cpu && lives).then(|| (topology.device_name(device), node))
        });
        let Some((name, node)) = found else {
            return false;
        };
        let expected = format!(
            "GPUs, NICs or switches, or all of `{}`: no node goes on without one of its CPUs",
            topology.nodes[node.index()].name
        );
        self.wrong(path.to_owned(), format!("`{name}`, a CPU"), &expected);
        true
    }

    fn windows(
        &mut self,
        from: Option<Time>,
        to: Option<Time>,
        repeat: Option<RepeatSpec>,
        at: &str,
    ) -> Option<Windows> {
        let from = from.unwrap_or(Time::ZERO);
        let until = to.unwrap_or(Time::MAX);
        if until <= from {
            self.wrong(
                format!("{at}.to"),
                until,
                &format!("later than `from`, {from}"),
            );
            return None;
        }
        if let Some(RepeatSpec { period, duration }) = repeat {
            // Shorter ones would only slow the simulation down.
            if period < Time::from_micros(1) {
                self.wrong(format!("{at}.repeat.period"), period, "at least 1us");
                return None;
            }
            if duration == Time::ZERO || period <= duration {
                let expected = format!("more than 0 and less than the period, {period}");
                self.wrong(format!("{at}.repeat.duration"), duration, &expected);
                return None;
            }
        }
        Some(Windows {
            from,
            until,
            repeat: repeat.map(|r| Repeat {
                period: r.period,
                on: r.duration,
            }),
        })
    }

    fn steps(&mut self, from: Option<u64>, to: Option<u64>, at: &str) -> Option<Range<u64>> {
        let steps = from.unwrap_or(0)..to.unwrap_or(u64::MAX);
        if steps.is_empty() {
            let expected = format!("more than `from_step`, {}", steps.start);
            self.wrong(format!("{at}.to_step"), steps.end, &expected);
            return None;
        }
        Some(steps)
    }
}

/// `rank 3`, `ranks 0-7, 12`.
fn rank_names(ranks: &[usize]) -> String {
    let mut parts = Vec::new();
    for run in ranks.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [first, .., last] => parts.push(format!("{first}-{last}")),
            run => parts.extend(run.iter().map(usize::to_string)),
        }
    }
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", parts.join(", "))
}
