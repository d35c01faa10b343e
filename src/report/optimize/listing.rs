//! Tables and lines of a search's result, as terminals and pages have them.

use super::{Choice, Cluster, Flip, Headroom, Optimized, Reason, Tried};
use crate::bill::dollars;
use crate::metrics::{label, shown};
use crate::numbers::{grouped, micros, percent, three_digits};

/// A table.
pub(super) struct Listing {
    /// Headings, and whether numbers stand below.
    pub(super) columns: Vec<(String, bool)>,
    pub(super) rows: Vec<Row>,
}

/// A row of a table.
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// It is as good as the best.
    pub(super) tied: bool,
}

/// What stands in a cell, and the number that it sorts by.
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) number: Option<f64>,
}

fn words(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        number: None,
    }
}

fn number(text: String, number: Option<f64>) -> Cell {
    Cell { text, number }
}

fn metric(name: &str, value: Option<f64>) -> Cell {
    number(
        value.map_or_else(|| "–".to_owned(), |value| shown(name, value)),
        value,
    )
}

fn ratio(ratio: Option<f64>) -> Cell {
    number(ratio.map_or_else(String::new, |r| r.to_string()), ratio)
}

/// Layouts with their numbers.
pub(super) fn choices(found: &Optimized, choices: &[Choice]) -> Listing {
    let objective = found.objective.as_str();
    let names = [
        "time_us",
        "mfu",
        "exposed_share",
        "memory_gib",
        "usd_per_mtok",
        "kw",
        "kwh_per_mtok",
    ];
    let has = |name: &&str| {
        **name != *objective && choices.iter().any(|c| c.metrics.number(name).is_some())
    };
    let names: Vec<&str> = std::iter::once(objective)
        .chain(names.into_iter().filter(has))
        .collect();
    let ratios = choices.iter().any(|c| c.oversubscription.is_some());
    let mut columns = vec![("machine".to_owned(), false), ("GPUs".to_owned(), true)];
    columns.extend(ratios.then(|| ("oversubscription".to_owned(), true)));
    columns.push(("layout".to_owned(), false));
    columns.extend(names.iter().map(|name| (label(name).to_owned(), true)));
    columns.push((String::new(), false));
    let row = |choice: &Choice| {
        let mut cells = vec![
            words(&choice.topology),
            number(choice.gpus.to_string(), Some(choice.gpus.into())),
        ];
        cells.extend(ratios.then(|| ratio(choice.oversubscription)));
        cells.push(words(choice.layout.to_string()));
        let numbers = names
            .iter()
            .map(|name| metric(name, choice.metrics.number(name)));
        cells.extend(numbers);
        cells.push(words(if choice.tied { "as good" } else { "" }));
        Row {
            cells,
            tied: choice.tied,
        }
    };
    Listing {
        rows: choices.iter().map(row).collect(),
        columns,
    }
}

/// What "as good" means, if anything in a table is.
pub(super) fn as_good(found: &Optimized, choices: &[Choice]) -> Option<String> {
    let error = found
        .known_error
        .filter(|_| choices.iter().any(|c| c.tied))?;
    Some(format!(
        "as good: within the {} by which half of such predictions are off",
        percent(error)
    ))
}

