//! Scenario files to begin with: short, valid, with comments that say what to edit.

use super::error::ScenarioError;
use super::read::parse;
use super::site::machine_of;
use super::spec::TopologyRef;
use super::training::memory;
use super::valid::{ValidJob, validate};
use fabricsim_topology::Topology;
use fabricsim_workload::model::{Preset, presets};
use fabricsim_workload::training::resolve::TrainingError;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// What a new scenario is called, and where it runs.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: &'a str,
    /// The machine.
    pub topology: &'a TopologyRef,
    /// Where the scenario's file will be: a relative path of `topology` starts there.
    pub folder: &'a Path,
}

/// A draft has at most as many GPUs as a rack of GB200 NVL72, so that a first run takes seconds;
/// a job whose model does not fit them gets more.
const FEW_GPUS: u32 = 72;
/// No layout is looked for on more GPUs than this.
const MAX_GPUS: u32 = 8192;

/// Models whose context is longer are trained on sequences of so many tokens for most of the time.
const MAX_SEQUENCE: u64 = 8192;

/// What the first comment of every draft ends with.
const FIELDS: &str = "`fabricsim schema scenario` lists all fields; any object may hold a comment.";

/// The text of a new scenario that times an all-reduce.
///
/// # Errors
/// A topology that is no machine.
pub fn draft_collective(draft: Draft<'_>) -> Result<String, ScenarioError> {
    let nodes = few_nodes(own_machine(draft)?.as_ref());
    let comment = format!(
        "Edit it and run it again. `environment` takes NCCL's variables, such as \"NCCL_ALGO\": \
         \"Ring\"; `faults` what is slow or broken, such as {{ \"slow_gpu\": {{ \"ranks\": [3], \
         \"speed\": 0.8 }} }}. {FIELDS}"
    );
    let name = "Others are all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv …";
    let sizes = "From 1 KiB to 1 GiB, each four times the one before. Or some of your own: \
                 \"list\": [\"1MiB\", \"64MiB\"].";
    let text = format!(
        r#"{{
  "comment": {comment},
  "name": {scenario},
  "topology": {topology},
  "nodes": {nodes},
  "job": {{
    "collective": {{
      "comment": {name},
      "name": "all-reduce",
      "sizes": {{
        "comment": {sizes},
        "from": "1KiB", "to": "1GiB", "factor": 4
      }},
      "trace": "16MiB"
    }}
  }},
  "environment": {{}},
  "faults": []
}}
"#,
        comment = json!(comment),
        scenario = json!(draft.name),
        topology = inline(&json!(draft.topology)),
        name = json!(name),
        sizes = json!(sizes),
    );
    Ok(text)
}

/// The text of a new scenario of a training job: a known model in a layout that fits the memory of
/// the machine's GPUs, on as few nodes as that takes.
///
/// # Errors
/// An unknown model, a topology that is no machine, [`ScenarioError::NoLayout`] if nothing fits.
pub fn draft_training(draft: Draft<'_>, model: &str) -> Result<String, ScenarioError> {
    let preset = presets::find(model).map_err(TrainingError::Model)?;
    let own = own_machine(draft)?;
    let per_node = own.gpus().count() as u32 / own.nodes.len().max(1) as u32;
    let hopper = own
        .gpus()
        .filter_map(|gpu| own.gpu_model(gpu))
        .all(|gpu| gpu.compute_capability >= 90);
    let mut nodes = few_nodes(&own);
    loop {
        let gpus = nodes.saturating_mul(per_node);
        if gpus > MAX_GPUS {
            return Err(ScenarioError::NoLayout {
                model: preset.name.clone(),
                topology: own.name.clone(),
                gpus: gpus / 2,
            });
        }
        for layout in layouts(gpus, per_node, preset) {
            let text = training_text(draft, preset, (nodes, gpus), layout, hopper);
            if fits(&text, draft)? {
                return Ok(text);
            }
        }
        nodes = nodes.saturating_mul(2);
    }
}

/// The machine as its file has it.
fn own_machine(draft: Draft<'_>) -> Result<Arc<Topology>, ScenarioError> {
    Ok(machine_of(draft.topology, draft.folder, draft.name)?)
}

/// As many nodes as the machine has, or the largest power of two with at most [`FEW_GPUS`].
fn few_nodes(machine: &Topology) -> u32 {
    let (nodes, gpus) = (machine.nodes.len() as u32, machine.gpus().count() as u32);
    if gpus <= FEW_GPUS {
        return nodes.max(1);
    }
    let most = FEW_GPUS / (gpus / nodes.max(1)).max(1);
    most.checked_ilog2().map_or(1, |power| 1 << power)
}

/// How a job is divided.
#[derive(Debug, Clone, Copy)]
struct Layout {
    tp: u32,
    pp: u32,
    ep: u32,
    replicas: &'static str,
    recompute: &'static str,
}

/// What is tried, simplest first; what does not divide the model or the GPUs is refused later.
fn layouts(gpus: u32, per_node: u32, preset: &Preset) -> impl Iterator<Item = Layout> {
    let copies = Layout {
        tp: 1,
        pp: 1,
        ep: 1,
        replicas: "ddp",
        recompute: "none",
    };
    let sharded = ["selective", "full"].map(|recompute| Layout {
        replicas: "fsdp",
        recompute,
        ..copies
    });
    let zero = Layout {
        replicas: "zero",
        recompute: "full",
        ..copies
    };
    let experts = preset.model.experts.as_ref().map_or(0, |e| e.count as u32);
    let spread = experts.min(gpus).checked_ilog2();
    // Whole weights of what is no expert may be too much beside them.
    let experts = ["zero", "fsdp"].map(|replicas| {
        spread.map(|power| Layout {
            ep: 1 << power,
            replicas,
            ..zero
        })
    });
    let pipelines = [1, 2, 4, 8, 16].map(|pp| Layout {
        tp: per_node.min(8),
        pp,
        ..zero
    });
    std::iter::once(copies)
        .chain(sharded)
        .chain(experts.into_iter().flatten())
        .chain(pipelines)
        .filter(move |layout| gpus.is_multiple_of(layout.tp * layout.pp))
}

