//! What is to be said of ways to train beside their figures.

use crate::valid::{ValidExperiment, ValidJob};
use fabricsim_engine::job::{JobOutcome, Ledger};
use fabricsim_report::numbers::percent;
use fabricsim_workload::training::resolve::Training;
use fabricsim_workload::training::spec::{Compression, DataParallelSpec, DdpSpec};

/// DDP as it is done: `DDP`, `local SGD every 8`, `DDP, top-k 1 %`.
pub(super) fn ddp_in_words(ddp: &DdpSpec) -> String {
    let mut text = match &ddp.local_sgd {
        Some(local) => format!("local SGD every {} steps", local.every),
        None => "DDP".to_owned(),
    };
    if let Compression::TopK(share) = ddp.compression {
        text += &format!(", top-k {}", percent(share));
    }
    if ddp.staleness > 0 {
        text += ", gradients a step old";
    }
    text
}

/// The outcome of a job whose steps are not alike: of each GPU two steps of their mean.
pub(super) fn averaged(training: &Training, outcome: JobOutcome) -> JobOutcome {
    let Some(every) = training.local_steps() else {
        return outcome;
    };
    let both = outcome.ledgers.iter().zip(&outcome.last_step);
    let means: Vec<Ledger> = both
        .map(|(all, last)| all.since(last).mean_with(last, every))
        .collect();
    JobOutcome {
        ledgers: means.iter().map(|mean| mean.plus(mean)).collect(),
        last_step: means,
        ..outcome
    }
}

/// Sentences after the answer, variant by variant: what changes what is computed, and what does not pay.
pub(super) fn noted(experiment: &ValidExperiment) -> String {
    let several = experiment.variants.len() > 1;
    let mut text = String::new();
    for variant in &experiment.variants {
        let ValidJob::Training(job) = &variant.job else {
            continue;
        };
        for note in notes(&job.training) {
            text += &match several {
                true => format!(" {}: {note}.", variant.name),
                false => format!(" {note}."),
            };
        }
    }
    text
}

fn notes(training: &Training) -> Vec<String> {
    let DataParallelSpec::Ddp(ddp) = &training.spec.data_parallel else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    if let Some(local) = &ddp.local_sgd {
        notes.push(format!(
            "Replicas take the mean of their weights every {} steps, which changes what is computed: \
             convergence is not simulated",
            local.every
        ));
    }
    if ddp.staleness > 0 {
        notes.push(
            "The optimizer takes gradients that are a step old, which changes what is computed: \
             convergence is not simulated"
                .to_owned(),
        );
    }
    if let Compression::TopK(share) = ddp.compression {
        let limit = training.top_k_limit();
        let replicas = training.dims.dp * training.dims.cp;
        let verdict = if share < limit { "fewer" } else { "no fewer" };
        notes.push(format!(
            "Top-k of {:.2} % moves {verdict} bytes than an all-reduce of all gradients: with {replicas} \
             replicas that needs less than {:.2} %; it changes what is computed",
            100.0 * share,
            100.0 * limit
        ));
    }
    notes
}
