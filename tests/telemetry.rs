//! Series of monitoring, against what the same run says of its links and kernels otherwise.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::telemetry::{Field, Telemetry};
use fabricsim::report::training::ran;
use fabricsim::report::{Output, Outputs, Recording, Results, write_results};
use fabricsim::units::Time;
use std::fs;
use std::path::Path;

fn run(text: &str, sample: Option<Time>) -> (Results, Outputs) {
    let job = validate(parse(text, "t", &[]).unwrap(), Path::new("")).unwrap();
    let outputs = Outputs::of([Output::Telemetry, Output::Links]).sampled(sample);
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    (results, outputs)
}

/// The integral of a field over a run, of one GPU.
fn integral(telemetry: &Telemetry, gpu: usize, field: Field) -> f64 {
    let values = telemetry.gpus[gpu].fields[&field].iter().enumerate();
    let each = values.map(|(index, value)| {
        let (start, end) = telemetry.span(index);
        value * end.saturating_sub(start).seconds()
    });
    each.sum()
}

fn near(a: f64, b: f64, part: f64) {
    assert!((a - b).abs() <= part * b.abs(), "{a} is not {b}");
}

/// The rows of a CSV file.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1);
    rows.map(|row| row.split(',').map(str::to_owned).collect())
        .collect()
}

#[test]
fn series_of_a_collective_sum_up_to_what_its_links_carried() {
    // Other bins than those of links.csv, and its default.
    for sample in [None, Some(Time::from_picos(7_777_777))] {
        let text = r#"{"name": "t", "topology": {"name": "dgx-h100"}, "nodes": 2,
            "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}}}"#;
        let (results, outputs) = run(text, sample);
        let telemetry = results.records[0].telemetry.as_ref().unwrap();
        assert_eq!((telemetry.gpus.len(), telemetry.ports.len()), (16, 16));
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("run");
        write_results(&target, &results, &outputs).unwrap();
        let links = rows(&target.join("links.csv"));
        let carried = |family: &str, end: usize, device: &str| -> f64 {
            let of = links.iter().filter(|row| {
                let ends: Vec<&str> = row[0].split(" > ").collect();
                row[1] == family && ends[end] == device
            });
            of.map(|row| row[4].parse::<f64>().unwrap()).sum()
        };
        for (index, gpu) in telemetry.gpus.iter().enumerate() {
            let device = format!("{}/gpu{}", gpu.host, gpu.gpu);
            for (field, family, end) in [
                (Field::NvlinkTx, "NVLink", 0),
                (Field::NvlinkRx, "NVLink", 1),
                (Field::PcieTx, "PCIe", 0),
                (Field::PcieRx, "PCIe", 1),
            ] {
                // The file has bytes to three decimals.
                let sum = integral(telemetry, index, field);
                near(sum, carried(family, end, &device), 1e-6);
            }
        }
        let out: f64 = telemetry.ports.iter().flat_map(|p| &p.transmitted).sum();
        let all: f64 = links
            .iter()
            .filter(|row| row[1] == "network" && row[0].starts_with("node"))
            .map(|row| row[4].parse::<f64>().unwrap())
            .sum();
        near(out, all, 1e-6);
        // Counters end with what went out.
        let last = rows(&target.join("telemetry.csv")).pop().unwrap();
        let port = telemetry.ports.last().unwrap();
        assert_eq!(last[2..6], ["node1", "", "mlx5_11", "1"]);
        let counted: f64 = last[last.len() - 2].parse().unwrap();
        near(counted, port.transmitted.iter().sum(), 1e-6);
        let prom = fs::read_to_string(target.join("telemetry.prom")).unwrap();
        assert!(prom.ends_with("# EOF\n"));
        let first = r#"DCGM_FI_PROF_NVLINK_TX_BYTES{gpu="0",Hostname="node0"} 0 "#;
        assert!(prom.contains(first), "{}", &prom[..400]);
        // One thread block a channel.
        let Recording::Collective { timeline, .. } = &results.records[0].recorded else {
            panic!("a collective")
        };
        let active = telemetry.gpus[0].fields[&Field::SmActive].iter();
        let row = results.summary.collectives().next().unwrap().result.rows[0].clone();
        let most = active.copied().fold(0.0, f64::max);
        near(most, f64::from(row.channels) / 132.0, 1e-6);
        assert_eq!(telemetry.end, timeline.end);
    }
}

