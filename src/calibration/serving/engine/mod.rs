//! Runs of engines as sources publish them, and the same simulated.
//!
//! A row becomes a scenario on the shipped machine of its card ([`settings`]), which runs as any other. What a source
//! does not say is taken as engines choose it; what cannot be taken so is a reason to skip the row.

mod fields;
mod layout;
mod load;
mod measured;
mod names;
mod precision;
mod settings;

use super::ENGINE_BENCHMARKS;
use super::table::ServingTable;
use fabricsim_budget::{Budget, threads};
use fabricsim_experiment::{
    Machines, Scenario, ScenarioError, ScenarioSpec, Silent, machine_of, run, validate_on,
};
use fabricsim_report::Outputs;
use fabricsim_report::serving::ServingResult;
use fabricsim_report::validation::{ServingSet, ServingSkip};
use fields::Fields;
use serde_json::{Map, Value, json};
pub(crate) use settings::Row;
use std::collections::BTreeMap;
use std::path::Path;

/// Settings without which nothing can be simulated are missing below this.
const COMPLETE: f64 = 3.0;

/// What can be predicted of these tables, and why the rest cannot; calls `done` after each simulation.
pub(super) fn predict(
    tables: &[&ServingTable],
    budget: &Budget,
    done: &(dyn Fn() + Sync),
) -> (Vec<ServingSet>, Vec<ServingSkip>) {
    let (rows, mut skips) = rows(tables);
    let results = simulate(&rows, budget, done);
    let mut sets: BTreeMap<(usize, String), ServingSet> = BTreeMap::new();
    for ((index, row), result) in rows.into_iter().zip(results) {
        let beside = result.and_then(|result| {
            let unserved = || "none of its requests could be served".to_owned();
            row.measured.beside(&result, row.run).ok_or_else(unserved)
        });
        match beside {
            Ok(run) => {
                let set = sets.entry((index, row.group.clone()));
                let set = set.or_insert_with(|| ServingSet {
                    id: tables[index].id.clone(),
                    kind: ENGINE_BENCHMARKS.to_owned(),
                    group: row.group,
                    rows: Vec::new(),
                    runs: Vec::new(),
                });
                set.runs.push(run);
            }
            Err(why) => skips.add(index, why, 1),
        }
    }
    (sets.into_values().collect(), skips.of(tables))
}

/// The rows of tables that can be simulated, each with its table's number, and why the rest cannot.
pub(crate) fn rows(tables: &[&ServingTable]) -> (Vec<(usize, Row)>, Skips) {
    let mut skips = Skips::default();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let completeness = table.completeness.as_f64();
        if completeness.is_some_and(|found| found < COMPLETE) {
            let why = "its source leaves settings out (`settings_completeness_0_3` below 3)";
            skips.add(index, why.to_owned(), table.rows.len());
            continue;
        }
        if table.rows.is_empty() {
            skips.add(index, "it has no rows".into(), 0);
        }
        let together = pooled(table);
        let own = together.is_none().then_some(&table.rows);
        for row in own.into_iter().flatten().chain(&together) {
            match settings::row(&Fields { table, row }) {
                Ok(row) => rows.push((index, row)),
                Err(why) => skips.add(index, why, 1),
            }
        }
    }
    place(&mut rows, &mut skips);
    (rows, skips)
}

/// Of a table that has a row for each request: all of them as one row, with medians.
fn pooled(table: &ServingTable) -> Option<Map<String, Value>> {
    let first = table.rows.first()?;
    first.get("arrival_s")?;
    let column = |name: &str| {
        let values = table.rows.iter().filter_map(|row| row.get(name)?.as_f64());
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let half = |name: &str, unit: f64| {
        let values = column(name);
        values.get(values.len() / 2).map(|value| value * unit)
    };
    let arrivals = column("arrival_s");
    let span = arrivals.last()? - arrivals.first()?;
    let mut row = Map::new();
    let mut add = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            row.insert(name.to_owned(), json!(value));
        }
    };
    let requests = arrivals.len() as f64;
    add("requests", Some(requests));
    add(
        "request_rate_per_s",
        (span > 0.0).then_some(requests / span),
    );
    add(
        "total_input_tokens",
        Some(column("input_tokens").iter().sum()),
    );
    add(
        "total_output_tokens",
        Some(column("output_tokens").iter().sum()),
    );
    add("p50_ttft_ms", half("ttft_ms", 1.0).or(half("ttft_s", 1e3)));
    add("p50_tpot_ms", half("tpot_ms", 1.0).or(half("tpot_s", 1e3)));
    Some(row)
}

