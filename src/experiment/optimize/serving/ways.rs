//! Ways to serve: every division of GPUs into engines, and of engines into those for prompts and those that generate.

use crate::refusal::fault;
use crate::sweep::{AxisSpec, range_values};
use fabricsim_report::optimize::{ServingChoice, ServingLayout};
use fabricsim_topology::Fault;
use fabricsim_topology::error::nearest;
use fabricsim_workload::model::ModelSpec;
use serde_json::{Value, json};

/// What `--over` names of a way to serve.
const KNOBS: [&str; 6] = ["tp", "pp", "attention_dp", "ep", "replicas", "split"];

/// Values of knobs that are asked for, in place of those that are tried.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Asked {
    tp: Option<Vec<u32>>,
    pp: Option<Vec<u32>>,
    attention_dp: Option<Vec<u32>>,
    ep: Option<Vec<u32>>,
    /// Engines in all.
    replicas: Option<Vec<u32>>,
    /// Engines for prompts and engines that generate; without numbers, engines that do both.
    split: Option<Vec<Option<(u32, u32)>>>,
}

impl Asked {
    /// What axes of `--over` say.
    ///
    /// # Errors
    /// An axis that is no knob, a value that none can have.
    pub(super) fn of(over: &[AxisSpec]) -> Result<Self, Fault> {
        let mut asked = Asked::default();
        for axis in over {
            let path = axis.path.as_deref().unwrap_or_default();
            let values = match (&axis.values, &axis.range) {
                (Some(values), _) => values.clone(),
                (None, Some(range)) => range_values(range)?,
                (None, None) => Vec::new(),
            };
            if values.is_empty() {
                return Err(fault("--over", format!("{path} without values"), "values"));
            }
            match path {
                "tp" => asked.tp = Some(numbers(path, &values)?),
                "pp" => asked.pp = Some(numbers(path, &values)?),
                "attention_dp" => asked.attention_dp = Some(numbers(path, &values)?),
                "ep" => asked.ep = Some(numbers(path, &values)?),
                "replicas" => asked.replicas = Some(numbers(path, &values)?),
                "split" => asked.split = Some(splits_of(&values)?),
                _ => {
                    return Err(Fault {
                        nearest: nearest(path, KNOBS.into_iter()),
                        ..fault("--over", format!("`{path}`"), knobs())
                    });
                }
            }
        }
        Ok(asked)
    }
}

fn knobs() -> String {
    format!("a knob of a way to serve: {}", KNOBS.join(", "))
}

fn numbers(path: &str, values: &[Value]) -> Result<Vec<u32>, Fault> {
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        number
            .filter(|&n| n > 0)
            .ok_or_else(|| fault("--over", format!("{path}={value}"), "numbers from 1 on"))
    };
    values.iter().map(number).collect()
}

fn splits_of(values: &[Value]) -> Result<Vec<Option<(u32, u32)>>, Fault> {
    let split = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        let numbers = text.split_once(':').and_then(|(x, y)| {
            let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n > 0);
            Some((number(x)?, number(y)?))
        });
        match numbers {
            Some(numbers) => Ok(Some(numbers)),
            None if text == "none" => Ok(None),
            None => Err(fault(
                "--over",
                format!("split={value}"),
                "engines for prompts and engines that generate, such as 2:1, or none",
            )),
        }
    };
    values.iter().map(split).collect()
}

/// A way to serve, as it is to be simulated.
pub(super) struct Way {
    pub(super) layout: ServingLayout,
    pub(super) scenario: Value,
}

impl From<&ServingChoice> for Way {
    /// The same way once more.
    fn from(choice: &ServingChoice) -> Self {
        Way {
            layout: choice.layout.clone(),
            scenario: choice.scenario.clone(),
        }
    }
}

/// The ways to use some GPUs.
pub(super) struct Ways {
    pub(super) ways: Vec<Way>,
    /// So many combinations of what is asked for do not divide the GPUs or the model.
    pub(super) undivided: u64,
}

/// All ways to use the GPUs: engines of every power of two that divides the model's heads, within an NVLink domain; of
/// models with experts also with attention that is data parallel over all GPUs of an engine. Or what is asked for.
pub(super) fn ways(
    model: &ModelSpec,
    asked: &Asked,
    (gpus, joined): (u32, u32),
    scenario: &Value,
) -> Ways {
    let mut found = Ways {
        ways: Vec::new(),
        undivided: 0,
    };
    for engine in engines(model, asked, (gpus, joined)) {
        let size = (engine.tp)
            .saturating_mul(engine.pp)
            .saturating_mul(engine.attention_dp);
        let room = gpus / size;
        let heads = model.heads.is_multiple_of(u64::from(engine.tp));
        if room == 0 || !heads {
            found.undivided += 1;
            continue;
        }
        for (prefill, decode, both) in divisions(asked, room) {
            if prefill + decode + both > room {
                found.undivided += 1;
                continue;
            }
            let layout = ServingLayout {
                prefill,
                decode,
                both,
                ..engine.clone()
            };
            let scenario = with_pools(scenario, &layout);
            found.ways.push(Way { layout, scenario });
        }
    }
    found
}

