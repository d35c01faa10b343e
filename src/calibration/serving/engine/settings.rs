//! From a row's settings to a scenario.

use super::fields::{Fields, Flags};
use super::layout;
use super::load::{Arrival, arrival, lengths, load_name, mean, most, requests};
use super::measured::Measured;
use super::names::{Card, card_of, model_of, plain, policy_of};
use super::precision::precision;
use fabricsim_experiment::{JobSpec, ScenarioSpec, TopologyRef};
use fabricsim_report::validation::ServingRun;
use fabricsim_topology::{catalogue, load, serving};
use fabricsim_units::Time;
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::spec::{
    ClosedSpec, EngineSpec, HandoverSpec, LengthsSpec, LoadSpec, PoolRole, PoolSpec, RateSpec,
    ServingSpec, WholeSpec, WindowSpec,
};
use fabricsim_workload::training::spec::ModelRef;
use serde_json::Value;

/// A row that can be simulated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// What it counts together with.
    pub(crate) group: String,
    /// Where it runs.
    pub(crate) card: Card,
    /// GPUs that it takes.
    pub(crate) gpus: u32,
    /// The scenario; how many nodes it takes is still open.
    pub(crate) scenario: ScenarioSpec,
    /// What it measures.
    pub(crate) measured: Measured,
    /// How it is shown.
    pub(crate) run: ServingRun,
}

/// The scenario of a row.
///
/// # Errors
/// What is missing, or not modelled.
pub(super) fn row(fields: &Fields<'_>) -> Result<Row, String> {
    refuse(fields)?;
    let card = card(fields)?;
    let engine = fields.text(&["engine", "framework"]);
    let engine = engine.or(fields.table.software.engine.as_deref());
    let engine = engine.ok_or("the engine is not named")?;
    let policy = policy_of(engine)?;
    let name = fields.row.get("model").and_then(Value::as_str);
    let name = name.or(fields.table.model.name.as_deref());
    let name = name.ok_or("the model is not named")?;
    let model = model_of(name)?;
    let flags = Flags::of(fields, fields.text(&["precision"]));
    if flags
        .text(&["speculative-algorithm", "speculative-config"])
        .is_some()
    {
        return Err(SPECULATIVE.into());
    }
    let missing = |what: String| format!("not published: {what}");
    let stored = precision(fields, (name, model), policy, &flags).map_err(missing)?;
    let pools = layout::pools(fields).map_err(missing)?;
    let gpus = |pool: &PoolSpec| {
        pool.parallel
            .gpus()
            .saturating_mul(pool.replicas.unwrap_or(1))
    };
    let gpus = pools.iter().map(gpus).fold(0, u32::saturating_add);
    let measured = Measured::of(fields, gpus);
    if measured.is_empty() {
        return Err("no column with a time or a rate that is predicted".into());
    }
    let arrival = arrival(fields, &measured).map_err(missing)?;
    let lengths = lengths(fields, arrival, &measured).map_err(missing)?;
    let (requests, warm_up) = requests(fields, arrival, &lengths);
    let input = mean(&lengths.input);
    let is_static = matches!(arrival, Arrival::Batch(_));
    let policy = if is_static {
        PolicyKind::Static
    } else {
        policy
    };
    let kind = match (is_static, pools.len()) {
        (true, _) => "static",
        (_, 1) => "aggregated",
        _ => "disaggregated",
    };
    let run = ServingRun {
        name: format!("{}, {}", layout_name(&pools), load_name(&lengths, arrival)),
        input_tokens: Some(input),
        output_tokens: Some(mean(&lengths.output)),
        concurrency: match arrival {
            Arrival::Closed(count) | Arrival::Batch(count) => Some(count),
            Arrival::Open(_) => None,
        },
        request_rate: match arrival {
            Arrival::Open(rate) => Some(rate),
            _ => None,
        },
        queue_limited: fields.is("queue_limited"),
        ..ServingRun::default()
    };
    let spec = ServingSpec {
        comment: None,
        model: ModelRef::Preset(model.to_owned()),
        precision: stored,
        engine: engine_spec(fields, &flags, (policy, card), (arrival, &lengths)),
        pools,
        handover: handover(policy),
        routing: Default::default(),
        load: match arrival {
            Arrival::Closed(concurrency) | Arrival::Batch(concurrency) => {
                LoadSpec::Closed(ClosedSpec { concurrency })
            }
            Arrival::Open(rate) => LoadSpec::Poisson(RateSpec { rate }),
        },
        requests: Some(requests),
        lengths: Some(lengths),
        warm_up,
        // Clients of benchmarks count from the first request that they send to the last token.
        window: Some(WindowSpec::Whole(WholeSpec {})),
        capacity: None,
        slo: None,
        drain: None,
        speculative: None,
    };
    let job = JobSpec::Serving(Box::new(spec));
    Ok(Row {
        group: format!("{} {} {model} {kind}", card.name, group_name(engine)),
        card,
        gpus,
        scenario: ScenarioSpec::new("benchmark".into(), machine(card)?, job),
        measured,
        run,
    })
}