#[test]
fn series_of_training_are_its_collectives_kernels_and_energy() {
    // Rings of eight GPUs: each sends 2 · 7/8 of what is reduced.
    let text = r#"{"name": "t", "topology": {"name": "dgx-h100"}, "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
        "job": {"training": {"model": {"shape": {"layers": 4, "hidden": 2048, "heads": 16,
            "ffn": 8192, "vocabulary": 512, "sequence": 512}},
            "global_batch": 16, "steps": 2}}}"#;
    let (results, _) = run(text, None);
    let telemetry = results.records[0].telemetry.as_ref().unwrap();
    let ran = ran(&results.summary.variants[0]).unwrap();
    let all_reduces = ran.collectives.iter();
    let bytes: f64 = all_reduces
        .inspect(|of| assert!(of.what.starts_with("all-reduce"), "{} {}", of.what, of.how))
        .map(|of| f64::from(of.count) * of.bytes.get() as f64)
        .sum();
    for gpu in 0..8 {
        for field in [Field::NvlinkTx, Field::NvlinkRx] {
            near(integral(telemetry, gpu, field), bytes * 14.0 / 8.0, 1e-6);
        }
    }
    let seconds: f64 = ran.steps_s.iter().sum();
    near(telemetry.end.seconds(), seconds, 1e-9);
    // Power is between 142 and 700 W by the time of kernels, as the energy of a step is.
    let compute = ran.time.iter().filter(|share| share.kind.is_computing());
    let share: f64 = compute.map(|share| share.share).sum();
    let power = integral(telemetry, 0, Field::Power) / seconds;
    near(power, 142.0 + (700.0 - 142.0) * share, 1e-3);
    // Operations of attention are counted once where they are masked, so that tensor cores do a little
    // less than HFU says, and never more.
    let tensor = integral(telemetry, 0, Field::TensorActive) / seconds;
    assert!(
        tensor < ran.hfu && tensor > 0.9 * ran.hfu,
        "{tensor} {}",
        ran.hfu
    );
    let used = telemetry.gpus[3].fields[&Field::FbUsed][0];
    near(
        used,
        ran.memory.total.get() as f64 / f64::from(1 << 20),
        1e-9,
    );
}

/// The fields of NVLink-C2C that a run's GPUs have, and bytes that went out and came in over it.
fn c2c(telemetry: &Telemetry) -> Vec<(f64, f64, f64)> {
    let of = |gpu: usize| {
        let links = &telemetry.gpus[gpu].fields[&Field::C2cLinks];
        assert!(links.iter().all(|count| *count == links[0]));
        let bytes = |field| integral(telemetry, gpu, field);
        (links[0], bytes(Field::C2cTx), bytes(Field::C2cRx))
    };
    (0..telemetry.gpus.len()).map(of).collect()
}

#[test]
fn copies_of_offload_are_seen_on_c2c() {
    let text = r#"{"name": "t", "topology": {"name": "gh200-quad"}, "nodes": 1,
        "job": {"training": {"model": {"shape": {"layers": 4, "hidden": 2048, "heads": 16,
            "ffn": 8192, "vocabulary": 512, "sequence": 512}}, "global_batch": 16, "steps": 3,
            "data_parallel": {"zero": {"stage": 2}}, "offload": {"optimizer": "cpu"}}}}"#;
    // The default, and samples that no step begins with.
    for sample in [None, Some(Time::from_picos(777_777_777))] {
        let (results, _) = run(text, sample);
        let telemetry = results.records[0].telemetry.as_ref().unwrap();
        let ran = ran(&results.summary.variants[0]).unwrap();
        let copied = |way: &str| {
            let mut moves = ran.offload.as_ref().unwrap().moves.iter();
            let bytes = moves.find(|moved| moved.way == way).unwrap().bytes;
            ran.steps_s.len() as f64 * bytes.get() as f64
        };
        let (out, back) = (copied("to the host"), copied("from the host"));
        assert!(out > 1e8 && back > 1e8, "{out} {back}");
        let gpus = c2c(telemetry);
        assert_eq!(gpus.len(), 4);
        for (links, sent, received) in gpus {
            // topologies/gh200-quad.json has 10 lanes.
            assert_eq!(links, 10.0);
            near(sent, out, 1e-9);
            near(received, back, 1e-9);
        }
    }
}

