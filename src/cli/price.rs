//! The reader's own prices of machines.

use super::CliError;
use fabricsim_experiment::{Scenario, TopologyRef};
use fabricsim_topology::error::nearest;
use fabricsim_topology::load;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Flags of what machines cost.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PriceArgs {
    /// What a GPU of a machine costs an hour, dollars: `dgx-h100=2.20`; may be repeated [default: what the
    /// scenario says, else the catalogue (`topology cost` names the source)]
    #[arg(long, value_name = "MACHINE=DOLLARS", value_parser = price)]
    price: Vec<(String, f64)>,
}

fn price(text: &str) -> Result<(String, f64), String> {
    let expected = || "expected a machine and dollars above 0, such as dgx-h100=2.20".to_owned();
    let (machine, dollars) = text.rsplit_once('=').ok_or_else(expected)?;
    let dollars = dollars.strip_prefix('$').unwrap_or(dollars);
    let dollars: f64 = dollars.parse().map_err(|_| expected())?;
    match !machine.is_empty() && dollars.is_finite() && dollars > 0.0 {
        true => Ok((machine.to_owned(), dollars)),
        false => Err(expected()),
    }
}

impl PriceArgs {
    /// Whether a price is said.
    pub(super) fn is_said(&self) -> bool {
        !self.price.is_empty()
    }

    /// The scenario with these prices, which are those of some of `machines`; paths start at `folder`.
    pub(super) fn apply(
        &self,
        scenario: Scenario,
        machines: &[TopologyRef],
        folder: &Path,
    ) -> Result<Scenario, CliError> {
        if self.price.is_empty() {
            return Ok(scenario);
        }
        let known: Vec<(String, String)> = machines
            .iter()
            .map(|machine| named(machine, folder))
            .collect::<Result<_, _>>()?;
        let mut prices = match scenario.json.get("prices") {
            Some(Value::Object(own)) => own.clone(),
            _ => Map::new(),
        };
        for (machine, dollars) in &self.price {
            let found = known
                .iter()
                .find(|(asked, name)| asked == machine || name == machine);
            let (_, name) = found.ok_or_else(|| unknown(machine, &known))?;
            prices.insert(name.clone(), json!(dollars));
        }
        Ok(scenario.with("prices", Value::Object(prices))?)
    }
}

/// A machine as it is asked for, and its name.
fn named(machine: &TopologyRef, folder: &Path) -> Result<(String, String), CliError> {
    Ok(match machine {
        TopologyRef::Name(name) => (name.clone(), name.clone()),
        TopologyRef::Path(path) => (path.clone(), load::read(&folder.join(path))?.spec.name),
        TopologyRef::Inline(spec) => (spec.name.clone(), spec.name.clone()),
    })
}

fn unknown(machine: &str, known: &[(String, String)]) -> CliError {
    let names = || known.iter().map(|(_, name)| name.as_str());
    let near = nearest(machine, names());
    let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    let listed: Vec<&str> = names().collect();
    CliError::Usage(format!(
        "--price {machine}=…: expected one of the machines there are: {}{near}",
        listed.join(", ")
    ))
}