const SPECULATIVE: &str = "speculative decoding, and how many guesses are right is not published";

/// Rows that are left out by what they say of themselves.
fn refuse(fields: &Fields<'_>) -> Result<(), String> {
    let is_marked = |name: &str| fields.is(name);
    let mut names = fields.row.keys();
    let suspect = names.find(|name| name.ends_with("_suspect") && is_marked(name));
    if let Some(name) = suspect {
        return Err(format!("marked `{name}` by its source"));
    }
    if fields.is("pool_layout_lost") {
        return Err("not published: how pools are divided (`pool_layout_lost`)".into());
    }
    let speculative = fields.text(&["speculative_decoding"]);
    let guesses = fields.number(&["mtp", "mtp_layers", "accept_length"]);
    let none = ["none", "off", "no", "false", ""];
    if speculative.is_some_and(|how| !none.contains(&how)) || guesses.is_some_and(|n| n > 0.0) {
        return Err(SPECULATIVE.into());
    }
    if ["shared_system_prompt_tokens", "prefix_groups"]
        .iter()
        .any(|name| fields.number(&[name]).is_some())
    {
        return Err("its prompts share beginnings, which those of no made-up load do".into());
    }
    let cap = &fields.table.system.power_cap;
    if cap
        .as_str()
        .is_some_and(|cap| plain(cap).starts_with("yes"))
    {
        return Err("its cards run at less power than they may, which is not modelled".into());
    }
    Ok(())
}

fn card(fields: &Fields<'_>) -> Result<Card, String> {
    let own = ["gpu", "hardware", "system"]
        .iter()
        .find_map(|name| fields.row.get(*name)?.as_str());
    let card = own.or(fields.table.system.gpu.as_deref());
    card_of(card.ok_or("the card is not named")?)
}

/// How KV caches are handed over.
fn handover(policy: PolicyKind) -> HandoverSpec {
    HandoverSpec {
        // SGLang's pages of one token are sent in runs (`group_concurrent_contiguous`), which are long in a cache
        // without prefixes.
        contiguous_blocks: (policy == PolicyKind::Sglang).then_some(1024.0),
        ..HandoverSpec::default()
    }
}

/// The machine of a card.
fn machine(card: Card) -> Result<TopologyRef, String> {
    let Some((own, other)) = card.part else {
        return Ok(TopologyRef::Name(card.topology.to_owned()));
    };
    let text = catalogue::text(card.topology).unwrap_or_default();
    let text = text.replace(&format!("\"{own}\""), &format!("\"{other}\""));
    let spec = load::parse(&text, card.topology).map_err(|error| error.to_string())?;
    Ok(TopologyRef::Inline(Box::new(spec)))
}

/// Engines by one name each, whatever their releases.
fn group_name(engine: &str) -> &'static str {
    match policy_of(engine) {
        Ok(policy) => policy.name(),
        Err(_) => "other",
    }
}

