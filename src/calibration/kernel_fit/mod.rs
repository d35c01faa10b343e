//! Fitting the laws of kernels to published profiles.
//!
//! An entry of the parameters' file – a family of kernels of a generation and data type – is fitted
//! to the rows of its own generation alone (`search.rs`). Then each octave of its shapes is left
//! out in turn and predicted with what is fitted on the others: octaves of the time that the GPU's
//! peaks allow a shape.

mod search;
#[cfg(test)]
mod tests;

use crate::serving::kernels::{KernelRow, KernelTables};
use fabricsim_budget::threads;
use fabricsim_report::training::median;
use fabricsim_units::Time;
use fabricsim_workload::kernel::parameters::Fitted;
use fabricsim_workload::kernel::{Entry, Format, KernelLaw, KernelParameters};
use search::Search;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a fit of kernels did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelFitLog {
    /// What wrote it.
    pub comment: String,
    /// Entries, by generation and place.
    pub entries: Vec<FittedEntry>,
    /// How far off groups are with each octave of their shapes left out of the fit.
    pub left_out: Vec<LeftOut>,
    /// Half of the groups are nearer, with each octave left out.
    pub median: f64,
    /// The same without those of FP4.
    pub median_without_fp4: f64,
    /// Rows that took no part, by table and reason.
    pub skipped: Vec<SkippedRows>,
    /// How many times an entry was predicted.
    pub evaluations: usize,
}

/// An entry that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedEntry {
    /// Generation and place.
    pub path: String,
    /// Tables with rows of it.
    pub tables: Vec<String>,
    /// Rows.
    pub rows: usize,
    /// The objective at the middle of all ranges and at the end.
    pub objective: (f64, f64),
    /// Figures before and after, in seconds, bytes per second, or as shares.
    pub values: BTreeMap<String, (f64, f64)>,
}

/// How far off a group is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// GPU, operator and data type.
    pub group: String,
    /// Whether it is of four bits.
    pub fp4: bool,
    /// Rows.
    pub rows: usize,
    /// Octaves that were left out in turn.
    pub octaves: usize,
    /// Half of the rows are nearer, fitted on all.
    pub fitted: f64,
    /// Half of the rows are nearer, each predicted without its octave.
    pub median: f64,
    /// Nine of ten rows are nearer, likewise.
    pub p90: f64,
}

/// Rows that took no part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedRows {
    /// Their table.
    pub id: String,
    /// Why not.
    pub why: String,
    /// How many.
    pub rows: usize,
}

/// The rows of an entry.
struct Task<'r> {
    generation: &'r str,
    entry: Entry,
    rows: Vec<&'r KernelRow>,
}

impl Task<'_> {
    fn path(&self) -> String {
        format!("{}.{}", self.generation, self.entry.place())
    }

    /// Figures that stay: the launch of a product is that of the 16-bit one, so that the rest of it is
    /// what narrowing the activations takes; that of experts whose kernels the host starts is that of 16-bit ones, so
    /// that the rest is what the host takes.
    fn held(&self, parameters: &KernelParameters) -> &'static [&'static str] {
        let moe = |format| {
            let generation = parameters.generations.get(self.generation);
            generation.and_then(|generation| generation.moe.get(&format))
        };
        match self.entry {
            Entry::Gemm(Format::Bf16) => &[],
            Entry::Gemm(_) => &["launch"],
            Entry::Moe(format) if moe(format).is_some_and(|e| e.starts.is_some()) => &["launch"],
            _ => &[],
        }
    }

    fn search<'r>(
        &'r self,
        parameters: &KernelParameters,
        keep: impl Fn(&KernelRow) -> bool,
    ) -> Search<'r> {
        let rows = self.rows.iter().copied().filter(|row| keep(row)).collect();
        let held = self.held(parameters);
        Search::new(parameters, (self.generation, self.entry), held, rows)
    }
}

/// Of fewer rows nothing is left out, and an octave with all of them cannot be.
const FEWEST: usize = 10;