/// Reasons, with how many rows each is of.
#[derive(Default)]
pub(crate) struct Skips {
    rows: BTreeMap<(usize, String), usize>,
}

impl Skips {
    fn add(&mut self, table: usize, why: String, rows: usize) {
        *self.rows.entry((table, why)).or_default() += rows;
    }

    fn of(self, tables: &[&ServingTable]) -> Vec<ServingSkip> {
        let all = self.rows.into_iter();
        let skip = all.map(|((table, why), rows)| ServingSkip {
            id: tables[table].id.clone(),
            why,
            rows,
        });
        skip.collect()
    }
}

/// Gives each scenario as many nodes of its machine as its GPUs need.
fn place(rows: &mut Vec<(usize, Row)>, skips: &mut Skips) {
    /// No published run is larger.
    const MAX_GPUS: u32 = 1024;
    let mut sizes: BTreeMap<&str, Option<(u32, u32)>> = BTreeMap::new();
    rows.retain_mut(|(index, row)| {
        let topology = &row.scenario.topology;
        let size = sizes.entry(row.card.name).or_insert_with(|| {
            let machine = machine_of(topology, Path::new(""), "the catalogue").ok()?;
            let nodes = machine.nodes.len() as u32;
            Some((nodes.max(1), machine.gpus().count() as u32))
        });
        let fits = size.filter(|_| row.gpus <= MAX_GPUS);
        let Some((nodes, gpus)) = fits else {
            let why = format!("{} GPUs are more than {MAX_GPUS}", row.gpus);
            skips.add(*index, why, 1);
            return false;
        };
        if row.gpus > gpus {
            row.scenario.nodes = Some(row.gpus.div_ceil((gpus / nodes).max(1)));
        }
        true
    });
}

/// What comes of each row; rows of the same settings are simulated once.
fn simulate(
    rows: &[(usize, Row)],
    budget: &Budget,
    done: &(dyn Fn() + Sync),
) -> Vec<Result<ServingResult, String>> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut distinct: Vec<&ScenarioSpec> = Vec::new();
    let mut places = Vec::with_capacity(rows.len());
    for (_, row) in rows {
        let place = *first
            .entry(format!("{:?}", row.scenario))
            .or_insert(distinct.len());
        if place == distinct.len() {
            distinct.push(&row.scenario);
        }
        places.push(place);
    }
    let machines = Machines::default();
    let alone = budget.beside_others(1);
    let counting = budget.work.part("runs", distinct.len() as u64);
    let results = threads::each(
        &distinct,
        Some(budget.threads),
        || (),
        |(), spec| {
            let result = served(spec, &machines, &alone);
            counting.add(1);
            done();
            result
        },
    );
    places
        .into_iter()
        .map(|place| results[place].clone())
        .collect()
}

/// What comes of a scenario.
///
/// # Errors
/// Why nothing does.
pub(crate) fn served(
    spec: &ScenarioSpec,
    machines: &Machines,
    budget: &Budget,
) -> Result<ServingResult, String> {
    let told = |error: ScenarioError| {
        // The line that says what is wrong is the one behind the file's.
        let text = error.to_string();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    };
    let json = serde_json::to_value(spec).map_err(|error| error.to_string())?;
    let scenario = Scenario {
        spec: spec.clone(),
        json,
        origin: "its settings".into(),
    };
    let experiment = validate_on(machines, scenario, Path::new("")).map_err(told)?;
    let nothing = Outputs::of([]);
    let results = run(&experiment, budget, &nothing, &mut Silent).map_err(told)?;
    let variant = results.summary.variants.first();
    let result = variant.and_then(|variant| variant.job.serving());
    let result = result.ok_or("it did not run")?;
    match &result.failed {
        Some(why) => Err(why.clone()),
        None => Ok(result.clone()),
    }
}
