//! A search's result in a sentence or two.

use super::{Choice, Cluster, Optimized, Reason, Target, Tried};
use crate::bill::dollars;
use crate::metrics::{label, shown};
use crate::numbers::{gpus_text, grouped, three_digits};

pub(super) fn of(found: &Optimized) -> String {
    if let Some(target) = &found.target {
        return reached(found, target);
    }
    let Some(best) = found.best.first() else {
        return nothing(found);
    };
    let mut answer = format!(
        "The best of {} layouts is {}",
        grouped(found.searched),
        described(found, best)
    );
    let number = |choice: &Choice| choice.metrics.number(&found.objective);
    for other in found.firsts().into_iter().skip(1) {
        answer += &format!("; the best of {}", described(found, other));
        if let Some((a, b)) = number(best).zip(number(other)) {
            answer += &format!(", {:.2} × apart", (a / b).max(b / a));
        }
    }
    answer.push('.');
    let more = [
        without(found),
        only_offloaded(found, best),
        pays(found),
        sizes(found, best),
        networks(found, best),
    ];
    for more in more {
        answer += &more;
    }
    if found.bucketed > 0 {
        answer += &format!(
            " Bucket sizes were tried for the {} fastest alone.",
            grouped(found.bucketed)
        );
    }
    let as_good: Vec<&Choice> = found.best.iter().filter(|choice| choice.tied).collect();
    if let (Some(first), Some(error)) = (as_good.first(), found.known_error) {
        let more = match as_good.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        answer += &format!(
            " {} on {}{}{more} is as good: half of such predictions are off by {:.0} %.",
            first.layout,
            first.topology,
            beside(found, first),
            error * 100.0
        );
    }
    answer + &kernels(found)
}

/// What else than by default kernels are: a scenario without it gives other figures.
fn kernels(found: &Optimized) -> String {
    match found.flash_version {
        None | Some(2) => String::new(),
        Some(version) => format!(
            " Attention is FlashAttention {version}, where the GPUs have it; a scenario that says none has 2."
        ),
    }
}

/// A choice with what it gives, and what that takes.
fn described(found: &Optimized, choice: &Choice) -> String {
    let objective = found.objective.as_str();
    let number = |name: &str| choice.metrics.number(name);
    let value = number(objective).map_or_else(|| "–".to_owned(), |value| shown(objective, value));
    let takes = [("usd_per_mtok", "$"), ("kw", "")].into_iter();
    let takes = takes.filter(|(name, _)| *name != objective);
    let takes = takes.filter_map(|(name, sign)| {
        let value = three_digits(number(name)?);
        Some(format!(
            ", {sign}{value} {}",
            label(name).trim_start_matches("$ ")
        ))
    });
    format!(
        "{}{} with {}: {value} {}{}",
        choice.topology,
        beside(found, choice),
        choice.layout,
        label(objective),
        takes.collect::<String>()
    )
}

/// The machines of which nothing can be run, and why.
fn without(found: &Optimized) -> String {
    let mut told: Vec<&str> = Vec::new();
    let mut text = String::new();
    for cluster in &found.clusters {
        let machine = cluster.topology.as_str();
        let has_best = found.best.iter().any(|best| best.topology == machine);
        if has_best || told.contains(&machine) {
            continue;
        }
        told.push(machine);
        let why = cluster
            .why
            .map_or_else(String::new, |why| format!(": {}", why.of_all()));
        text += &format!(" Nothing on {machine} can be run{why}.");
    }
    text
}

/// That the best needs the host's memory, where nothing of its machine could be run without.
fn only_offloaded(found: &Optimized, best: &Choice) -> String {
    let own = |choice: &&Choice| choice.topology == best.topology && choice.gpus == best.gpus;
    let mut all = found.all.iter().filter(own);
    match best.layout.offload.is_some() && all.all(|choice| choice.layout.offload.is_some()) {
        true => " No layout fits into the memory of these GPUs alone.".to_owned(),
        false => String::new(),
    }
}