/// Fits `parameters` to tables, on as many processors as there are threads; `tell` hears of each step.
#[must_use]
pub fn fit_kernels(
    parameters: &KernelParameters,
    tables: &KernelTables,
    budget: Option<usize>,
    tell: &dyn Fn(&str),
) -> (KernelParameters, KernelFitLog) {
    let mut fitted = parameters.clone();
    let tasks = tasks(&tables.rows);
    tell(&format!(
        "{} rows, {} entries",
        tables.rows.len(),
        tasks.len()
    ));
    let (first, rest): (Vec<&Task<'_>>, Vec<&Task<'_>>) = tasks.iter().partition(|task| {
        [Entry::Gemm(Format::Bf16), Entry::Moe(Format::Bf16)].contains(&task.entry)
    });
    let mut entries = Vec::new();
    let mut evaluations = 0;
    for part in [first, rest] {
        let found = threads::each(
            &part,
            budget,
            || (),
            |(), task| {
                let mut search = task.search(&fitted, |_| true);
                let objective = search.run();
                let values: Vec<(String, f64)> = search
                    .found()
                    .map(|(path, value)| (path.to_owned(), value))
                    .collect();
                (objective, values, search.evaluations)
            },
        );
        for (task, (objective, values, count)) in part.iter().zip(found) {
            evaluations += count;
            entries.push(put(&mut fitted, task, objective, &values));
        }
        launches(&mut fitted);
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    tell("fitted; leaving out octaves");
    let (left_out, count) = leave_out(&fitted, &tasks, budget);
    let middle = |fp4: bool| {
        let groups = left_out.iter().filter(|group| fp4 || !group.fp4);
        median(groups.map(|group| group.median).collect()).unwrap_or_default()
    };
    let skipped = tables.skipped.iter().map(|skip| SkippedRows {
        id: skip.id.clone(),
        why: skip.why.clone(),
        rows: skip.rows,
    });
    let log = KernelFitLog {
        comment: "written by `fabricsim fit --kernels`".to_owned(),
        entries,
        median: middle(true),
        median_without_fp4: middle(false),
        skipped: skipped.collect(),
        left_out,
        evaluations: evaluations + count,
    };
    (fitted, log)
}

/// Rows by the entry of their own generation that they are predicted with.
fn tasks(rows: &[KernelRow]) -> Vec<Task<'_>> {
    let mut tasks: BTreeMap<(&str, Entry), Vec<&KernelRow>> = BTreeMap::new();
    for row in rows {
        let Some(law) = KernelLaw::new(row.model()) else {
            continue;
        };
        let own = law
            .entry(&row.kernel)
            .filter(|(from, _)| *from == row.generation);
        if let Some((_, entry)) = own {
            tasks.entry((&row.generation, entry)).or_default().push(row);
        }
    }
    let tasks = tasks.into_iter().map(|((generation, entry), rows)| Task {
        generation,
        entry,
        rows,
    });
    tasks.collect()
}

/// Puts found figures in their places.
fn put(
    fitted: &mut KernelParameters,
    task: &Task<'_>,
    objective: (f64, f64),
    values: &[(String, f64)],
) -> FittedEntry {
    let tables: BTreeSet<&str> = task.rows.iter().map(|row| row.id.as_str()).collect();
    let tables: Vec<String> = tables.into_iter().map(str::to_owned).collect();
    let source = format!(
        "fitted by `fabricsim fit --kernels` to {} ({} rows)",
        tables.join(", "),
        task.rows.len()
    );
    let mut changes = BTreeMap::new();
    if let Some(generation) = fitted.generations.get_mut(task.generation) {
        for (path, mut leaf) in generation.leaves() {
            if let Some((_, value)) = values.iter().find(|(known, _)| *known == path) {
                let before = leaf.number();
                leaf.set(*value);
                leaf.say(&source);
                changes.insert(path, (before, leaf.number()));
            }
        }
    }
    FittedEntry {
        path: task.path(),
        rows: task.rows.len(),
        tables,
        objective,
        values: changes,
    }
}

/// Gives all products of a generation the launch of the 16-bit one, and experts whose kernels the host starts that of
/// 16-bit experts.
fn launches(fitted: &mut KernelParameters) {
    fn give(launch: Option<Fitted<Time>>, to: &mut Fitted<Time>, what: &str) {
        if let Some(launch) = launch {
            to.value = launch.value;
            what.clone_into(&mut to.source);
        }
    }
    for generation in fitted.generations.values_mut() {
        let launch = generation.gemm.get(&Format::Bf16).map(|e| e.launch.clone());
        for (format, entry) in &mut generation.gemm {
            if *format != Format::Bf16 {
                give(launch.clone(), &mut entry.launch, "as the 16-bit product's");
            }
        }
        let launch = generation.moe.get(&Format::Bf16).map(|e| e.launch.clone());
        for entry in generation.moe.values_mut().filter(|e| e.starts.is_some()) {
            give(launch.clone(), &mut entry.launch, "as 16-bit experts'");
        }
    }
}