#[test]
fn what_a_collective_sends_over_c2c_is_what_its_links_carried() {
    // Without NVLink its buffers lie in the memory of hosts.
    let text = r#"{"name": "t", "topology": {"name": "gh200-quad"}, "nodes": 2, "environment": {"NCCL_P2P_DISABLE": "1"},
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}}}"#;
    let (results, outputs) = run(text, None);
    let telemetry = results.records[0].telemetry.as_ref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("run");
    write_results(&target, &results, &outputs).unwrap();
    let links = rows(&target.join("links.csv"));
    let gpus = c2c(telemetry);
    assert!(gpus.iter().any(|&(_, sent, _)| sent > 0.0));
    for (gpu, (_, sent, received)) in telemetry.gpus.iter().zip(gpus) {
        let device = format!("{}/gpu{}", gpu.host, gpu.gpu);
        let carried = |end: usize| -> f64 {
            let of = links.iter().filter(|row| row[1] == "C2C");
            of.filter(|row| row[0].split(" > ").nth(end) == Some(&device))
                .map(|row| row[4].parse::<f64>().unwrap())
                .sum()
        };
        // The file has bytes to three decimals.
        near(sent, carried(0), 1e-6);
        near(received, carried(1), 1e-6);
    }
    let csv = fs::read_to_string(target.join("telemetry.csv")).unwrap();
    let prom = fs::read_to_string(target.join("telemetry.prom")).unwrap();
    for name in [
        "DCGM_FI_PROF_C2C_TX_DATA_BYTES",
        "DCGM_FI_PROF_C2C_RX_DATA_BYTES",
        "DCGM_FI_DEV_C2C_LINK_COUNT",
    ] {
        assert!(csv.lines().next().unwrap().contains(name), "{name}");
        assert!(prom.contains(&format!("{name}{{gpu=\"0\"")), "{name}");
    }
}

#[test]
fn transfers_of_serving_are_seen_and_what_is_not_known_is_said() {
    let (scenario, folder) =
        experiment::catalogue::find(Path::new("handover-storm"), &["variants=[]".to_owned()])
            .unwrap();
    let job = validate(scenario, &folder).unwrap();
    let outputs = Outputs::of([Output::Telemetry]);
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    let telemetry = results.records[0].telemetry.as_ref().unwrap();
    assert!(!telemetry.gpus[0].fields.contains_key(&Field::NvlinkTx));
    let said = results.summary.warnings.join("\n");
    assert!(said.contains("No DCGM_FI_PROF_NVLINK_TX_BYTES"), "{said}");
    let out: f64 = telemetry.ports.iter().flat_map(|p| &p.transmitted).sum();
    let arrived: f64 = telemetry.ports.iter().flat_map(|p| &p.received).sum();
    assert!(out > 0.0);
    near(out, arrived, 1e-9);
}

#[test]
fn samples_beyond_any_use_are_refused_with_what_would_do() {
    let text = r#"{"name": "t", "topology": {"name": "dgx-h100"},
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}}}"#;
    let job = validate(parse(text, "t", &[]).unwrap(), Path::new("")).unwrap();
    let outputs = Outputs::of([Output::Telemetry]).sampled(Some(Time::from_picos(1)));
    let refused = experiment::run(&job, &Budget::default(), &outputs, &mut Silent);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("--sample: a sample each 1.00 ps"), "{error}");
    assert!(error.contains("or more"), "{error}");
}

