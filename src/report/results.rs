//! What a run leaves behind, and the folder that is made of it: the same for any job.

#[cfg(feature = "png")]
use super::chart::Chart;
use super::chart::draw_svg;
use super::folder::{Content, FolderKind, check_folder, write_folder};
use super::nccl_profiler::{self, EventMask};
use super::outputs::{Output, Outputs};
use super::points::points_csv;
use super::record::Timeline;
use super::summary::Summary;
use super::telemetry::{self, Telemetry};
use super::trace::write_trace;
use super::training::{JobTimeline, job_timeline_svg, write_kineto};
use super::{ReportError, comparison, html, links_csv, plot, summary_json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// All that a run's folder is made from.
#[derive(Debug, Clone)]
pub struct Results {
    /// The numbers.
    pub summary: Summary,
    /// What happened when, of the variants that were recorded.
    pub records: Vec<Record>,
}

/// What happened when, of one variant.
#[derive(Debug, Clone)]
pub struct Record {
    /// The variant's name.
    pub variant: String,
    /// What happened.
    pub recorded: Recording,
    /// What monitoring would have shown, if that was asked for.
    pub telemetry: Option<Telemetry>,
    /// Which events a profile of NCCL is to have.
    pub events: EventMask,
}

/// What was recorded of a job.
#[derive(Debug, Clone)]
pub enum Recording {
    /// One operation of a collective.
    Collective {
        /// What happened when.
        timeline: Timeline,
        /// A drawing of the machine as SVG, coloured by use.
        topology_svg: String,
    },
    /// The last step of a training job.
    Training(JobTimeline),
}

impl Results {
    /// What was recorded of a collective.
    #[must_use]
    pub fn collective_record(&self, variant: &str) -> Option<(&Timeline, &str)> {
        self.records
            .iter()
            .find_map(|record| match &record.recorded {
                Recording::Collective {
                    timeline,
                    topology_svg,
                } if record.variant == variant => Some((timeline, topology_svg.as_str())),
                _ => None,
            })
    }

    /// Timelines of training jobs, by variant.
    #[must_use]
    pub fn job_timelines(&self) -> Vec<(&str, &JobTimeline)> {
        let found = self
            .records
            .iter()
            .filter_map(|record| match &record.recorded {
                Recording::Training(timeline) => Some((record.variant.as_str(), timeline)),
                Recording::Collective { .. } => None,
            });
        found.collect()
    }
}

/// A folder of results, as it is known again.
const KIND: FolderKind<'static> = FolderKind {
    files: &[
        "summary.json",
        "points.csv",
        "timeline.json",
        "timeline.svg",
        "links.csv",
        "bandwidth.svg",
        "bandwidth.png",
        "topology.svg",
        "report.html",
        "telemetry.csv",
        "telemetry.prom",
        "telemetry.svg",
    ],
    families: &[
        ("timeline-", ".json"),
        ("timeline-", ".svg"),
        ("links-", ".csv"),
        ("topology-", ".svg"),
        ("telemetry-", ".csv"),
        ("telemetry-", ".prom"),
        ("telemetry-", ".svg"),
    ],
    folders: &[
        ("kineto", ("rank-", ".json.gz")),
        ("nccl-profiler", ("rank-", ".json")),
    ],
    mark: "summary.json",
    content: Content::Fields(&["version", "seed", "title", "warnings", "spec"]),
};

/// Writes `results` as the folder `target`, making its parents if needed; an older run there is
/// replaced. Files of the first variant that was recorded have plain names, those of others their
/// variant's. What differs between two runs of one spec (wall-clock times) is left out.
///
/// # Errors
/// A target that exists and is not a run's folder, a parent that cannot be written, or
/// results that cannot be shown; what was there before stays as it was.
pub fn write_results(
    target: &Path,
    results: &Results,
    outputs: &Outputs,
) -> Result<(), ReportError> {
    let files = Files::of(results, outputs)?;
    write_folder(target, &[&KIND], |folder| files.write(folder))
}

/// Whether [`write_results`] could write to `target` now; to be asked before a long run.
///
/// # Errors
/// A target that exists and is not a run's folder, or a parent that cannot be written.
pub fn check_target(target: &Path) -> Result<(), ReportError> {
    check_folder(target, &[&KIND])
}

/// What is written, with all texts that can fail made before anything is.
struct Files<'r> {
    results: &'r Results,
    outputs: &'r Outputs,
    texts: Vec<(&'static str, String)>,
    /// Of bandwidth.png.
    #[cfg(feature = "png")]
    chart: Option<Chart>,
}

impl<'r> Files<'r> {
    fn of(results: &'r Results, outputs: &'r Outputs) -> Result<Self, ReportError> {
        for record in &results.records {
            if let Recording::Collective { timeline, .. } = &record.recorded {
                summary_json::check_finite_timeline(timeline)?;
            }
        }
        let summary = results.summary.reproducible();
        let mut texts = vec![("summary.json", summary_json::summary_json(&summary)?)];
        if summary.variants.len() > 1 {
            texts.push(("points.csv", points_csv(&summary)?));
        }
        let wanted = outputs.has(Output::Plots);
        let chart = wanted.then(|| plot::chart_of(results)).flatten();
        if let Some(chart) = &chart {
            texts.push(("bandwidth.svg", draw_svg(chart)?));
        }
        if outputs.has(Output::Report) {
            texts.push(("report.html", page_of(&summary, results)?));
        }
        Ok(Files {
            results,
            outputs,
            texts,
            #[cfg(feature = "png")]
            chart,
        })
    }