/// What an engine is set to: as flags say, else as engines choose by themselves.
fn engine_spec(
    fields: &Fields<'_>,
    flags: &Flags,
    (policy, card): (PolicyKind, Card),
    (arrival, lengths): (Arrival, &LengthsSpec),
) -> EngineSpec {
    let at_once = match arrival {
        Arrival::Closed(count) | Arrival::Batch(count) => count,
        Arrival::Open(_) => 1,
    };
    let large = !matches!(card.name, "A100" | "L40S" | "RTX 4090");
    let count = |names: &[&str], settings: &[&str]| {
        let flag = flags.text(names).filter(|text| text.contains("CONC"));
        let number = |n: f64| (n >= 1.0).then_some(n as u32);
        match flag {
            Some(_) => Some(at_once),
            None => fields
                .count(settings)
                .or_else(|| flags.number(names).and_then(number)),
        }
    };
    let budget = flags
        .text(&["max-num-tokens"])
        .filter(|text| text.contains("ISL"));
    let token_budget = match budget {
        // As many as the prompts of a request and a token of all others take, and 8192 at least.
        Some(_) => Some(
            at_once
                .saturating_add(most(&lengths.input))
                .saturating_add(127)
                .max(8192),
        ),
        None => count(
            &[
                "max-num-batched-tokens",
                "chunked-prefill-size",
                "max-num-tokens",
            ],
            &[
                "max_num_batched_tokens",
                "max_num_tokens",
                "chunked_prefill_size",
            ],
        ),
    };
    let max_sequences = count(
        &["max-num-seqs", "max-running-requests", "max-batch-size"],
        &["max_num_seqs", "max_batch", "max_batch_size"],
    );
    // What engines choose by the card: vLLM `get_batch_defaults`, SGLang `_handle_gpu_memory_settings`, TensorRT-LLM
    // `TorchLlmArgs`.
    let (own_budget, own_sequences, share) = match (policy, card.name) {
        (PolicyKind::Vllm, _) if large => (8192, 1024, 0.9),
        (PolicyKind::Vllm, _) => (2048, 256, 0.9),
        (PolicyKind::Sglang, "RTX 4090") => (2048, 4096, 0.9),
        (PolicyKind::Sglang, "L40S") => (4096, 4096, 0.9),
        (PolicyKind::Sglang, "B200" | "GB200" | "B300" | "GB300") => (16_384, 4096, 0.9),
        (PolicyKind::Sglang, _) => (8192, 4096, 0.9),
        (PolicyKind::Trtllm, _) => (8192, 2048, 0.92),
        (PolicyKind::Static, _) => (8192, at_once, 0.95),
    };
    let share = flags
        .number(&["gpu-memory-utilization", "mem-fraction-static"])
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .unwrap_or(share);
    let token_budget = token_budget.unwrap_or(own_budget).max(16);
    let whole = match policy {
        PolicyKind::Static => true,
        PolicyKind::Trtllm => most(&lengths.input) <= token_budget,
        PolicyKind::Vllm | PolicyKind::Sglang => false,
    };
    EngineSpec {
        policy,
        token_budget,
        max_sequences: max_sequences.unwrap_or(own_sequences).max(1),
        chunked_prefill: !whole,
        memory_share: share,
        host_per_layer: eager(fields, policy),
        ..EngineSpec::default()
    }
}

/// What starting a layer takes the host, if that is not the engine's own.
fn eager(fields: &Fields<'_>, policy: PolicyKind) -> Option<Time> {
    let engine = fields.table.software.engine.as_deref();
    let is_old = engine.is_some_and(|engine| plain(engine).starts_with("vllm2023"));
    (is_old && policy == PolicyKind::Static).then(|| serving().eager_per_layer.value)
}

fn layout_name(pools: &[PoolSpec]) -> String {
    let one = |pool: &PoolSpec| {
        let parallel = &pool.parallel;
        let mut text = match (pool.role, pool.replicas) {
            (PoolRole::Both, Some(1) | None) => String::new(),
            (_, replicas) => format!("{} x ", replicas.unwrap_or(1)),
        };
        text += &format!("tp {}", parallel.tp());
        for (name, value) in [
            ("pp", parallel.pp),
            ("dp", parallel.attention_dp),
            ("ep", parallel.ep.unwrap_or(1)),
        ] {
            if value > 1 {
                text += &format!(" {name} {value}");
            }
        }
        text
    };
    let all: Vec<String> = pools.iter().map(one).collect();
    all.join(" + ")
}
