//! The formats that the program reads: seeds of each, and what becomes of an input.

use crate::{Fate, Verdict};
use fabricsim::budget::{Budget, Memory};
use fabricsim::calibration::{
    FitSpec, Models, PublishedSteps, fit as fitted_to, parse_measurements, predict_steps,
    validate as predicted,
};
use fabricsim::collective::{Collective, MscclAlgorithm};
use fabricsim::engine::{Options, simulate_folded};
use fabricsim::experiment::{Silent, ValidJob, parse, run, validate};
use fabricsim::nccl::{Communicator, Env, Forced, GraphFile};
use fabricsim::plan::Plan;
use fabricsim::report::Outputs;
use fabricsim::report::sweep::{SweepInfo, read_info, read_points};
use fabricsim::report::telemetry::{Beside, read_series};
use fabricsim::topology::export::nccl_xml as exported;
use fabricsim::topology::graph::NodeId;
use fabricsim::topology::import::{ImportOptions, import as imported};
use fabricsim::topology::load::{from_json, load, parse as parsed};
use fabricsim::topology::{Overrides, Topology, TopologySpec, catalogue, expand_and_check};
use fabricsim::units::Bytes;
use fabricsim::workload::serving::spec::TraceSpec;
use fabricsim::workload::serving::trace::read as read_trace;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Mutants are small; what one would hold beyond this is refused.
fn budget() -> Budget {
    Budget {
        threads: 1,
        exact_full: false,
        memory: Memory::of(Bytes::new(96_000_000)),
        ..Budget::default()
    }
}

