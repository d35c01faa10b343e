//! Which way to serve is better.

use fabricsim_report::optimize::ServingChoice;
use fabricsim_report::serving::Verdict;
use std::cmp::Ordering;

/// What differs by less than this share is as good: a load that all serve is one rate, but for chance.
const AS_GOOD: f64 = 0.01;

/// By what ways to serve are ordered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) objective: &'a str,
    /// Fewer GPUs come before a better objective.
    pub(super) fewest_first: bool,
}

impl Order<'_> {
    /// Those that do what is asked first, then by GPUs if so asked, by the objective.
    pub(super) fn compare(self, a: &ServingChoice, b: &ServingChoice) -> Ordering {
        let worth = |choice: &ServingChoice| choice.metrics.worth(self.objective);
        // Of those that were not served as too much comes, those come first that do more.
        let full = |choice: &ServingChoice| choice.full_requests_per_s.unwrap_or(0.0);
        (self.group(a).cmp(&self.group(b)))
            .then(worth(b).total_cmp(&worth(a)))
            .then(full(b).total_cmp(&full(a)))
    }

    /// What comes before the objective.
    fn group(self, choice: &ServingChoice) -> (bool, u32) {
        let gpus = if self.fewest_first { choice.gpus } else { 0 };
        (!choice.meets, gpus)
    }

    /// The best first. Of those that are as good as the best by the objective, those come first of which more requests
    /// meet the SLO, then those whose requests take less.
    pub(super) fn sort(self, all: &mut [ServingChoice]) {
        let worth = |choice: &ServingChoice| choice.metrics.worth(self.objective);
        let share = |choice: &ServingChoice| choice.metrics.serving.slo_share.unwrap_or(0.0);
        let latency =
            |choice: &ServingChoice| choice.metrics.serving.e2e_ms_p50.unwrap_or(f64::INFINITY);
        all.sort_by(|a, b| self.compare(a, b));
        for group in all.chunk_by_mut(|a, b| self.group(a) == self.group(b)) {
            let best = worth(&group[0]);
            let near = |choice: &&mut ServingChoice| (worth(choice) / best - 1.0).abs() < AS_GOOD;
            let near = group.iter_mut().take_while(near).count();
            group[..near].sort_by(|a, b| {
                (share(b).total_cmp(&share(a))).then(latency(a).total_cmp(&latency(b)))
            });
        }
    }
}

/// Those that keep up and that no other one beats in tokens per second for a user, and for a GPU, at once.
pub(super) fn pareto(all: &[ServingChoice]) -> Vec<ServingChoice> {
    let of = |choice: &ServingChoice| {
        let serving = &choice.metrics.serving;
        let user = serving.output_tokens_per_s_per_user?;
        Some((user, serving.output_tokens_per_s_per_gpu?))
    };
    let stable = || all.iter().filter(|c| c.verdict == Some(Verdict::Stable));
    let beaten = |choice: &ServingChoice| {
        let Some((user, gpu)) = of(choice) else {
            return true;
        };
        stable().filter_map(of).any(|(other_user, other_gpu)| {
            other_user >= user && other_gpu >= gpu && (other_user > user || other_gpu > gpu)
        })
    };
    let mut front: Vec<ServingChoice> = stable().filter(|c| !beaten(c)).cloned().collect();
    let user = |choice: &ServingChoice| of(choice).map_or(0.0, |(user, _)| user);
    front.sort_by(|a, b| user(b).total_cmp(&user(a)));
    front
}
