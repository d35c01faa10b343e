//! The host terms of engines, and the values that a fit tries.

use fabricsim_topology::EngineModel;
use fabricsim_topology::hardware::Sourced;
use fabricsim_units::Time;
use fabricsim_workload::serving::spec::EngineSpec;

/// One of the figures that an engine has in `topologies/software/serving.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    PerPass,
    PerSequence,
    PerRequest,
    PerPromptToken,
    PerLayer,
    LaunchShare,
}

/// Where each term stands on its ladder, in the order of [`Term::ALL`].
pub(super) type Point = [usize; 6];

impl Term {
    pub(super) const ALL: [Term; 6] = [
        Term::PerPass,
        Term::PerSequence,
        Term::PerRequest,
        Term::PerPromptToken,
        Term::PerLayer,
        Term::LaunchShare,
    ];

    /// Pairs that runs hardly tell apart: what one of them takes less the other takes more.
    pub(super) const TRADED: [(Term, Term); 5] = [
        (Term::PerPass, Term::PerSequence),
        (Term::PerPass, Term::LaunchShare),
        (Term::PerRequest, Term::PerPromptToken),
        (Term::PerRequest, Term::PerLayer),
        (Term::PerPromptToken, Term::PerLayer),
    ];

    /// As the file calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Term::PerPass => "per_pass",
            Term::PerSequence => "per_sequence",
            Term::PerRequest => "per_request",
            Term::PerPromptToken => "per_prompt_token",
            Term::PerLayer => "per_layer",
            Term::LaunchShare => "launch_share",
        }
    }

    /// The values that are tried: about half as much again from one to the next, in microseconds, or as shares. They
    /// end where hosts of the last ten years would be too slow to be used; those of prompts' tokens where the first
    /// token of 10,000 that are cached, 61.5 ms after the request (PegaFlow), would be late.
    pub(super) const fn ladder(self) -> &'static [f64] {
        match self {
            Term::PerPass => &[
                0.0, 100.0, 200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2300.0, 3000.0,
            ],
            Term::PerSequence => &[0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0],
            Term::PerRequest => &[
                0.0, 1000.0, 2000.0, 3000.0, 5000.0, 7000.0, 10_000.0, 15_000.0, 20_000.0,
                30_000.0, 40_000.0, 60_000.0,
            ],
            Term::PerPromptToken => &[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
            Term::PerLayer => &[0.0, 100.0, 200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0],
            Term::LaunchShare => &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        }
    }

    /// The place of the value that is nearest to the engine's own.
    fn nearest(self, engine: &EngineModel) -> usize {
        let own = self.of(engine);
        let far = |value: f64| (value - own).abs();
        let ladder = self.ladder();
        let places = 0..ladder.len();
        let nearest = places.min_by(|&a, &b| far(ladder[a]).total_cmp(&far(ladder[b])));
        nearest.unwrap_or_default()
    }

    /// An engine's figure.
    pub(super) fn of(self, engine: &EngineModel) -> f64 {
        match self {
            Term::PerPass => engine.per_pass.value.micros(),
            Term::PerSequence => engine.per_sequence.value.micros(),
            Term::PerRequest => engine.per_request.value.micros(),
            Term::PerPromptToken => engine.per_prompt_token.value.micros(),
            Term::PerLayer => engine.per_layer.value.micros(),
            Term::LaunchShare => engine.launch_share.value,
        }
    }

    /// What is said of a figure that stands where its ladder ends.
    const fn end(self) -> &'static str {
        match self {
            Term::PerPromptToken => {
                "; no more is tried, for the first token of 10,000 cached ones comes after 61.5 ms (PegaFlow)"
            }
            Term::LaunchShare => "",
            _ => "; no more is tried",
        }
    }

    /// Sets an engine's figure.
    fn write(self, engine: &mut EngineModel, value: f64, source: &str) {
        let set = |figure: &mut Sourced<Time>| {
            figure.value = micros(value);
            source.clone_into(&mut figure.source);
        };
        match self {
            Term::PerPass => set(&mut engine.per_pass),
            Term::PerSequence => set(&mut engine.per_sequence),
            Term::PerRequest => set(&mut engine.per_request),
            Term::PerPromptToken => set(&mut engine.per_prompt_token),
            Term::PerLayer => set(&mut engine.per_layer),
            Term::LaunchShare => {
                engine.launch_share.value = value;
                source.clone_into(&mut engine.launch_share.source);
            }
        }
    }
}

fn micros(value: f64) -> Time {
    Time::from_picos((value * 1e6).round() as u64)
}

/// Where an engine's own figures stand.
pub(super) fn own(engine: &EngineModel) -> Point {
    Term::ALL.map(|term| term.nearest(engine))
}

/// The values at a point.
pub(super) fn values(point: &Point) -> [f64; 6] {
    std::array::from_fn(|at| Term::ALL[at].ladder()[point[at]])
}

/// A scenario's engine with the values at a point.
pub(super) fn set(engine: &mut EngineSpec, point: &Point) {
    let [pass, sequence, request, prompt_token, layer, launch] = values(point);
    engine.host_per_pass = Some(micros(pass));
    engine.host_per_sequence = Some(micros(sequence));
    engine.front_end = Some(micros(request));
    engine.front_end_per_token = Some(micros(prompt_token));
    engine.host_per_layer = Some(micros(layer));
    engine.launch_share = Some(launch);
}

/// Writes the values at a point where an engine has its own.
pub(super) fn write(engine: &mut EngineModel, point: &Point, source: &str) {
    for (term, &place) in Term::ALL.iter().zip(point) {
        let ladder = term.ladder();
        let end = if place + 1 == ladder.len() {
            term.end()
        } else {
            ""
        };
        term.write(engine, ladder[place], &format!("{source}{end}"));
    }
}
