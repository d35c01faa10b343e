//! `fabricsim sweep plot`.

use crate::cli::examples::{Examples, examples};
use crate::cli::{CliError, output, terminal};
use fabricsim_report::sweep::{
    Plot, PlotSpec, PointRow, SweepInfo, WrongName, axis_values, chosen_plot, read_info,
    read_points, sweep_plot,
};
use fabricsim_report::write_file;
use fabricsim_topology::error::nearest;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "How does the bandwidth grow with the size, a line for each algorithm?",
        "fabricsim sweep run allreduce-dgx-h100 --over size=1KiB,64MiB --over algorithm=ring,tree -o sizes\n\
         fabricsim sweep plot sizes --x size --y busbw_gbs --by algorithm",
    ),
    (
        "Where is time spent? As a heat map",
        "fabricsim sweep plot sizes --x size --y algorithm --color time_us -o map.png",
    ),
    (
        "And of rings alone?",
        "fabricsim sweep plot sizes --x size --y time_us --where algorithm=ring -o ring.svg",
    ),
];

/// Draws points of a sweep's folder, whether it is finished or not.
///
/// What is not given is that of the sweep's own plot. Lines: `--x` an axis or a metric, `--y` a metric,
/// `--by` an axis. A heat map: `--x` and `--y` axes, `--color` a metric. Of points that differ in
/// nothing that is shown the best one is drawn.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// The sweep's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// What stands from left to right: an axis, or a metric
    #[arg(long, value_name = "AXIS|METRIC")]
    x: Option<String>,
    /// What stands upwards: a metric; of a heat map an axis
    #[arg(long, value_name = "METRIC|AXIS")]
    y: Option<String>,
    /// A line for each value of this axis; `none` for one line
    #[arg(long, value_name = "AXIS")]
    by: Option<String>,
    /// The metric that colours a heat map
    #[arg(long, value_name = "METRIC")]
    color: Option<String>,
    /// Only points with this value of an axis; may be repeated
    #[arg(long = "where", value_name = "AXIS=VALUE")]
    only: Vec<String>,
    /// The file [default: DIR/plot-Y-X.svg]
    #[arg(short, long, value_name = "FILE.svg|FILE.png", value_parser = output::file_ending_in(&["svg", "png"]))]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let info = read_info(&args.folder)?;
    let points = read_points(&args.folder, &info)?;
    let spec = spec_of(args, &info, &points);
    let axes: Vec<String> = axis_values(&info, &points)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    spec.check(&axes).map_err(|wrong| unknown(&wrong))?;
    let fixed = fixed(&args.only, &info, &points)?;
    let plot = sweep_plot(&info, &points, &spec, &fixed).map_err(|wrong| unknown(&wrong))?;
    let Some(plot) = plot else {
        let (x, y, folder) = (&spec.x, &spec.y, args.folder.display());
        let text = format!("no point of `{folder}` has {y} over {x}: there is nothing to draw");
        return Err(CliError::Usage(text));
    };
    let path = args.output.clone().unwrap_or_else(|| {
        let name = format!("plot-{}-{}.svg", plain(&spec.y), plain(&spec.x));
        args.folder.join(name)
    });
    write(&plot, &path)?;
    if quiet {
        return Ok(());
    }
    Ok(terminal::print(&format!(
        "Written to {}\n",
        path.display()
    ))?)
}

/// The sweep's own plot with what the flags say in its place.
fn spec_of(args: &Args, info: &SweepInfo, points: &[PointRow]) -> PlotSpec {
    let own = chosen_plot(info, points);
    let is_axis = |name: &String| info.axes.contains(name);
    let x = args.x.clone().unwrap_or_else(|| own.x.clone());
    let y = args
        .y
        .clone()
        .unwrap_or_else(|| match args.color.is_some() {
            true if is_axis(&own.y) => own.y.clone(),
            true => own.by.clone().unwrap_or_else(|| own.y.clone()),
            false if own.color.is_some() && args.by.is_some() => info.objective.clone(),
            false => own.y.clone(),
        });
    let map = args.color.is_some() || is_axis(&y);
    let by = match args.by.as_deref() {
        Some("none") => None,
        Some(by) => Some(by.to_owned()),
        None => own.by.filter(|by| *by != x && !map),
    };
    let own_color = own.color.filter(|_| map);
    PlotSpec {
        color: args.color.clone().or(own_color),
        x,
        y,
        by,
    }
}

/// The values of `--where`, as tables of points have them.
fn fixed(
    only: &[String],
    info: &SweepInfo,
    points: &[PointRow],
) -> Result<Vec<(String, String)>, CliError> {
    let axes = axis_values(info, points);
    let each = only.iter().map(|text| {
        let usage = |text: String| CliError::Usage(text);
        let Some((name, value)) = text.split_once('=') else {
            return Err(usage(format!(
                "--where {text}: expected an axis and a value, such as nodes=4"
            )));
        };
        let Some((_, values)) = axes.iter().find(|(axis, _)| axis == name) else {
            let known: Vec<String> = axes.iter().map(|(axis, _)| axis.clone()).collect();
            let expected = "an axis";
            return Err(usage(refused("where", name, expected, &known)));
        };
        // A size may be written as people read it.
        let same =
            |known: &&String| **known == value || known.replace(' ', "") == value.replace(' ', "");
        match values.iter().find(same) {
            Some(found) => Ok((name.to_owned(), found.clone())),
            None => {
                let expected = format!("a value of {name}");
                Err(usage(refused("where", value, &expected, values)))
            }
        }
    });
    each.collect()
}

fn unknown(wrong: &WrongName) -> CliError {
    let text = refused(wrong.part, &wrong.name, wrong.expected, &wrong.known);
    CliError::Usage(text)
}

/// What is wrong with a flag's name, and the nearest one that is right; all of them if none is near.
fn refused(flag: &str, name: &str, expected: &str, known: &[String]) -> String {
    let near = nearest(name, known.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of {}", known.join(", ")),
    };
    format!("--{flag}: `{name}` is not {expected}; {hint}")
}

/// A name as part of a file's.
fn plain(name: &str) -> String {
    let keep = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '_' | '.') {
        true => c,
        false => '_',
    };
    name.chars().map(keep).collect()
}

fn write(plot: &Plot, path: &Path) -> Result<(), CliError> {
    if output::ending(path).as_deref() != Some("png") {
        return Ok(write_file(path, plot.svg()?.as_bytes())?);
    }
    #[cfg(feature = "png")]
    return Ok(plot.png(path)?);
    #[cfg(not(feature = "png"))]
    Err(CliError::Usage(
        "this program was built without PNG; expected a name that ends in .svg".to_owned(),
    ))
}