/// What `compare RUN FILE` says, as JSON.
fn beside(folder: &Path, file: &str) -> std::process::Output {
    let command = env!("CARGO_BIN_EXE_fabricsim");
    let mut command = std::process::Command::new(command);
    command
        .args(["compare", "run", file, "--json"])
        .current_dir(folder);
    command.output().unwrap()
}

#[test]
fn a_series_beside_itself_is_as_much_and_bad_files_are_refused() {
    let text = r#"{"name": "t", "topology": {"name": "dgx-h100"}, "nodes": 2,
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["64KiB"]}}}}"#;
    let (results, outputs) = run(text, None);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_results(&at.join("run"), &results, &outputs).unwrap();
    let output = beside(at, "run/telemetry.csv");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["metrics"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        for ratio in ["mean_ratio", "peak_ratio"] {
            // Tensor cores do nothing.
            let nothing = row["metric"] == "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
            let expected = if nothing {
                serde_json::Value::Null
            } else {
                1.0.into()
            };
            assert_eq!(row[ratio], expected, "{row}");
        }
    }
    let answer = document["answer"].as_str().unwrap();
    assert!(
        answer.starts_with("1.00 × the measured mean of DCGM_FI_PROF_NVLINK_TX"),
        "{answer}"
    );
    // As dcgmi prints it: idle, busy for two samples, idle again.
    let lines: String = [0.0, 0.0, 0.05, 0.05, 0.0]
        .iter()
        .map(|value| format!("GPU 0  {value}\n"))
        .collect();
    fs::write(at.join("dmon.txt"), format!("#Entity SMACT\nID\n{lines}")).unwrap();
    let output = beside(at, "dmon.txt");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |what: &str| document["metrics"][0][what].as_f64().unwrap();
    near(of("measured_mean"), 0.05, 1e-9);
    near(of("mean_ratio"), of("simulated_mean") / 0.05, 1e-9);
    assert_eq!(document["measured"]["busy_from_us"], 2e6);
    assert_eq!(document["measured"]["busy_us"], 2e6);
    // What Prometheus answers, and nvidia-smi says, of the same GPU; a scenario is none of both.
    let values = [(0, "0"), (1, "0.05"), (2, "0.05"), (3, "0")];
    let values = values.map(|(at, value)| format!("[{},\"{value}\"]", 1_769_860_800 + at));
    let answer = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[
            {{"metric":{{"__name__":"DCGM_FI_PROF_SM_ACTIVE","gpu":"0"}},"values":[{}]}}]}}}}"#,
        values.join(",")
    );
    fs::write(at.join("answer.json"), answer).unwrap();
    let output = beside(at, "answer.json");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["measured"]["form"], "Prometheus");
    let of = |what: &str| document["metrics"][0][what].as_f64().unwrap();
    near(of("measured_mean"), 0.05, 1e-9);
    let lines = "timestamp, utilization.gpu [%]\n2026/01/31 12:00:00.000, 0 %\n2026/01/31 12:00:01.000, 50 %\n";
    fs::write(at.join("smi.csv"), lines).unwrap();
    let output = beside(at, "smi.csv");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["metrics"][0]["measured_mean"], 50.0);
    // A window inside a long run: power that does not change.
    let lines: String = (0..4)
        .map(|second| format!("2026/01/31 12:00:0{second}.000, 300 W\n"))
        .collect();
    fs::write(
        at.join("even.csv"),
        format!("timestamp, power.draw [W]\n{lines}"),
    )
    .unwrap();
    let output = beside(at, "even.csv");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["metrics"][0]["measured_mean"], 300.0);
    fs::write(at.join("scenario.json"), r#"{"name": "status"}"#).unwrap();
    let error = String::from_utf8(beside(at, "scenario.json").stderr).unwrap();
    assert!(
        error.contains("expected folders of earlier runs"),
        "{error}"
    );
    fs::write(at.join("bad.csv"), "time,DCGM_FI_DEV_POWER_USAGE\n1,much\n").unwrap();
    let output = beside(at, "bad.csv");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("`bad.csv`, line 2: found `much`"), "{error}");
}
