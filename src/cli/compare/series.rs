//! A run's series of monitoring beside measured ones.

use super::Args;
use crate::cli::{CliError, output, terminal};
use fabricsim_report::telemetry::{Beside, read_series};
use fabricsim_report::write_file;
use fabricsim_topology::load;
use fabricsim_units::Time;
use std::path::Path;

/// A run's series beside a measured one.
pub(super) fn beside(
    args: &Args,
    quiet: bool,
    run: &Path,
    measured: &Path,
) -> Result<(), CliError> {
    let own = run.join("telemetry.csv");
    if !own.is_file() {
        return Err(CliError::Usage(format!(
            "{} has no telemetry.csv: expected the folder of `fabricsim run … --outputs telemetry`",
            run.display()
        )));
    }
    let each = args
        .sample
        .unwrap_or(Time::from_micros(1_000_000))
        .seconds();
    let simulated = read_series(&own, &load::read_text(&own)?, each)?;
    let other = read_series(measured, &load::read_text(measured)?, each)?;
    let files = [own.display().to_string(), measured.display().to_string()];
    let beside = Beside::new((&files[0], &simulated), (&files[1], &other))?;
    if let Some(path) = &args.output {
        match output::ending(path).as_deref() {
            Some("svg") => write_file(path, beside.svg().as_bytes())?,
            Some("json") => write_file(path, beside.json()?.as_bytes())?,
            _ => {
                return Err(CliError::Usage(format!(
                    "-o {}: series are written as .svg or .json",
                    path.display()
                )));
            }
        }
    }
    if args.json {
        return Ok(terminal::print(&beside.json()?)?);
    }
    if quiet {
        return Ok(());
    }
    Ok(terminal::print(&beside.text())?)
}