/// Whether the scenario is a job that fits the memory of its GPUs.
fn fits(text: &str, draft: Draft<'_>) -> Result<bool, ScenarioError> {
    let scenario = parse(text, draft.name, &[])?;
    // Layouts that do not divide the model are no faults of the user's.
    let Ok(experiment) = validate(scenario, draft.folder) else {
        return Ok(false);
    };
    for variant in &experiment.variants {
        if let ValidJob::Training(job) = &variant.job
            && !memory(&job.training, &job.topology, &job.gpus, &job.env)?.fits
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn training_text(
    draft: Draft<'_>,
    preset: &Preset,
    (nodes, gpus): (u32, u32),
    layout: Layout,
    hopper: bool,
) -> String {
    let Layout { tp, pp, ep, .. } = layout;
    let comment = format!(
        "Edit it and run it again. The variants are run one after the other and compared with the \
         first; each sets values by their places in this file. Delete them for a single run. \
         {FIELDS}"
    );
    let job = "model: another preset, or a \"shape\" of its own. global_batch: sequences of a \
               step, a multiple of micro_batch × dp. recompute: none, selective or full.";
    let parallel = "tp × cp × pp × dp = GPUs; dp is what the others leave of them.";
    let mut more = String::new();
    if tp > 1 {
        more += ", \"sequence_parallel\": true";
    }
    if ep > 1 {
        let _ = write!(more, ", \"ep\": {ep}");
    }
    // Pipelines are fed with several micro-batches a stage.
    let batches = if pp > 1 { 4 * pp } else { 1 };
    let replicas = gpus / (tp * pp);
    let flash = if hopper {
        "\n      \"flash_version\": 3,"
    } else {
        ""
    };
    format!(
        r#"{{
  "comment": {comment},
  "name": {scenario},
  "topology": {topology},
  "nodes": {nodes},
  "job": {{
    "training": {{
      "comment": {job},
      "model": {{ "preset": {model} }},
      "sequence": {sequence},
      "micro_batch": 1,
      "global_batch": {global},{flash}
      "parallel": {{
        "comment": {parallel},
        "tp": {tp}, "pp": {pp}{more}
      }},
      "data_parallel": {{ "{data_parallel}": {{}} }},
      "recompute": "{recompute}"
    }}
  }},
  "variants": [
    {{ "name": "as-written" }},
    {{ "name": "one-slow-gpu", "set": {{ "faults": [{{ "slow_gpu": {{ "ranks": [0], "speed": 0.8 }} }}] }} }}
  ]
}}
"#,
        comment = json!(comment),
        scenario = json!(draft.name),
        topology = inline(&json!(draft.topology)),
        job = json!(job),
        model = json!(preset.name),
        sequence = preset.model.sequence.min(MAX_SEQUENCE),
        global = replicas * batches,
        parallel = json!(parallel),
        data_parallel = layout.replicas,
        recompute = layout.recompute,
    )
}

/// A small object on one line, as the shipped files have them: `{ "name": "dgx-h100" }`.
fn inline(value: &Value) -> String {
    let text = value.to_string();
    match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        Some(inner) => format!("{{ {} }}", inner.replacen("\":", "\": ", 1)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, validate};
    use fabricsim_topology::catalogue;
    use fabricsim_workload::model::parameters;

    fn draft<'a>(topology: &'a TopologyRef, folder: &'a Path) -> Draft<'a> {
        Draft {
            name: "mine",
            topology,
            folder,
        }
    }

    #[test]
    fn a_draft_for_any_shipped_machine_is_a_scenario() {
        let folder = Path::new("");
        for name in catalogue::names() {
            let topology = TopologyRef::Name(name.to_owned());
            let collective = draft_collective(draft(&topology, folder)).unwrap();
            let scenario = parse(&collective, "mine", &[]).unwrap_or_else(|e| panic!("{e}"));
            let valid = validate(scenario, folder).unwrap_or_else(|e| panic!("{e}"));
            let gpus = valid.only_collective().unwrap().gpus.len();
            assert!((2..=72).contains(&gpus), "{name}");
            draft_training(draft(&topology, folder), "llama3-8b").unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn every_known_model_has_a_layout_and_small_ones_are_replicated() {
        let topology = TopologyRef::Name("dgx-h100".into());
        for model in presets::names() {
            let text = draft_training(draft(&topology, Path::new("")), model);
            // A trillion parameters, nearly all of them experts': no layout that a draft tries fits.
            if model == "kimi-k2" {
                assert!(matches!(text, Err(ScenarioError::NoLayout { .. })));
                continue;
            }
            let text = text.unwrap_or_else(|e| panic!("{e}"));
            // 16 bytes a parameter and its activations: 3B are the most that 80 GiB hold.
            let shape = &presets::find(model).unwrap_or_else(|e| panic!("{e}")).model;
            let small = parameters(shape).total() < 3_000_000_000;
            assert_eq!(text.contains("\"ddp\""), small, "{text}");
        }
    }
}
