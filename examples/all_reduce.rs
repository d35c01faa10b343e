//! How long does an all-reduce take on two DGX H100, and where is NCCL's choice better than rings?

use fabricsim::{
    Algorithm, Bytes, Collective, Measure, MeasuredSize, ProtocolKind, ScenarioError, measure,
};

fn main() -> Result<(), ScenarioError> {
    let sizes = [64 << 10, 1 << 20, 16 << 20, 256 << 20].map(Bytes::new);
    let asked = Measure {
        nodes: Some(2),
        ..Measure::new("dgx-h100", Collective::AllReduce, sizes)
    };
    let rings = Measure {
        algorithm: Some(Algorithm::Ring),
        ..asked.clone()
    };
    let (chosen, rings) = (measure(&asked)?, measure(&rings)?);

    let gpus = chosen.summary.variants[0].gpus;
    let pairs = chosen.sizes.iter().zip(&rings.sizes);
    let gain = |row: &MeasuredSize, ring: &MeasuredSize| ring.time.seconds() / row.time.seconds();
    if let Some((row, ring)) = pairs.max_by(|a, b| gain(a.0, a.1).total_cmp(&gain(b.0, b.1))) {
        println!(
            "NCCL's choice gains most at {}: {} on {gpus} GPUs, {:.2} times as fast as rings ({}).\n",
            row.size,
            row.time.human(),
            gain(row, ring),
            ring.time.human(),
        );
    }
    println!("size      time       algbw GB/s  busbw GB/s  algorithm  protocol  channels  rings");
    for (row, ring) in chosen.sizes.iter().zip(&rings.sizes) {
        println!(
            "{:<9} {:<10} {:>10.1}  {:>10.1}  {:<9}  {:<8}  {:>8}  {}",
            row.size,
            row.time.human(),
            row.algorithm_bandwidth.gb_per_sec(),
            row.bus_bandwidth.gb_per_sec(),
            row.algorithm.map_or("-", Algorithm::name),
            row.protocol.map_or("-", ProtocolKind::name),
            row.channels,
            ring.time.human(),
        );
    }
    Ok(())
}