    fn write(&self, folder: &Path) -> Result<(), ReportError> {
        for (name, text) in &self.texts {
            write_text(&folder.join(name), text)?;
        }
        #[cfg(feature = "png")]
        if let Some(chart) = &self.chart {
            super::chart::draw_png(chart, &folder.join("bandwidth.png"))?;
        }
        let names: Vec<&str> = self
            .results
            .records
            .iter()
            .map(|r| r.variant.as_str())
            .collect();
        for (ending, record) in file_endings(&names).iter().zip(&self.results.records) {
            self.write_record(folder, ending, &record.recorded)?;
            if self.outputs.has(Output::NcclProfiler) {
                let profiles = folder.join(format!("nccl-profiler{ending}"));
                std::fs::create_dir(&profiles).map_err(ReportError::io("create", &profiles))?;
                match &record.recorded {
                    Recording::Collective { timeline, .. } => {
                        nccl_profiler::write_collective(timeline, record.events, &profiles)?;
                    }
                    Recording::Training(timeline) => {
                        nccl_profiler::write_job(timeline, record.events, &profiles)?;
                    }
                }
            }
            if let Some(series) = &record.telemetry {
                self.write_telemetry(folder, ending, (&record.variant, series))?;
            }
        }
        Ok(())
    }

    /// A variant's series, and their drawing.
    fn write_telemetry(
        &self,
        folder: &Path,
        ending: &str,
        (variant, series): (&str, &Telemetry),
    ) -> Result<(), ReportError> {
        let path = |kind: &str| folder.join(format!("telemetry{ending}.{kind}"));
        write_with(&path("csv"), |out| telemetry::write_csv(series, out))?;
        let metrics = path("prom");
        write_with(&metrics, |out| telemetry::write_open_metrics(series, out))?;
        let summary = &self.results.summary;
        let title = match summary.variants.len() {
            1 => summary.title.clone(),
            _ => format!("{}: {variant}", summary.title),
        };
        write_text(&path("svg"), &telemetry::svg(series, &title))
    }

    /// The files of one variant's record, whose names end in `ending` before their type.
    fn write_record(
        &self,
        folder: &Path,
        ending: &str,
        recorded: &Recording,
    ) -> Result<(), ReportError> {
        let path = |stem: &str, kind: &str| folder.join(format!("{stem}{ending}.{kind}"));
        match recorded {
            Recording::Collective {
                timeline,
                topology_svg,
            } => {
                if self.outputs.has(Output::Timeline) {
                    let trace = path("timeline", "json");
                    write_with(&trace, |out| write_trace(timeline, out))?;
                }
                if self.outputs.has(Output::Links) {
                    let links = path("links", "csv");
                    write_with(&links, |out| links_csv::write_links_csv(timeline, out))?;
                }
                if self.outputs.has(Output::Plots) && !topology_svg.is_empty() {
                    write_text(&path("topology", "svg"), topology_svg)?;
                }
            }
            Recording::Training(timeline) => {
                if self.outputs.has(Output::Timeline) {
                    let trace = path("timeline", "json");
                    write_with(&trace, |out| write_trace(timeline, out))?;
                }
                if self.outputs.has(Output::Kineto) {
                    let profiles = folder.join(format!("kineto{ending}"));
                    std::fs::create_dir(&profiles).map_err(ReportError::io("create", &profiles))?;
                    write_kineto(timeline, &profiles)?;
                }
                if self.outputs.has(Output::Plots) {
                    write_text(&path("timeline", "svg"), &job_timeline_svg(timeline))?;
                }
            }
        }
        Ok(())
    }
}

/// The page of a run: of one collective, of training, or of collectives that are compared.
///
/// # Errors
/// A number that is not finite, plots that cannot be drawn.
pub fn page_of(summary: &Summary, results: &Results) -> Result<String, ReportError> {
    if let Some(view) = summary.only_collective() {
        let empty = Timeline::default();
        let record = results.collective_record(&view.variant.name);
        let (timeline, drawing) = match record {
            Some((timeline, drawing)) => (timeline, Some(drawing)),
            None => (&empty, None),
        };
        return html::report(view, timeline, drawing.filter(|svg| !svg.is_empty()));
    }
    comparison::variants_page(summary, results)
}

pub(super) fn write_text(path: &Path, text: &str) -> Result<(), ReportError> {
    write_with(path, |out| {
        out.write_all(text.as_bytes())
            .map_err(ReportError::io("write", path))
    })
}

pub(super) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let file = File::create(path).map_err(ReportError::io("create", path))?;
    let mut out = BufWriter::new(file);
    write(&mut out).map_err(|error| error.in_file(path))?;
    out.flush().map_err(ReportError::io("write", path))?;
    let file = out.get_ref();
    file.sync_all().map_err(ReportError::io("write", path))
}

/// What the names of each variant's files have behind their stem: nothing for the first, else its
/// name. Any system takes them, also one that does not tell small letters from capitals, and no two
/// are the same.
pub(super) fn file_endings(variants: &[&str]) -> Vec<String> {
    let mut endings: Vec<String> = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = variant.to_lowercase().chars().map(plain).collect();
        let words = name.split('-').filter(|word| !word.is_empty());
        let name: String = words.collect::<Vec<_>>().join("-");
        let name: String = name.chars().take(60).collect();
        let ending = match (index, name.as_str()) {
            (0, _) => String::new(),
            (_, "") => format!("-{index}"),
            (_, name) => format!("-{name}"),
        };
        let taken = endings.contains(&ending);
        endings.push(if taken {
            free_name(&ending, &endings)
        } else {
            ending
        });
    }
    endings
}

/// `name` with the first number behind it that makes it new.
fn free_name(name: &str, names: &[String]) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut free = numbered.filter(|numbered| !names.contains(numbered));
    free.next().unwrap_or_else(|| name.to_owned())
}
