//! The numbers of a training job, to be checked before they are written.

use super::{
    CollectiveUse, Culprit, Disturbance, GoodputUse, RestartUse, Share, StepResult,
    TrainingOutcome, TrainingResult,
};

/// All numbers of a training job's result.
pub(crate) fn training_floats(result: &TrainingResult, floats: &mut Vec<(String, f64)>) {
    floats.push(("parameters".to_owned(), result.parameters));
    if let TrainingOutcome::Ran(result) = &result.outcome {
        step_floats(result, floats);
    }
}

/// All numbers of a result. The patterns name every field, so that none is forgotten.
fn step_floats(result: &StepResult, floats: &mut Vec<(String, f64)>) {
    let StepResult {
        step_s,
        steps_s,
        tokens: _,
        tokens_per_s,
        model_tflops_per_gpu,
        mfu,
        mfu_causal,
        hfu,
        dollars_per_million_tokens,
        time,
        causes: _,
        exposed_communication,
        bubble,
        overlap,
        collectives,
        ranks,
        culprits,
        memory: _,
        bucketing: _,
        prefetch: _,
        offload,
        data_loader,
        disturbances,
        events: _,
        wall_ms,
        goodput,
        kernels,
        flop_counts,
    } = result;
    let mut add = |name: &str, value: f64| floats.push((name.to_owned(), value));
    add("step_s", *step_s);
    steps_s.iter().for_each(|value| add("steps_s", *value));
    add("tokens_per_s", *tokens_per_s);
    add("model_tflops_per_gpu", *model_tflops_per_gpu);
    add("mfu", *mfu);
    add("mfu_causal", *mfu_causal);
    add("hfu", *hfu);
    let dollars = dollars_per_million_tokens.iter();
    dollars.for_each(|value| add("dollars_per_million_tokens", *value));
    add("exposed_communication", *exposed_communication);
    add("bubble", *bubble);
    add("overlap", *overlap);
    add("wall_ms", *wall_ms);
    if let Some(loader) = data_loader {
        add("data_loader.read_s", loader.read_s);
        add("data_loader.decode_s", loader.decode_s);
        add("data_loader.stall_s", loader.stall_s);
        add("data_loader.gbs", loader.gbs);
    }
    if let Some(offload) = offload {
        add("offload.cpu_s", offload.cpu_s);
        add("offload.sums_s", offload.sums_s);
        add("offload.exposed_s", offload.exposed_s);
        for moved in &offload.moves {
            add("offload.moves.time_s", moved.time_s);
            add("offload.moves.alone_s", moved.alone_s);
            add("offload.moves.gbs", moved.gbs);
        }
    }
    for (index, used) in kernels.iter().enumerate() {
        add(&format!("kernels[{index}].time_us"), used.time_us);
        add(
            &format!("kernels[{index}].share_of_peak"),
            used.share_of_peak,
        );
        add(&format!("kernels[{index}].memory_gbs"), used.memory_gbs);
        add(&format!("kernels[{index}].share"), used.share);
    }
    for (index, count) in flop_counts.iter().enumerate() {
        add(&format!("flop_counts[{index}].flops"), count.flops);
        if let Some(utilisation) = count.utilisation {
            add(&format!("flop_counts[{index}].utilisation"), utilisation);
        }
    }
    for (index, used) in collectives.iter().enumerate() {
        let CollectiveUse {
            time_us,
            alone_us,
            busbw_gbs,
            ..
        } = used;
        add(&format!("collectives[{index}].time_us"), *time_us);
        add(&format!("collectives[{index}].alone_us"), *alone_us);
        add(&format!("collectives[{index}].busbw_gbs"), *busbw_gbs);
    }
    for (index, culprit) in culprits.iter().enumerate() {
        let Culprit {
            caused_s, waited_s, ..
        } = culprit;
        add(&format!("culprits[{index}].caused_s"), *caused_s);
        add(&format!("culprits[{index}].waited_s"), *waited_s);
    }
    for (index, disturbance) in disturbances.iter().enumerate() {
        let Disturbance { from_s, to_s, .. } = disturbance;
        add(&format!("disturbances[{index}].from_s"), *from_s);
        let to = to_s.iter();
        to.for_each(|value| add(&format!("disturbances[{index}].to_s"), *value));
    }
    share_floats("time", time, floats);
    for (index, rank) in ranks.iter().enumerate() {
        share_floats(&format!("ranks[{index}].time"), &rank.time, floats);
    }
    if let Some(goodput) = goodput {
        goodput_floats(goodput, floats);
    }
}

fn goodput_floats(used: &GoodputUse, floats: &mut Vec<(String, f64)>) {
    let GoodputUse {
        goodput,
        p10,
        p50,
        p90,
        interval_s,
        failures,
        time,
        intervals,
        components,
        restart,
        checkpoint,
    } = used;
    if let Some(checkpoint) = checkpoint {
        let of = |name: &str| format!("goodput.checkpoint.{name}");
        floats.push((of("blocked_s"), checkpoint.blocked_s));
        let moves = [("write", &checkpoint.write), ("read", &checkpoint.read)];
        let copy = checkpoint.copy.iter().map(|copy| ("copy", copy));
        for (name, moved) in copy.chain(moves) {
            floats.push((of(&format!("{name}.time_s")), moved.time_s));
        }
    }
    if let Some(restart) = restart {
        let RestartUse {
            processes_s,
            communicators_s,
            load_s,
        } = restart;
        for (name, seconds) in [
            ("processes", processes_s),
            ("communicators", communicators_s),
            ("load", load_s),
        ] {
            floats.push((format!("goodput.restart.{name}_s"), *seconds));
        }
    }
    for (name, share) in [("p10", p10), ("p50", p50), ("p90", p90)] {
        floats.push((format!("goodput.{name}"), *share));
    }
    for (index, loss) in components.iter().enumerate() {
        floats.push((
            format!("goodput.components[{index}].failures"),
            loss.failures,
        ));
        floats.push((format!("goodput.components[{index}].lost"), loss.lost));
        if let Some(nodes) = loss.nodes {
            floats.push((format!("goodput.components[{index}].nodes"), nodes));
        }
    }
    floats.push(("goodput.goodput".to_owned(), *goodput));
    floats.push(("goodput.interval_s".to_owned(), *interval_s));
    floats.push(("goodput.failures".to_owned(), *failures));
    for (index, (_, seconds, part)) in intervals.iter().enumerate() {
        floats.push((format!("goodput.intervals[{index}][1]"), *seconds));
        floats.push((format!("goodput.intervals[{index}][2]"), *part));
    }
    share_floats("goodput.time", time, floats);
}

fn share_floats(place: &str, shares: &[Share], floats: &mut Vec<(String, f64)>) {
    for (index, share) in shares.iter().enumerate() {
        floats.push((format!("{place}[{index}].seconds"), share.seconds));
        floats.push((format!("{place}[{index}].share"), share.share));
    }
}