/// GPUs and network of a choice, where several are compared.
fn beside(found: &Optimized, choice: &Choice) -> String {
    let gpus = found.clusters.iter().any(|c| c.gpus != choice.gpus);
    let mut more = Vec::new();
    if gpus {
        more.push(gpus_text(choice.gpus));
    }
    if let Some(ratio) = choice.oversubscription {
        more.push(format!("oversubscription {ratio}"));
    }
    match more.is_empty() {
        true => String::new(),
        false => format!(" ({})", more.join(", ")),
    }
}

/// How many GPUs the budget pays, and how many of them layouts can use.
fn pays(found: &Optimized) -> String {
    if found.budget.is_empty() {
        return String::new();
    }
    let mut named: Vec<&str> = Vec::new();
    let mut paid = Vec::new();
    for cluster in &found.clusters {
        let machine = cluster.topology.as_str();
        if named.contains(&machine) {
            continue;
        }
        named.push(machine);
        let own = found.clusters.iter().filter(|c| c.topology == machine);
        let most = |used: bool| {
            let own = own.clone().filter(|c| c.over.is_empty());
            own.filter(|c| !used || c.layout.is_some())
                .map(|c| c.gpus)
                .max()
        };
        paid.push(match (most(false), most(true)) {
            (None, _) => format!("no GPUs of {machine}"),
            (Some(all), Some(used)) if used == all => format!("{} of {machine}", gpus_text(all)),
            (Some(all), Some(used)) => format!(
                "{} of {machine}, of which layouts can use {}",
                gpus_text(all),
                grouped(u64::from(used))
            ),
            (Some(all), None) => format!("{} of {machine}, with no layout", gpus_text(all)),
        });
    }
    format!(" The budget pays {}.", paid.join("; "))
}

/// The clusters that differ from that of the best in one thing alone.
fn others<'f>(
    found: &'f Optimized,
    best: &Choice,
    same: impl Fn(&Cluster) -> bool,
) -> Option<(&'f Cluster, Vec<&'f Cluster>)> {
    let of_machine = found
        .clusters
        .iter()
        .filter(|c| c.topology == best.topology);
    let (own, others): (Vec<_>, Vec<_>) = of_machine
        .filter(|cluster| cluster.layout.is_some() && same(cluster))
        .partition(|c| c.gpus == best.gpus && c.oversubscription == best.oversubscription);
    let own = own.first().copied()?;
    (!others.is_empty()).then_some((own, others))
}

/// So many other numbers of GPUs are named; the table has all.
const SIZES: usize = 3;

/// What other numbers of GPUs give.
fn sizes(found: &Optimized, best: &Choice) -> String {
    let same = |c: &Cluster| c.oversubscription == best.oversubscription;
    let Some((own, others)) = others(found, best, same) else {
        return String::new();
    };
    let with = |cluster: &Cluster| {
        let value = cluster
            .number("usd_per_mtok")
            .map_or_else(String::new, |usd| {
                format!(" at ${} per M tokens", three_digits(usd))
            });
        let rate = cluster.number("tokens_per_s").unwrap_or(0.0);
        format!(
            "{} give {} tokens/s{value}",
            gpus_text(cluster.gpus),
            shown("tokens_per_s", rate)
        )
    };
    let named: Vec<String> = others.into_iter().take(SIZES).map(with).collect();
    format!(" {}, {}.", with(own), named.join(", "))
}

/// What smaller networks cost in speed, and save.
fn networks(found: &Optimized, best: &Choice) -> String {
    let ratio = |c: &Cluster| c.oversubscription.unwrap_or(1.0);
    let all = found.clusters.iter().filter(|c| {
        c.topology == best.topology && c.gpus == best.gpus && c.oversubscription.is_some()
    });
    let all: Vec<&Cluster> = all.filter(|c| c.layout.is_some()).collect();
    let Some(widest) = all.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))) else {
        return String::new();
    };
    let against = all
        .iter()
        .filter(|c| ratio(c) > ratio(widest))
        .filter_map(|cluster| {
            let speed = cluster.number("tokens_per_s")? / widest.number("tokens_per_s")?;
            let lost = (1.0 - speed) * 100.0;
            let slower = match lost {
                lost if lost.abs() < 0.05 => "no speed".to_owned(),
                lost if lost < 0.0 => format!("−{:.1} % of the speed", -lost),
                lost => format!("{lost:.1} % of the speed"),
            };
            let saved = cluster.network_usd.zip(widest.network_usd);
            let saved = saved.map_or_else(String::new, |(own, wide)| {
                format!(
                    " and saves {} of a network of {}",
                    dollars(wide - own),
                    dollars(wide)
                )
            });
            Some(format!(
                "oversubscription {} costs {slower}{saved}",
                ratio(cluster)
            ))
        });
    let against: Vec<String> = against.collect();
    match against.is_empty() {
        true => String::new(),
        false => format!(" Beside {}, {}.", ratio(widest), against.join("; ")),
    }
}