/// Engines of every size, without how many there are.
fn engines(model: &ModelSpec, asked: &Asked, (gpus, joined): (u32, u32)) -> Vec<ServingLayout> {
    let powers = |most: u32| -> Vec<u32> {
        let powers = (0..u32::BITS).map(|power| 1 << power);
        powers.take_while(|&size| size <= most).collect()
    };
    let experts = model.experts.as_ref().map_or(1, |e| e.count as u32);
    let heads = |&tp: &u32| model.heads.is_multiple_of(u64::from(tp));
    let tensor = || powers(gpus.min(joined)).into_iter().filter(heads).collect();
    let tensor = asked.tp.clone().unwrap_or_else(tensor);
    let parts = asked.attention_dp.clone();
    let parts = parts.unwrap_or_else(|| powers(gpus.min(experts)));
    let stages = asked.pp.clone().unwrap_or_else(|| vec![1]);
    let spread: Vec<Option<u32>> = match &asked.ep {
        None => vec![None],
        Some(asked) => asked.iter().copied().map(Some).collect(),
    };
    let mut engines = Vec::new();
    for &tp in &tensor {
        for &attention_dp in &parts {
            // Both at once are for those who ask for it.
            if tp > 1 && attention_dp > 1 && asked.attention_dp.is_none() {
                continue;
            }
            for &pp in &stages {
                engines.extend(spread.iter().map(|&ep| ServingLayout {
                    prefill: 0,
                    decode: 0,
                    both: 0,
                    tp,
                    pp,
                    attention_dp,
                    ep,
                }));
            }
        }
    }
    engines
}

/// Engines for prompts, engines that generate, and engines that do both, of those that there is room for.
fn divisions(asked: &Asked, room: u32) -> Vec<(u32, u32, u32)> {
    let counts = asked.replicas.clone().unwrap_or_else(|| vec![room]);
    let mut divisions = Vec::new();
    for engines in counts {
        match &asked.split {
            None => {
                divisions.push((0, 0, engines));
                let apart = splits(engines).into_iter();
                divisions.extend(apart.map(|prefill| (prefill, engines - prefill, 0)));
            }
            Some(splits) => divisions.extend(splits.iter().map(|split| match *split {
                None => (0, 0, engines),
                Some((prefill, decode)) => (prefill, decode, 0),
            })),
        }
    }
    divisions.dedup();
    divisions
}

/// Numbers of engines for prompts, of so many: all of a few, else about an eighth apart.
fn splits(engines: u32) -> Vec<u32> {
    let step = match engines {
        0..=8 => 1,
        _ => engines / 8,
    };
    (1..engines).step_by(step as usize).collect()
}

fn with_pools(scenario: &Value, layout: &ServingLayout) -> Value {
    let mut parallel = json!({ "tp": layout.tp, "attention_dp": layout.attention_dp });
    if layout.pp > 1 {
        parallel["pp"] = layout.pp.into();
    }
    if let Some(ep) = layout.ep {
        parallel["ep"] = ep.into();
    }
    let pool = |role: &str, replicas: u32| json!({ "role": role, "replicas": replicas, "parallel": parallel });
    let pools = match layout.both {
        0 => json!([
            pool("prefill", layout.prefill),
            pool("decode", layout.decode)
        ]),
        both => json!([pool("both", both)]),
    };
    let mut scenario = scenario.clone();
    let job = &mut scenario["job"]["serving"];
    job["pools"] = pools;
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::parse_axis;
    use fabricsim_workload::model::presets;

    fn named(model: &str, over: &[&str], gpus: u32) -> (Vec<String>, u64) {
        let model = &presets::find(model).expect("shipped").model;
        let over: Vec<AxisSpec> = over.iter().map(|text| parse_axis(text).unwrap()).collect();
        let scenario = json!({ "job": { "serving": {} } });
        let asked = Asked::of(&over).unwrap();
        let found = ways(model, &asked, (gpus, 8), &scenario);
        let names = found.ways.iter().map(|way| way.layout.to_string());
        (names.collect(), found.undivided)
    }

    #[test]
    fn every_division_of_a_node_is_a_way() {
        let (names, _) = named("llama3-70b", &[], 8);
        // Eight engines, and seven ways to split them; four and three; two and one; one.
        assert_eq!(names.len(), 8 + 4 + 2 + 1);
        assert!(names.contains(&"3p : 1d, tp 2".to_owned()), "{names:?}");
        assert!(names.contains(&"1 × both, tp 8".to_owned()));
        let (experts, _) = named("deepseek-v3", &[], 8);
        let apart = "1 × both, tp 1 · attention dp 8".to_owned();
        assert!(experts.contains(&apart), "{experts:?}");
    }

    #[test]
    fn what_is_asked_for_is_tried_and_nothing_else() {
        let of = |over: &[&str]| named("llama3-70b", over, 8);
        let (names, _) = of(&["tp=8"]);
        assert_eq!(names, ["1 × both, tp 8"]);
        let (names, _) = of(&["tp=2", "split=none,3:1"]);
        assert_eq!(names, ["4 × both, tp 2", "3p : 1d, tp 2"]);
        let (names, _) = of(&["tp=2", "replicas=2,3", "split=none"]);
        assert_eq!(names, ["2 × both, tp 2", "3 × both, tp 2"]);
        let (names, _) = of(&["tp=2", "pp=2", "split=none"]);
        assert_eq!(names, ["2 × both, tp 2 · pp 2"]);
        // Five do not divide the heads, nine engines have no room.
        let (names, undivided) = of(&["tp=1,5", "split=none", "replicas=9"]);
        assert_eq!((names.len(), undivided), (0, 2));
        let refused = |text: &str| Asked::of(&[parse_axis(text).unwrap()]).unwrap_err();
        assert_eq!(refused("attention=1").path, "--over");
        assert_eq!(refused("replica=1").nearest.as_deref(), Some("replicas"));
        assert!(refused("split=2-1").expected.contains("2:1"));
        assert!(refused("tp=0").expected.contains("from 1 on"));
    }

    #[test]
    fn splits_of_many_engines_are_a_few() {
        assert_eq!(splits(4), [1, 2, 3]);
        assert!(splits(1).is_empty());
        assert!(splits(64).len() <= 8);
    }
}