/// Predicts each octave with what is fitted on the others.
fn leave_out(
    fitted: &KernelParameters,
    tasks: &[Task<'_>],
    budget: Option<usize>,
) -> (Vec<LeftOut>, usize) {
    let mut parts: Vec<(&Task<'_>, i32)> = Vec::new();
    for task in tasks.iter().filter(|task| task.rows.len() >= FEWEST) {
        let octaves: BTreeSet<i32> = task.rows.iter().map(|row| row.octave).collect();
        if octaves.len() > 1 {
            parts.extend(octaves.into_iter().map(|octave| (task, octave)));
        }
    }
    let found = threads::each(
        &parts,
        budget,
        || (),
        |(), (task, octave)| {
            let mut search = task.search(fitted, |row| row.octave != *octave);
            search.run();
            let out = task.rows.iter().filter(|row| row.octave == *octave);
            let off = |row: &&KernelRow| {
                let predicted = search.predict(row)?;
                Some((row.group(), (predicted / row.micros - 1.0).abs()))
            };
            let off: Vec<(String, f64)> = out.filter_map(off).collect();
            (off, search.evaluations)
        },
    );
    let mut groups: BTreeMap<String, (usize, Vec<f64>)> = BTreeMap::new();
    let mut evaluations = 0;
    for (off, count) in found {
        evaluations += count;
        let mut seen = BTreeSet::new();
        for (group, error) in off {
            let known = groups.entry(group.clone()).or_default();
            known.0 += usize::from(seen.insert(group));
            known.1.push(error);
        }
    }
    let errors = fitted_errors(fitted, tasks);
    let left = groups
        .into_iter()
        .map(|(group, (octaves, mut errors_out))| {
            errors_out.sort_by(f64::total_cmp);
            let at = (errors_out.len() * 9).div_ceil(10).saturating_sub(1);
            LeftOut {
                fp4: group.contains("fp4"),
                rows: errors_out.len(),
                octaves,
                fitted: errors.get(&group).copied().unwrap_or_default(),
                p90: errors_out.get(at).copied().unwrap_or_default(),
                median: median(errors_out).unwrap_or_default(),
                group,
            }
        });
    (left.collect(), evaluations)
}

/// The median error of each group with all that was fitted.
fn fitted_errors(fitted: &KernelParameters, tasks: &[Task<'_>]) -> BTreeMap<String, f64> {
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in tasks.iter().flat_map(|task| &task.rows) {
        if let Some(law) = KernelLaw::with(row.model(), fitted) {
            let error = law.profiled(&row.kernel).micros() / row.micros - 1.0;
            errors.entry(row.group()).or_default().push(error.abs());
        }
    }
    let errors = errors.into_iter();
    errors
        .map(|(group, errors)| (group, median(errors).unwrap_or_default()))
        .collect()
}

/// Parameters as their file has them: a figure a line.
///
/// # Errors
/// Never for parameters that were read.
pub fn kernel_parameters_text(parameters: &KernelParameters) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    write(&serde_json::to_value(parameters)?, 0, &mut text);
    text.push('\n');
    Ok(text)
}

fn write(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.contains_key("value") => {
            text.push_str("{\n");
            for (at, (name, field)) in fields.iter().enumerate() {
                let comma = if at > 0 { ",\n" } else { "" };
                let space = "  ".repeat(depth + 1);
                text.push_str(&format!("{comma}{space}{}: ", Value::from(name.as_str())));
                write(field, depth + 1, text);
            }
            text.push_str(&format!("\n{}}}", "  ".repeat(depth)));
        }
        Value::Object(fields) => {
            let figure = fields
                .iter()
                .map(|(name, field)| format!("{}: {field}", Value::from(name.as_str())));
            let figure: Vec<String> = figure.collect();
            text.push_str(&format!("{{ {} }}", figure.join(", ")));
        }
        other => text.push_str(&other.to_string()),
    }
}
