//! What buyers weigh, as bars of all machines: speed, money, energy, power.

use crate::bill::dollars;
use crate::lines::qualifies;
use crate::numbers::{count, three_digits, three_digits_of_small};
use crate::summary::{Summary, Variant};
use maud::{Markup, html};

/// One thing that is weighed.
struct Measure {
    what: &'static str,
    value: fn(&Variant) -> Option<f64>,
    text: fn(f64) -> String,
}

fn measures(serves: bool) -> Vec<Measure> {
    let measure = |what, value, text| Measure { what, value, text };
    let hourly: fn(&Variant) -> Option<f64> =
        |v| Some(v.metrics.usd_per_gpu_hour.flatten()? * f64::from(v.gpus));
    let (speed, money, energy) = match serves {
        true => (
            measure(
                "output tokens/s per GPU",
                |v| v.metrics.serving.output_tokens_per_s_per_gpu,
                count,
            ),
            "$ per M output tokens",
            "kWh per M output tokens",
        ),
        false => (
            measure(
                "tokens/s per GPU",
                |v| v.metrics.tokens_per_s_per_gpu,
                count,
            ),
            "$ per M tokens",
            "kWh per M tokens",
        ),
    };
    vec![
        speed,
        measure(
            "GPUs",
            |v| Some(f64::from(v.gpus)),
            |gpus| format!("{gpus}"),
        ),
        measure(
            money,
            |v| v.metrics.usd_per_mtok.flatten(),
            |usd| format!("${}", three_digits_of_small(usd)),
        ),
        measure(
            energy,
            |v| v.metrics.kwh_per_mtok.flatten(),
            |kwh| format!("{} kWh", three_digits_of_small(kwh)),
        ),
        measure(
            "power",
            |v| v.metrics.kw.flatten(),
            |kw| format!("{} kW", three_digits(kw)),
        ),
        measure("an hour of all GPUs", hourly, dollars),
    ]
}

/// The bars; nothing where no layouts were searched for.
pub(super) fn measures_of(summary: &Summary) -> Markup {
    let variants = &summary.variants;
    let serves = variants.iter().any(|v| v.job.serving().is_some());
    html! {
        @if variants.iter().any(|v| v.search.is_some()) {
            section {
                h2 { "Speed, money, energy" span.aside { "the best layout of each" } }
                @for measure in measures(serves) {
                    h3 { (measure.what) }
                    (bars(variants, &measure))
                }
            }
        }
    }
}

fn bars(variants: &[Variant], measure: &Measure) -> Markup {
    let most = variants.iter().filter_map(|v| (measure.value)(v));
    let most = most.fold(0.0, f64::max);
    let width = |value: f64| format!("left:0%;width:{:.2}%", 100.0 * value / most);
    html! {
        div.waterfall {
            @for variant in variants {
                div.step.ends[qualifies(variant)] {
                    span.name { (variant.name) }
                    @match (measure.value)(variant).filter(|_| most > 0.0) {
                        Some(value) => {
                            span.bar.whole { span style=(width(value)) {} }
                            span.number { ((measure.text)(value)) }
                        }
                        None => { span.bar {} span.number { "unknown" } }
                    }
                }
            }
        }
    }
}