/// Clusters with what they draw and cost, and their best layouts.
pub(super) fn clusters(found: &Optimized) -> Listing {
    let all = &found.clusters;
    let objective = found.objective.as_str();
    let names = ["tokens_per_s", "time_us", "usd_per_mtok"];
    let has = |name: &&str| **name != *objective && all.iter().any(|c| c.number(name).is_some());
    let names: Vec<&str> = std::iter::once(objective)
        .chain(names.into_iter().filter(has))
        .collect();
    type Figure = (&'static str, fn(&Cluster) -> Option<f64>, fn(f64) -> String);
    let figures: [Figure; 3] = [
        ("$ an hour", |c| c.usd_per_hour, dollars),
        ("kW (whole units)", |c| c.kw, three_digits),
        ("network, $", |c| c.network_usd, dollars),
    ];
    let known = |(_, of, _): &Figure| all.iter().any(|c| of(c).is_some());
    let figures: Vec<Figure> = figures.into_iter().filter(known).collect();
    let ratios = all.iter().any(|c| c.oversubscription.is_some());
    let mut columns: Vec<(String, bool)> = [("machine", false), ("nodes", true), ("GPUs", true)]
        .map(|(name, numbers)| (name.to_owned(), numbers))
        .to_vec();
    columns.extend(ratios.then(|| ("oversubscription".to_owned(), true)));
    columns.extend(names.iter().map(|name| (label(name).to_owned(), true)));
    columns.extend(figures.iter().map(|(name, ..)| ((*name).to_owned(), true)));
    columns.push(("best layout".to_owned(), false));
    // Numbers of nodes that no layout divides stand in a row.
    let alike = all.chunk_by(|a, b| {
        a.why == Some(Reason::Division)
            && a.why == b.why
            && a.topology == b.topology
            && a.oversubscription.map(f64::to_bits) == b.oversubscription.map(f64::to_bits)
    });
    let rows = alike.filter_map(|alike| {
        let (first, last) = (alike.first()?, alike.last()?);
        let range = |text: &dyn Fn(&Cluster) -> String| match (text(first), text(last)) {
            (first, last) if first == last => first,
            (first, last) => format!("{first} to {last}"),
        };
        let mut cells = vec![
            words(&first.topology),
            number(range(&|c| c.nodes.to_string()), Some(first.nodes.into())),
            number(range(&|c| c.gpus.to_string()), Some(first.gpus.into())),
        ];
        cells.extend(ratios.then(|| ratio(first.oversubscription)));
        cells.extend(names.iter().map(|name| metric(name, first.number(name))));
        cells.extend(figures.iter().map(|(_, of, text)| {
            let shown = |c: &Cluster| of(c).map_or_else(|| "unknown".to_owned(), text);
            number(range(&shown), of(first))
        }));
        cells.push(words(first.outcome()));
        Some(Row { cells, tied: false })
    });
    Listing {
        rows: rows.collect(),
        columns,
    }
}

/// Numbers of GPUs that were tried.
pub(super) fn tried(tried: &[Tried]) -> Listing {
    let row = |tried: &Tried| Row {
        cells: vec![
            words(&tried.topology),
            number(tried.gpus.to_string(), Some(tried.gpus.into())),
            words(if tried.met { "yes" } else { "no" }),
            words(tried.outcome()),
        ],
        tied: false,
    };
    let columns = [
        ("machine", false),
        ("GPUs", true),
        ("do", false),
        ("", false),
    ];
    Listing {
        columns: columns.map(|(name, is)| (name.to_owned(), is)).to_vec(),
        rows: tried.iter().map(row).collect(),
    }
}

/// What was searched, what was left out and by what, with how many.
pub(super) fn ledger(found: &Optimized) -> Vec<(u64, String)> {
    let mut rows = vec![(found.searched, "layouts in all".to_owned())];
    for pruned in &found.pruned {
        rows.push((pruned.count, pruned.by.text().to_owned()));
    }
    let bound = found.tightest_bound.map_or_else(String::new, |share| {
        format!(
            "; no bound was above what was simulated, the tightest at {}",
            percent(share)
        )
    });
    rows.push((found.simulated, format!("simulated{bound}")));
    if found.bucketed > 0 {
        let what = "of the fastest were tried with a quarter, 4 and 16 times the bucket size, too";
        rows.push((found.bucketed, what.to_owned()));
    }
    rows
}

/// How far the best can grow.
pub(super) fn headroom(room: &Headroom) -> Vec<String> {
    let mut lines = vec![format!(
        "{} GiB of memory are free",
        three_digits(room.memory_gib)
    )];
    if let Some(sequence) = room.sequence {
        lines.push(format!("sequences fit up to {} tokens", grouped(sequence)));
    }
    if let Some(share) = room.exposed_share {
        let cause = room.cause.as_deref().unwrap_or("kernels");
        lines.push(format!(
            "{} of the step is communication that nothing hides; most goes to {cause}",
            percent(share)
        ));
    }
    lines
}

/// What would change the choice.
pub(super) fn sentence(flip: &Flip) -> String {
    match flip {
        Flip::Memory {
            topology,
            layout,
            lacks_gib,
            step_bound_us,
            best_us,
        } => format!(
            "{} GiB more on each GPU of {topology}: {layout} would fit; its step cannot be below \
             {}, the best one takes {}",
            three_digits(*lacks_gib),
            micros(*step_bound_us),
            micros(*best_us)
        ),
        Flip::Price {
            than,
            topology,
            ratio,
        } => format!(
            "a GPU-hour of {topology} at less than {} of what one of {than} costs",
            match ratio {
                r if *r < 1.0 => percent(*r),
                r => format!("{} times", three_digits(*r)),
            }
        ),
    }
}