fn nothing(found: &Optimized) -> String {
    let pruned = found.pruned.iter().filter(|pruned| pruned.count > 0);
    let why = pruned.map(|pruned| format!("{} {}", grouped(pruned.count), pruned.by.text()));
    let why: Vec<String> = why.collect();
    let mut answer = format!(
        "None of {} layouts can be run: {}",
        grouped(found.searched),
        why.join(", ")
    );
    let lacks = found.rejected.iter().filter_map(|rejected| {
        let lacks = rejected.memory_gib? - rejected.memory_capacity_gib?;
        Some((lacks, rejected))
    });
    if let Some((lacks, nearest)) = lacks.min_by(|a, b| a.0.total_cmp(&b.0)) {
        answer += &format!(
            " (the nearest lacks {lacks:.1} GiB: {} on {})",
            nearest.layout(),
            nearest.topology
        );
    }
    answer + "." + &pays(found)
}

/// How many GPUs a rate takes: for each machine what reaches it, and what of that which was tried does not.
fn reached(found: &Optimized, target: &Target) -> String {
    let rate = shown("tokens_per_s", target.tokens_per_s);
    let firsts = found.firsts();
    let each = firsts.iter().map(|choice| {
        let own = choice.metrics.tokens_per_s.unwrap_or(0.0);
        format!(
            "{} of {} ({}: {})",
            gpus_text(choice.gpus),
            choice.topology,
            choice.layout,
            shown("tokens_per_s", own)
        )
    });
    let each: Vec<String> = each.collect();
    let mut answer = match each.is_empty() {
        true => format!(
            "No layout on up to {} GPUs reaches {rate} tokens/s.",
            grouped(u64::from(target.most_gpus))
        ),
        false => format!("{rate} tokens/s take {}.", each.join(", or ")),
    };
    let mut machines: Vec<&str> = Vec::new();
    for tried in &found.tried {
        if !machines.contains(&tried.topology.as_str()) {
            machines.push(&tried.topology);
            answer += &fewer(found, &tried.topology, firsts.len() + machines.len() > 2);
        }
    }
    answer + &kernels(found)
}

/// More numbers of GPUs than these are counted; the document has all.
const NAMED: usize = 6;

/// What fewer GPUs of a machine do; `named`: of which machine.
fn fewer(found: &Optimized, machine: &str, named: bool) -> String {
    let of = match named {
        true => format!(" of {machine}"),
        false => String::new(),
    };
    let own = || found.tried.iter().filter(|tried| tried.topology == machine);
    let missed: Vec<&Tried> = own().filter(|tried| !tried.met).collect();
    let Some(last) = missed.iter().max_by_key(|tried| tried.gpus) else {
        return format!(" Nothing is less than one GPU{of}.");
    };
    let mut text = format!(" {}{of} do not ({})", gpus_text(last.gpus), last.outcome());
    if missed.len() > 1 {
        text += &format!(
            ", nor does any of the {} smaller numbers of whole nodes and parts of one",
            grouped(missed.len() as u64 - 1)
        );
    }
    text.push('.');
    let undivided = missed
        .iter()
        .filter(|tried| tried.why == Some(Reason::Division));
    let undivided: Vec<String> = undivided.map(|tried| tried.gpus.to_string()).collect();
    let over = match undivided.as_slice() {
        [] => return text,
        few if few.len() <= NAMED => few.join(", "),
        many => format!(
            "{} of these numbers (the largest is {}) of",
            many.len(),
            many[many.len() - 1]
        ),
    };
    text += &format!(
        " No layout divides the model and the batch, which stays as it is, over {over} GPUs{of}."
    );
    text
}