pub(crate) fn read(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// `object` with the JSON text of a mutant under a key.
pub(crate) fn with(object: &Value, key: &str, text: &str) -> String {
    let mut object = object.clone();
    object[key] = json!("@@");
    object.to_string().replacen("\"@@\"", text, 1)
}

/// The same for the matrix of an all-to-all-v.
pub(crate) fn with_matrix(scenario: &Value, text: &str) -> String {
    let mut scenario = scenario.clone();
    scenario["job"]["collective"]["matrix"] = json!("@@");
    scenario.to_string().replacen("\"@@\"", text, 1)
}

fn told(error: impl ToString) -> String {
    error.to_string()
}

/// A collective on a few GPUs.
pub(crate) fn small(collective: &str) -> Value {
    json!({
        "name": "small", "topology": {"name": "dgx-h100"}, "nodes": 1, "gpus_per_node": 4,
        "job": {"collective": {"name": collective, "sizes": {"list": ["64KiB"]}}}
    })
}

pub(crate) fn collectives() -> Vec<Value> {
    let mut ring = small("all-reduce");
    ring["job"]["collective"]["algorithm"] = json!("ring");
    ring["job"]["collective"]["sizes"] = json!({"from": "1KiB", "to": "1MiB", "factor": 32});
    ring["environment"] = json!({"NCCL_PROTO": "Simple", "NCCL_MIN_NCHANNELS": "2"});
    ring["seed"] = json!(3);
    let mut two = small("all-to-all");
    two["nodes"] = json!(2);
    two["nccl_version"] = json!("2.27");
    let mut cards = small("all-gather");
    cards["topology"] = json!({"name": "x86-h100-pcie"});
    cards["job"]["collective"]["trace"] = json!("64KiB");
    let mut slow = small("reduce-scatter");
    slow["faults"] = json!([{"slow_gpu": {"ranks": 1, "speed": 0.5}}]);
    let mut uneven = small("all-to-all-v");
    uneven["job"]["collective"]["matrix"] =
        json!([[0, 1, 2, 3], [4, 0, 5, 6], [7, 8, 0, 9], [1, 1, 1, 0]]);
    vec![ring, two, cards, slow, uneven]
}

/// Communicators, and what ranks call on them.
pub(crate) fn callings() -> Vec<Value> {
    let on = |job: Value| json!({"name": "small", "topology": {"name": "dgx-h100"}, "gpus_per_node": 4, "job": job});
    let mut made = on(json!({"communicator": {
        "groups": ["world", "tp2", "dp"], "first": {"name": "all-reduce", "size": "64KiB"}, "split": true, "roots": 1,
        "arrival": "10ms", "ports": 100, "sockets_per_connection": 2, "store": "tcp"
    }}));
    made["environment"] = json!({"NCCL_RUNTIME_CONNECT": "0"});
    let reduce = json!({"all-reduce": {"size": "64KiB", "on": "tp"}});
    let message = json!({"with": 1, "size": "64KiB"});
    let calls = on(json!({"calls": {
        "timeout": "60s", "communicators": {"tp": "0-1"}, "streams": "per_communicator",
        "ranks": [
            {"ranks": 0, "calls": [reduce, {"group": [{"send": message}, {"recv": message}]}, "synchronize", "barrier"]},
            {"ranks": 1, "calls": [reduce, {"recv": {"with": 0, "size": "64KiB"}}, {"wait": "5ms"}, "barrier"]},
            {"ranks": "2-3", "calls": [{"monitored-barrier": {"timeout": "1s"}}, {"register": {}}, "crash"]}
        ]
    }}));
    vec![made, calls]
}

/// A model of two layers.
fn model() -> Value {
    json!({"shape": {
        "layers": 2, "hidden": 256, "heads": 4, "ffn": 1024, "vocabulary": 1000, "sequence": 128,
        "tied_embeddings": false, "positions": "learned", "biases": true, "norm": "layer_norm"
    }})
}

pub(crate) fn smallest_training() -> Value {
    json!({
        "name": "small", "topology": {"name": "dgx-h100"}, "gpus_per_node": 4,
        "job": {"training": {
            "model": model(), "micro_batch": 1, "global_batch": 8, "data_parallel": {"ddp": {}}
        }}
    })
}

pub(crate) fn trainings() -> Vec<Value> {
    let ddp = smallest_training();
    let mut fsdp = ddp.clone();
    fsdp["job"]["training"]["data_parallel"] = json!({"fsdp": {"prefetch": 1, "reshard": true}});
    fsdp["job"]["training"]["precision"] = json!("fp8");
    let mut pipeline = ddp.clone();
    pipeline["job"]["training"]["parallel"] = json!({"tp": 2, "pp": 2, "sequence_parallel": true});
    pipeline["job"]["training"]["data_parallel"] = json!({"zero": {"stage": 1}});
    pipeline["job"]["training"]["steps"] = json!(2);
    let mut compared = ddp.clone();
    compared["variants"] = json!([
        {"name": "usual"},
        {"name": "slow", "set": {"faults": [{"slow_gpu": {"ranks": 3, "speed": 0.8}}]}}
    ]);
    vec![ddp, fsdp, pipeline, compared]
}

pub(crate) fn faults() -> Vec<Value> {
    vec![
        json!([
            {"link": {"links": "node[0]/gpu[0]", "factor": 0.5}},
            {"slow_gpu": {"ranks": 2, "speed": 0.8, "from": "0us", "to": "1ms"}}
        ]),
        json!([{"flap": {"links": "node[0]/gpu[1]", "from": "10us", "down": "15us", "up": "40us", "count": 2}}]),
        json!([{"failed": {"devices": "node0/nic1", "at": "0ns"}}]),
        json!([{"jitter": {
            "ranks": "all", "add": {"normal": {"mean": "10us", "sd": "2us"}},
            "stretch": {"uniform": {"low": 0.1, "high": 0.2}}, "per": "kernel"
        }}]),
        json!([{"link": {
            "links": "node[0]/gpu[0]", "rate": "1GB/s", "from": "1us", "to": "1s",
            "repeat": {"period": "10us", "duration": "2us"}
        }}]),
    ]
}

pub(crate) fn topologies() -> Vec<Value> {
    ["dgx-h100", "x86-h100-pcie", "dgx-1-v100", "gh200-quad"]
        .map(|name| serde_json::from_str(catalogue::text(name).unwrap()).unwrap())
        .to_vec()
}

/// A shipped topology, and the models that it names, for its own `hardware`.
pub(crate) fn hardware() -> (Value, Value) {
    let topology = topologies().swap_remove(0);
    let named = topology.to_string();
    let mut hardware = catalogue::hardware_json();
    for kind in ["devices", "links"] {
        let models = hardware[kind].as_object_mut().unwrap();
        models.retain(|name, _| named.contains(&format!("\"{name}\"")));
    }
    let architectures = hardware["architectures"].as_object_mut().unwrap();
    architectures.retain(|name, _| name == "hopper");
    (topology, hardware)
}

pub(crate) fn measurements() -> Vec<Value> {
    ["all-reduce", "faulty", "no-model"]
        .map(|name| read(&format!("tests/measurements/made-up-{name}.json")))
        .to_vec()
}

/// One published step of a small job.
pub(crate) fn published() -> Value {
    json!({"comment": "made up", "tables": [{
        "source": "made up", "assumed": "all", "scenario": smallest_training(),
        "rows": [{"name": "small", "set": {"job.training.global_batch": 16}, "step_s": 0.01}]
    }]})
}

pub(crate) fn nccl_xml() -> Vec<String> {
    let shipped = load("dgx-h100", &Overrides { nodes: Some(1) }).unwrap();
    let mut seeds = vec![exported(&shipped, NodeId(0)).unwrap()];
    for name in ["two-switches", "mesh", "superchip", "skeleton"] {
        seeds.push(fs::read_to_string(format!("tests/cases/import/{name}.xml")).unwrap());
    }
    seeds
}

pub(crate) fn smi() -> Vec<String> {
    ["pairs", "bridges", "superchip"]
        .map(|name| fs::read_to_string(format!("tests/cases/import/{name}.txt")).unwrap())
        .to_vec()
}

/// A ring all-gather of three ranks, and an all-reduce between two.
pub(crate) fn msccl() -> Vec<String> {
    let step = |s: usize, kind: &str, from: String, to: String| {
        format!(
            "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"1\" \
             depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n",
            &from[..1],
            &from[1..],
            &to[..1],
            &to[1..]
        )
    };
    let block = |id: u32, send: i32, recv: i32, steps: String| {
        format!("<tb id=\"{id}\" send=\"{send}\" recv=\"{recv}\" chan=\"0\">\n{steps}</tb>\n")
    };
    let (n, mut ring) = (3u32, String::new());
    for rank in 0..n {
        let chunk = |k: u32| format!("o{}", (rank + n - k) % n);
        let steps = step(0, "cpy", "i0".into(), chunk(0))
            + &step(1, "s", "i0".into(), chunk(0))
            + &step(2, "rcs", chunk(1), chunk(1))
            + &step(3, "r", chunk(2), chunk(2));
        let (next, last) = ((rank + 1) % n, (rank + n - 1) % n);
        ring += &format!("<gpu id=\"{rank}\" i_chunks=\"1\" o_chunks=\"3\" s_chunks=\"0\">\n");
        ring += &(block(0, next as i32, last as i32, steps) + "</gpu>\n");
    }
    let mut sum = String::new();
    for rank in 0..2 {
        let send = step(0, "s", "i0".into(), "o0".into()) + &step(1, "s", "i1".into(), "o1".into());
        let receive =
            step(0, "rrc", "i0".into(), "i0".into()) + &step(1, "rrc", "i1".into(), "i1".into());
        let receive = receive.replace("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"1\"");
        sum += &format!("<gpu id=\"{rank}\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">\n");
        sum += &(block(0, 1 - rank, -1, send) + &block(1, -1, 1 - rank, receive) + "</gpu>\n");
    }
    let algorithm = |what: &str, ranks: u32, chunks: u32, place: u32, inside: &str| {
        format!(
            "<algo name=\"seed\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{chunks}\" ngpus=\"{ranks}\" \
             coll=\"{what}\" inplace=\"{place}\">\n{inside}</algo>\n"
        )
    };
    vec![
        algorithm("allgather", 3, 3, 0, &ring),
        algorithm("allreduce", 2, 2, 1, &sum),
    ]
}

pub(crate) fn graphs() -> Vec<String> {
    let graph = |id: u32, channels: &str| {
        format!(
            "<graph id=\"{id}\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\" speedintra=\"12\" speedinter=\"12\" \
             latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"0\">\n{channels}</graph>\n"
        )
    };
    let channel = |net: u32, gpus: [u32; 4]| {
        let gpus = gpus.map(|gpu| format!("<gpu dev=\"{gpu}\"/>\n")).concat();
        format!("<channel>\n<net dev=\"{net}\"/>\n{gpus}<net dev=\"{net}\"/>\n</channel>\n")
    };
    let both = channel(3, [3, 2, 1, 0]) + &channel(0, [0, 1, 2, 3]);
    let all = graph(0, &both) + &graph(1, &both);
    vec![
        format!("<graphs version=\"1\">\n{}</graphs>\n", graph(0, &both)),
        format!("<graphs version=\"1\">\n{all}</graphs>\n"),
    ]
}

/// What asks for more than this is slow and not wrong: it is parsed and checked, but neither planned nor
/// simulated. What goes wrong only there is not found.
const MOST_GPUS: usize = 64;
const MOST_SIZES: usize = 8;
const MOST_VARIANTS: usize = 8;
/// Of a fit: the shipped one has 80 parameters and two steps.
const MOST_PARAMETERS: usize = 128;
const MOST_STEPS: usize = 8;
/// Passes of a job through a layer: micro-batches of all steps, times layers.
const MOST_PASSES: u64 = 8192;

/// Whether a variant of a job has more passes.
fn is_long(spec: &Value) -> bool {
    let training = &spec["job"]["training"];
    let number = |value: &Value| value.as_u64().unwrap_or(1);
    let batches = number(&training["global_batch"]) / number(&training["micro_batch"]).max(1);
    let layers = number(&training["model"]["shape"]["layers"]);
    let passes = batches.saturating_mul(number(&training["steps"]));
    passes.saturating_mul(layers) > MOST_PASSES
}

/// Parses, checks and runs a scenario; one that is too large for that is only checked.
pub(crate) fn scenario(text: &str) -> Verdict {
    let scenario = parse(text, "m.json", &[]).map_err(told)?;
    let experiment = validate(scenario, Path::new("")).map_err(told)?;
    let variants = experiment.variants.iter().zip(&experiment.specs);
    let large = variants.filter(|(variant, spec)| match &variant.job {
        ValidJob::Training(_) => is_long(spec),
        ValidJob::Collective(job) => job.gpus.len() > MOST_GPUS || job.sizes.len() > MOST_SIZES,
        ValidJob::Concurrent(jobs) => jobs.gpus.len() > MOST_GPUS,
        ValidJob::Serving(job) => job.gpus.len() > MOST_GPUS,
        ValidJob::Communicator(job) => job.gpus.len() > MOST_GPUS,
        ValidJob::Calls(job) => job.gpus.len() > MOST_GPUS,
    });
    if experiment.specs.len() > MOST_VARIANTS || large.count() > 0 {
        return Ok(Fate::Checked);
    }
    match run(&experiment, &budget(), &Outputs::of([]), &mut Silent) {
        Ok(_) => Ok(Fate::Ran),
        Err(error) => refused(&error.to_string()),
    }
}

/// What a run finds in place of a time has no place in a file; it has a reason.
fn refused(text: &str) -> Verdict {
    if text.is_empty() {
        return Err("no reason".into());
    }
    Ok(Fate::Checked)
}

/// Plans and simulates a small all-reduce on a machine.
fn times(topology: &Topology) -> Verdict {
    let Ok(communicator) = Communicator::new(topology, None, &Env::default(), 0) else {
        return Ok(Fate::Checked);
    };
    let mut communicator = communicator.within(&budget());
    if communicator.ranks() > 64 {
        return Ok(Fate::Checked);
    }
    match communicator.plan(Collective::AllReduce, 1 << 16, Forced::default()) {
        Ok(planned) => simulated(topology, &planned.plan),
        Err(error) => refused(&error.to_string()),
    }
}

fn simulated(topology: &Topology, plan: &Plan) -> Verdict {
    let memory = budget().memory;
    let options = Options {
        memory: Some(&memory),
        ..Options::default()
    };
    match simulate_folded(plan, topology.rates(), options) {
        Ok(_) => Ok(Fate::Ran),
        Err(error) => refused(&error.to_string()),
    }
}

fn machine(spec: &TopologySpec) -> Verdict {
    let overrides = Overrides { nodes: None };
    let (topology, _) = expand_and_check(spec, catalogue::hardware(), &overrides)
        .map_err(|error| error.with_origin("m.json").to_string())?;
    times(&topology)
}

pub(crate) fn topology(text: &str) -> Verdict {
    machine(&parsed(text, "m.json").map_err(told)?)
}

pub(crate) fn fitted(text: &str) -> Verdict {
    let hardware = catalogue::hardware_with(text, "m.json").map_err(told)?;
    let spec = catalogue::find("dgx-h100").map_err(told)?;
    let overrides = Overrides { nodes: Some(1) };
    let built = expand_and_check(&spec, &hardware, &overrides);
    let (topology, _) = built.map_err(|error| error.with_origin("m.json").to_string())?;
    times(&topology)
}

pub(crate) fn measurement(text: &str) -> Verdict {
    let mut all = parse_measurements(text, "m.json").map_err(told)?;
    // Many ranks are slow, not wrong, and so are many rows.
    for table in &mut all {
        table.rows.truncate(MOST_SIZES);
    }
    all.retain(|m| {
        m.model
            .as_ref()
            .is_none_or(|m| m.nodes <= 2 && m.gpus_per_node <= 8)
    });
    let _ = predicted(&all, catalogue::hardware(), &budget(), &|| ());
    Ok(Fate::Ran)
}

pub(crate) fn models(text: &str) -> Verdict {
    let models: Models = from_json(text, "m.json").map_err(told)?;
    let text = fs::read_to_string("tests/measurements/made-up-no-model.json").unwrap();
    let mut all = parse_measurements(&text, "no-model.json").map_err(told)?;
    models.complete(&mut all);
    Ok(Fate::Ran)
}

pub(crate) fn steps(text: &str) -> Verdict {
    let folder = tempfile::tempdir().map_err(told)?;
    let path = folder.path().join("m.json");
    fs::write(&path, text).map_err(told)?;
    let mut steps = PublishedSteps::read(&path).map_err(told)?;
    steps.tables.truncate(MOST_VARIANTS);
    for table in &mut steps.tables {
        table.rows.truncate(MOST_VARIANTS);
    }
    match predict_steps(&steps, &[], &budget(), &|| ()) {
        Ok(_) => Ok(Fate::Ran),
        Err(error) if error.to_string().contains("of memory") => Ok(Fate::Checked),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn fit(text: &str) -> Verdict {
    let spec: FitSpec = from_json(text, "m.json").map_err(told)?;
    if spec.parameters.len() > MOST_PARAMETERS || spec.steps.len() > MOST_STEPS {
        return Ok(Fate::Checked);
    }
    // Without measurements, so that it ends before the search begins.
    match fitted_to(&spec, &[], &mut |_| ()) {
        Ok(_) => Ok(Fate::Ran),
        Err(error) => refused(&error),
    }
}

pub(crate) fn import(text: &str) -> Verdict {
    let options = ImportOptions {
        gpu: text.len().is_multiple_of(2).then(|| "h100-sxm".to_owned()),
        ..ImportOptions::default()
    };
    let imported = imported(text, "m", "m.json", &options, catalogue::hardware()).map_err(told)?;
    machine(&imported.spec)
}

/// A node on which files are tried out.
fn node() -> &'static Topology {
    static NODE: OnceLock<Topology> = OnceLock::new();
    NODE.get_or_init(|| load("dgx-h100", &Overrides { nodes: Some(1) }).unwrap())
}

pub(crate) fn algorithm(text: &str) -> Verdict {
    let algorithm = MscclAlgorithm::parse(text).map_err(told)?;
    if algorithm.ranks() > 8 {
        return Ok(Fate::Checked);
    }
    let env = Env::default();
    let made = Communicator::new(node(), Some(algorithm.ranks()), &env, 0);
    let mut communicator = made.map_err(told)?.within(&budget());
    match communicator.plan_msccl(&algorithm, 1 << 16, None) {
        Ok(planned) => simulated(node(), &planned.plan),
        Err(error) => refused(&error.to_string()),
    }
}

pub(crate) fn graph(text: &str) -> Verdict {
    let env = Env {
        graph: Some(GraphFile::parse(text, "m.json").map_err(told)?),
        ..Env::default()
    };
    let topology = {
        static TWO: OnceLock<Topology> = OnceLock::new();
        TWO.get_or_init(|| load("dgx-h100", &Overrides { nodes: Some(2) }).unwrap())
    };
    let mut communicator = Communicator::new(topology, Some(4), &env, 0).map_err(told)?;
    match communicator.plan(Collective::AllReduce, 1 << 16, Forced::default()) {
        Ok(planned) => simulated(topology, &planned.plan),
        Err(error) => refused(&error.to_string()),
    }
}

/// Series as programs print them or Grafana saves them, and what parts their cells.
pub(crate) const fn series() -> [(&'static str, char); 5] {
    [
        (
            "start_us,end_us,Hostname,gpu,device,port,DCGM_FI_DEV_POWER_USAGE,node_infiniband_port_data_received_bytes_total\n\
             0,5,node0,0,,,100,\n5,10,node0,0,,,200,\n0,5,node0,,mlx5_0,1,,7\n5,10,node0,,mlx5_0,1,,9\n",
            ',',
        ),
        (
            "Time,\"DCGM_FI_DEV_POWER_USAGE{gpu=\"\"0\"\"}\",DCGM_FI_DEV_SM_CLOCK\n\
             2026-01-31 12:00:00,100 W,1980\n2026-01-31 12:00:15,300 W,1980\n",
            ',',
        ),
        (
            "timestamp, power.draw [W], utilization.gpu [%]\n2026/01/31 12:00:00.000, 400.50 W, 98 %\n\
             2026/01/31 12:00:00.004, [N/A], 0 %\n2026/01/31 12:00:01.000, 300 W, 96 %\n\
             2026/01/31 12:00:01.004, 100 W, 0 %\n",
            ',',
        ),
        (
            "#Entity\tSMACT\tNVLTX\tTMPTR\nID\nGPU 0\t0.5\t1000\t41\nGPU 1\t0.7\tN/A\t40\n\
             #Entity\tSMACT\tNVLTX\tTMPTR\nID\nGPU 0\t1\t3000\t41\nGPU 1\t0.8\t0\t40\n",
            '\t',
        ),
        (
            "#Time\tgpu\tpwr\tsm\n#HH:MM:SS\tIdx\tW\t%\n12:00:00\t0\t412\t98\n12:00:00\t1\t71\t-\n\
             12:00:01\t0\t400\t96\n12:00:01\t1\t72\t0\n",
            '\t',
        ),
    ]
}

/// Traces of requests as tables.
pub(crate) const fn traces() -> [&'static str; 4] {
    [
        "arrival_s,prompt,input_tokens,output_tokens\n0,\"a, b\",100,10\n0.5,c,200,20\n1.25,d,300,30\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n\
         2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:16:00+00:00,7,1\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,log\n\
         45,ChatGPT,1087,0,1087,log\n118,GPT-4,417,276,693,log\n",
        "arrival_ms,input_tokens,output_tokens,prefix\n0,600,10,7 8\n20,513,20,7 9\n",
    ]
}

/// Rows of a trace as lines of JSON.
pub(crate) fn rows_of_traces() -> Vec<Value> {
    let row = |at: u64, names: [u64; 2]| json!({"timestamp": at, "input_length": 1000, "output_length": 5, "hash_ids": names});
    vec![row(0, [46, 47]), row(30, [46, 9]), row(60, [46, 47])]
}

/// Reads a trace. What is read has as many requests as a reader that forgives nothing finds rows.
pub(crate) fn trace(text: &str) -> Verdict {
    let spec = TraceSpec {
        file: "trace".into(),
        columns: None,
        speed: None,
        prefix_block_tokens: None,
    };
    let trace = read_trace(&mut text.as_bytes(), &spec, 1000).map_err(told)?;
    let arrivals = trace.requests.iter().map(|request| request.arrival);
    assert!(arrivals.is_sorted());
    let text = text.trim_start_matches('\u{feff}');
    let rows = match text.trim_start().starts_with('{') {
        true => text.lines().filter(|line| !line.trim().is_empty()).count(),
        false => rows_of(text).unwrap() - 1,
    };
    let read = trace.requests.len() + trace.failed as usize;
    assert!(read == rows || trace.requests.len() == 1000);
    Ok(Fate::Ran)
}

/// How many rows a table has, all of as many cells: a reader of its own, which forgives nothing.
fn rows_of(text: &str) -> Result<usize, &'static str> {
    let mut counts: Vec<usize> = Vec::new();
    let (mut cells, mut quoted, mut closed, mut empty) = (1, false, false, true);
    let mut last = '\n';
    for c in text.chars().chain(['\n']) {
        match (c, quoted) {
            ('"', true) => (quoted, closed) = (false, true),
            (_, true) => {}
            ('"', false) if closed && last == '"' => (quoted, closed) = (true, false),
            ('"', false) if matches!(last, ',' | '\n') => quoted = true,
            (',', false) => (cells, closed) = (cells + 1, false),
            ('\n', false) => {
                if !empty || cells > 1 {
                    counts.push(cells);
                }
                (cells, closed) = (1, false);
            }
            ('\r', false) => {}
            _ if closed => return Err("text behind a quoted cell"),
            _ => {}
        }
        empty = match c {
            '\n' if !quoted => true,
            c => empty && c.is_whitespace(),
        };
        last = c;
    }
    match counts.iter().all(|count| *count == counts[0]) && !quoted {
        true => Ok(counts.len()),
        false => Err("rows of other lengths, or an open quote"),
    }
}

/// The folder of a sweep of a few points in `home`, and their rows.
pub(crate) fn journal(home: &Path) -> (SweepInfo, Vec<Value>) {
    let rows = (0..4).map(|point| {
        json!({"point": point, "values": {"nodes": 1 + point}, "status": "done",
            "rows": [{"topology": "t", "nodes": 1, "gpus": 8, "time_us": 1.5}]})
    });
    let info = json!({"format": 2, "version": "0.1.0", "program": "p", "name": "s", "title": "s", "digest": "d",
        "points": 4, "axes": ["nodes"], "objective": "time_us", "spec": {}});
    fs::write(home.join("sweep.json"), info.to_string()).unwrap();
    (read_info(home).unwrap(), rows.collect())
}

/// Reads a journal. Whatever is read is of the sweep, each point once.
pub(crate) fn journalled(home: &Path, info: &SweepInfo, text: &str) -> Verdict {
    fs::write(home.join("journal.jsonl"), text).unwrap();
    let rows = read_points(home, info).map_err(told)?;
    let numbers: Vec<u32> = rows.iter().map(|row| row.point).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert!(numbers.iter().all(|number| *number < info.points));
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    for line in lines.filter(|line| line.len() > 1) {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(numbers.iter().any(|number| row["point"] == *number));
    }
    Ok(Fate::Ran)
}

/// What Prometheus answers.
pub(crate) fn answer() -> Value {
    let values = json!([
        [1_769_860_800, "100"],
        [1_769_860_815.5, "300"],
        [1_769_860_830, "NaN"]
    ]);
    json!({"status": "success", "data": {"resultType": "matrix", "result": [
        {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0"}, "values": values},
        {"metric": {"__name__": "node_infiniband_port_data_received_bytes_total", "device": "mlx5_0"}, "values": values}
    ]}})
}

/// Sets a file of series beside itself.
pub(crate) fn measured(text: &str) -> Verdict {
    let series = read_series(Path::new("series"), text, 1.0).map_err(told)?;
    let Ok(beside) = Beside::new(("a", &series), ("b", &series)) else {
        return Ok(Fate::Checked);
    };
    assert!(beside.svg().contains("</svg>"));
    beside.json().map_err(told)?;
    Ok(Fate::Ran)
}
