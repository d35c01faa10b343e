//! A search's result in a sentence or two.

use super::{Choice, Optimized, Reason, Target};
use crate::metrics::{label, shown};
use crate::numbers::grouped;

pub(super) fn of(found: &Optimized) -> String {
    if let Some(target) = &found.target {
        return reached(found, target);
    }
    let objective = found.objective.as_str();
    let Some(best) = found.best.first() else {
        return nothing(found);
    };
    let described = |choice: &Choice| {
        let value = choice.metrics.number(objective);
        let value = value.map_or_else(|| "–".to_owned(), |value| shown(objective, value));
        format!(
            "{} with {}: {value} {}",
            choice.topology,
            choice.layout,
            label(objective)
        )
    };
    let mut answer = format!(
        "The best of {} layouts is {}",
        grouped(found.searched),
        described(best)
    );
    let other = found.best.iter().find(|c| c.topology != best.topology);
    if let Some(other) = other {
        answer += &format!("; the best of {}", described(other));
        let values = best
            .metrics
            .number(objective)
            .zip(other.metrics.number(objective));
        if let Some((a, b)) = values {
            answer += &format!(", {:.2} × apart", (a / b).max(b / a));
        }
    }
    answer.push('.');
    let as_good: Vec<&Choice> = found.best.iter().filter(|choice| choice.tied).collect();
    if let (Some(first), Some(error)) = (as_good.first(), found.known_error) {
        let more = match as_good.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        answer += &format!(
            " {} on {}{more} is as good: half of such predictions are off by {:.0} %.",
            first.layout,
            first.topology,
            error * 100.0
        );
    }
    answer
}

fn nothing(found: &Optimized) -> String {
    let count = |reason| {
        let found = found.pruned.iter().find(|pruned| pruned.by == reason);
        found.map_or(0, |pruned| pruned.count)
    };
    let (memory, division) = (count(Reason::Memory), count(Reason::Division));
    let mut answer = format!(
        "None of {} layouts can be run: {} do not divide, {} do not fit into memory",
        grouped(found.searched),
        grouped(division),
        grouped(memory)
    );
    let lacks = found.rejected.iter().filter_map(|rejected| {
        let lacks = rejected.memory_gib? - rejected.memory_capacity_gib?;
        Some((lacks, rejected))
    });
    if let Some((lacks, nearest)) = lacks.min_by(|a, b| a.0.total_cmp(&b.0)) {
        answer += &format!(
            " (the nearest lacks {lacks:.1} GiB: {} on {})",
            nearest.layout, nearest.topology
        );
    }
    answer + "."
}

/// How many GPUs a rate takes.
fn reached(found: &Optimized, target: &Target) -> String {
    let rate = shown("tokens_per_s", target.tokens_per_s);
    if target.reached.is_empty() {
        return format!(
            "No layout on up to {} GPUs reaches {rate} tokens/s.",
            grouped(u64::from(target.most_gpus))
        );
    }
    let each = found.best.iter().map(|choice| {
        let own = choice.metrics.tokens_per_s.unwrap_or(0.0);
        format!(
            "{} GPUs of {} ({}: {})",
            choice.gpus,
            choice.topology,
            choice.layout,
            shown("tokens_per_s", own)
        )
    });
    let each: Vec<String> = each.collect();
    format!(
        "{rate} tokens/s take {}; 8, 16, 32 … GPUs were tried, and fewer do not reach it.",
        each.join(", or ")
    )
}
