//! How engines of a row are divided over GPUs.

use super::fields::Fields;
use fabricsim_workload::serving::spec::{PoolRole, PoolSpec, ServingParallelSpec};

/// The pools of a row.
///
/// # Errors
/// What is not said.
pub(super) fn pools(fields: &Fields<'_>) -> Result<Vec<PoolSpec>, String> {
    if fields.count(&["prefill_workers"]).is_none() {
        let parallel = together(fields)?;
        return Ok(vec![PoolSpec {
            replicas: Some(fields.count(&["replicas"]).unwrap_or(1)),
            parallel,
            ..PoolSpec::default()
        }]);
    }
    let pool = |role: PoolRole, names: [&str; 5]| -> Result<PoolSpec, String> {
        let [workers, tp, pp, dp, ep] = names.map(|name| fields.count(&[name]));
        let replicas = workers.ok_or_else(|| format!("`{}`", names[0]))?;
        let tp = tp.ok_or_else(|| format!("`{}`", names[1]))?;
        let parallel = of((tp, pp.unwrap_or(1), dp.unwrap_or(1)), ep);
        Ok(PoolSpec {
            role,
            replicas: Some(replicas),
            parallel,
            ..PoolSpec::default()
        })
    };
    let prefill = [
        "prefill_workers",
        "prefill_tp",
        "prefill_pp",
        "prefill_attention_dp",
        "prefill_moe_ep",
    ];
    let decode = [
        "decode_workers",
        "decode_tp",
        "decode_pp",
        "decode_attention_dp",
        "decode_moe_ep",
    ];
    Ok(vec![
        pool(PoolRole::Prefill, prefill)?,
        pool(PoolRole::Decode, decode)?,
    ])
}

/// Engines that do both.
fn together(fields: &Fields<'_>) -> Result<ServingParallelSpec, String> {
    let given = |names: &[&str]| fields.count(names);
    let dp = given(&["attention_dp"]);
    let pp = given(&["pp"]).unwrap_or(1);
    let gpus = fields.figure("gpus").map(|gpus| gpus.round() as u32);
    let system = fields.table.system.gpus.as_u64().map(|gpus| gpus as u32);
    let tp = given(&["tp"]).or(dp.map(|_| 1)).or(gpus).or(system);
    let tp = tp.ok_or("the number of GPUs of an engine (`tp`)")?;
    let ep = given(&["moe_ep", "ep"]);
    let dp = dp.unwrap_or(1);
    // All GPUs have attention of their own.
    if let (Some(gpus), true) = (gpus, fields.is("attention_dp_mode")) {
        return Ok(of((1, 1, gpus), ep.map(|ep| ep.min(gpus))));
    }
    let mut split = (tp, pp, dp);
    // Experts are over the GPUs of all parts, also where the number of parts is not said.
    let of_experts = given(&["moe_tp"]).unwrap_or(1) * ep.unwrap_or(1);
    let stage = tp.saturating_mul(dp);
    match gpus {
        Some(gpus) if gpus != stage.saturating_mul(pp) && gpus % (pp * dp).max(1) == 0 => {
            split.0 = gpus / (pp * dp);
        }
        None if of_experts > stage && of_experts % tp == 0 => split.2 = of_experts / tp,
        _ => {}
    }
    Ok(of(split, ep))
}

/// Of an engine with so much tensor, pipeline and data parallelism; experts are spread over all GPUs of a stage or
/// over none, whichever is nearer.
fn of((tp, pp, attention_dp): (u32, u32, u32), ep: Option<u32>) -> ServingParallelSpec {
    let stage = tp.saturating_mul(attention_dp);
    let ep = ep.unwrap_or(1);
    let spread = ep > 1 && u64::from(ep) * u64::from(ep) >= u64::from(stage);
    ServingParallelSpec {
        tp: Some(tp),
        pp,
        attention_dp,
        ep: if spread {
            Some(stage)
        } else {
            (attention_dp == 1).then_some(1)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::table::ServingTable;
    use super::*;
    use serde_json::{Value, json};

    fn split(row: Value) -> Result<(u32, u32, u32, Option<u32>), String> {
        let table = ServingTable::default();
        let fields = Fields {
            table: &table,
            row: row.as_object().unwrap(),
        };
        let all = pools(&fields)?;
        let parallel = all[0].parallel;
        Ok((
            parallel.tp.unwrap(),
            parallel.pp,
            parallel.attention_dp,
            parallel.ep,
        ))
    }

    #[test]
    fn gpus_are_what_a_row_says_of_them() {
        assert_eq!(split(json!({"tp": 8})), Ok((8, 1, 1, Some(1))));
        assert_eq!(split(json!({"tp": 8, "moe_ep": 8})), Ok((8, 1, 1, Some(8))));
        // The number of GPUs was repaired.
        assert_eq!(
            split(json!({"tp": 64, "gpus": 8, "moe_ep": 8})),
            Ok((8, 1, 1, Some(8)))
        );
        let all =
            json!({"tp": 8, "gpus": 8, "attention_dp": 64, "attention_dp_mode": true, "moe_ep": 8});
        assert_eq!(split(all), Ok((1, 1, 8, Some(8))));
        assert_eq!(split(json!({"tp": 1, "moe_tp": 2})), Ok((1, 1, 2, None)));
        assert_eq!(split(json!({"gpus": 4})), Ok((4, 1, 1, Some(1))));
        assert!(split(json!({"model": "x"})).unwrap_err().contains("`tp`"));
        assert!(
            split(json!({"prefill_workers": 2}))
                .unwrap_err()
                .contains("prefill_tp")
        );
    }
}
