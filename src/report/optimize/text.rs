//! A search's result for a terminal.

use super::{Choice, Cluster, Flip, Optimized, Reason};
use crate::bill::dollars;
use crate::metrics::{label, shown};
use crate::numbers::{grouped, micros, percent, three_digits};
use crate::text_table::{BEST, Out, cell, left, right, styled};

/// All of it.
#[must_use]
pub fn optimized_text(found: &Optimized, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.plain(&format!("# fabricsim {}: {}", found.version, found.title));
    if !found.best.is_empty() {
        out.plain("");
        table(&mut out, found, &found.best);
    }
    let others: Vec<Choice> = found
        .pareto
        .iter()
        .filter(|choice| !found.best.contains(choice))
        .cloned()
        .collect();
    if !others.is_empty() {
        out.heading("and with less of something else (memory, money, power)");
        table(&mut out, found, &others);
    }
    if !found.clusters.is_empty() {
        out.heading("GPUs and networks, each with its best layout");
        clusters(&mut out, found);
    }
    ledger(&mut out, found);
    if !found.flips.is_empty() {
        out.heading("what would change the choice");
        for flip in &found.flips {
            out.plain(&format!("  {}", sentence(flip)));
        }
    }
    if let Some(room) = &found.headroom {
        out.heading("headroom of the best");
        out.plain(&format!(
            "  {} GiB of memory are free",
            three_digits(room.memory_gib)
        ));
        if let Some(sequence) = room.sequence {
            out.plain(&format!(
                "  sequences fit up to {} tokens",
                grouped(sequence)
            ));
        }
        if let Some(share) = room.exposed_share {
            let cause = room.cause.as_deref().unwrap_or("kernels");
            out.plain(&format!(
                "  {} of the step is communication that nothing hides; most goes to {cause}",
                percent(share)
            ));
        }
    }
    out.plain("");
    out.plain(&found.answer);
    out.text
}

fn table(out: &mut Out, found: &Optimized, choices: &[Choice]) {
    let names = [
        "time_us",
        "mfu",
        "exposed_share",
        "memory_gib",
        "usd_per_mtok",
        "kw",
    ];
    let has = |name: &&str| {
        **name != *found.objective && choices.iter().any(|c| c.metrics.number(name).is_some())
    };
    let names: Vec<&str> = names.into_iter().filter(has).collect();
    let ratios = choices.iter().any(|c| c.oversubscription.is_some());
    let mut columns = vec![left("machine"), right("GPUs")];
    columns.extend(ratios.then(|| right("oversubscription")));
    columns.push(left("layout"));
    columns.push(right(label(&found.objective).to_owned()));
    columns.extend(names.iter().map(|name| right(label(name).to_owned())));
    columns.push(left(""));
    let rows = choices.iter().map(|choice| {
        let number = |name: &str| {
            let value = choice.metrics.number(name);
            value.map_or_else(|| "–".to_owned(), |value| shown(name, value))
        };
        let mut cells = vec![cell(choice.topology.clone()), cell(choice.gpus.to_string())];
        cells.extend(ratios.then(|| cell(ratio(choice.oversubscription))));
        cells.push(cell(choice.layout.to_string()));
        cells.push(match choice.tied {
            true => styled(number(&found.objective), BEST),
            false => cell(number(&found.objective)),
        });
        cells.extend(names.iter().map(|name| cell(number(name))));
        cells.push(cell(if choice.tied { "as good" } else { "" }));
        cells
    });
    let rows: Vec<_> = rows.collect();
    out.table(&columns, &rows);
    if let Some(error) = found.known_error.filter(|_| choices.iter().any(|c| c.tied)) {
        out.plain(&format!(
            "  as good: within the {} by which half of such predictions are off",
            percent(error)
        ));
    }
}

pub(super) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| ratio.to_string())
}

/// What clusters have in common with rows of choices, and what they draw and cost.
fn clusters(out: &mut Out, found: &Optimized) {
    let all = &found.clusters;
    let objective = found.objective.as_str();
    let names = ["tokens_per_s", "time_us", "usd_per_mtok"];
    let has = |name: &&str| **name != *objective && all.iter().any(|c| c.number(name).is_some());
    let names: Vec<&str> = names.into_iter().filter(has).collect();
    let known = |of: fn(&Cluster) -> Option<f64>| all.iter().any(|c| of(c).is_some());
    type Figure = (&'static str, fn(&Cluster) -> Option<f64>, fn(f64) -> String);
    let figures: [Figure; 3] = [
        ("$ an hour", |c| c.usd_per_hour, dollars),
        ("kW", |c| c.kw, three_digits),
        ("network, $", |c| c.network_usd, dollars),
    ];
    let figures: Vec<Figure> = figures.into_iter().filter(|f| known(f.1)).collect();
    let ratios = all.iter().any(|c| c.oversubscription.is_some());
    let mut columns = vec![left("machine"), right("nodes"), right("GPUs")];
    columns.extend(ratios.then(|| right("oversubscription")));
    columns.push(right(label(objective).to_owned()));
    columns.extend(names.iter().map(|name| right(label(name).to_owned())));
    columns.extend(figures.iter().map(|(name, ..)| right(*name)));
    columns.push(left("best layout"));
    // Numbers of nodes that no layout divides stand in a row.
    let alike = all.chunk_by(|a, b| {
        let of = |c: &Cluster| {
            (
                c.topology.clone(),
                c.oversubscription.map(f64::to_bits),
                c.why,
            )
        };
        a.why == Some(Reason::Division) && of(a) == of(b)
    });
    let rows = alike.filter_map(|alike| {
        let (cluster, last) = (alike.first()?, alike.last()?);
        let whole = |count: fn(&Cluster) -> u32| match (count(cluster), count(last)) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first} to {last}"),
        };
        let number = |name: &str| {
            let value = cluster.number(name);
            cell(value.map_or_else(|| "–".to_owned(), |value| shown(name, value)))
        };
        let mut cells = vec![
            cell(cluster.topology.clone()),
            cell(whole(|c| c.nodes)),
            cell(whole(|c| c.gpus)),
        ];
        cells.extend(ratios.then(|| cell(ratio(cluster.oversubscription))));
        cells.push(number(objective));
        cells.extend(names.iter().map(|name| number(name)));
        cells.extend(figures.iter().map(|(_, of, text)| {
            let known = |cluster| of(cluster).map_or_else(|| "unknown".to_owned(), text);
            cell(match (known(cluster), known(last)) {
                (first, last) if first == last => first,
                (first, last) => format!("{first} to {last}"),
            })
        }));
        cells.push(cell(cluster.outcome()));
        Some(cells)
    });
    let rows: Vec<_> = rows.collect();
    out.table(&columns, &rows);
}

fn ledger(out: &mut Out, found: &Optimized) {
    out.heading("what was searched");
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
    let columns = [right(""), left("")];
    let rows = rows
        .into_iter()
        .map(|(count, what)| vec![cell(grouped(count)), cell(what)]);
    out.table(&columns, &rows.collect::<Vec<_>>());
}

fn sentence(flip: &Flip) -> String {
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
