//! What each layer says of a hang, and when.
//!
//! Words are those of PyTorch's and NCCL's logs as they stand in public issues (hiyouga/LlamaFactory 7396 and 6269, NVIDIA/nccl
//! 1730); NCCL itself compares no calls of ranks.

use super::meet::ELEMENT;
use super::valid::ValidCalls;
use super::waits::{Inside, Instead, Wait, of, size_of};
use fabricsim_report::calls::Said;
use fabricsim_topology::watchdogs::{WatchdogModel, watchdogs};
use fabricsim_units::Time;

/// All that is said, in order of time.
pub(super) fn said(valid: &ValidCalls, waits: &[Wait]) -> Vec<Said> {
    let model = watchdogs();
    let mut all: Vec<(Time, String, String)> = Vec::new();
    for wait in waits {
        match &wait.inside {
            Inside::Monitored { timeout, .. } => monitored(valid, (wait, *timeout), &mut all),
            Inside::Operation { on_host: false, .. } | Inside::Message { .. } => {
                watchdog(valid, wait, model, &mut all);
            }
            // The process itself is in it: no work of a group, which the watchdog would see.
            Inside::Operation { .. } => {}
        }
    }
    let since = waits
        .iter()
        .map(|wait| wait.since)
        .min()
        .unwrap_or_default();
    let text =
        "nothing: kernels wait until they are aborted, and no layer compares what ranks call";
    all.push((since, "NCCL".to_owned(), text.to_owned()));
    let first = all
        .iter()
        .filter(|(_, who, _)| who.starts_with("watchdog"))
        .map(|said| said.0)
        .min();
    if let Some(at) = first {
        let text = "processes end, once dumps are written, and their launcher ends all others";
        all.push((
            at + model.dump_wait.value,
            "watchdogs".to_owned(),
            text.to_owned(),
        ));
    }
    detail(valid, waits, &mut all);
    crashed(valid, waits, model, &mut all);
    all.sort_by_key(|a| a.0);
    let line = |(at, who, says): (Time, String, String)| Said {
        at_us: at.micros(),
        who,
        says,
    };
    all.into_iter().map(line).collect()
}

/// When the watchdog looks next.
fn poll(at: Time, model: &WatchdogModel) -> Time {
    let each = model.torch_poll.value.picos().max(1);
    Time::from_picos((at.picos() / each + 1).saturating_mul(each))
}

/// PyTorch's watchdog gives the work up.
fn watchdog(
    valid: &ValidCalls,
    wait: &Wait,
    model: &WatchdogModel,
    all: &mut Vec<(Time, String, String)>,
) {
    let Some(&rank) = wait.ranks.first() else {
        return;
    };
    let at = poll(wait.called + valid.timeout, model);
    let ran = at.saturating_sub(wait.called).picos() / 1_000_000_000;
    let millis = valid.timeout.picos() / 1_000_000_000;
    let (kind, numel, sequence) = work(valid, &wait.inside);
    let who = format!("watchdog of {}", of(&wait.ranks));
    let text = format!(
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={kind}, \
         NumelIn={}, NumelOut={}, Timeout(ms)={millis}) ran for {ran} milliseconds before timing out.",
        numel.0, numel.1
    );
    all.push((at, who.clone(), text));
    if let Inside::Operation { .. } = wait.inside {
        let text = format!(
            "Exception (either an error or timeout) detected by watchdog at work: {sequence}, last enqueued NCCL work: {}, \
             last completed NCCL work: {}.",
            wait.enqueued, wait.completed
        );
        all.push((at, who.clone(), text));
    }
}

/// PyTorch's name of a work, its elements in and out, and its number.
fn work(valid: &ValidCalls, inside: &Inside) -> (&'static str, (u64, u64), u32) {
    match inside {
        Inside::Operation {
            name,
            on,
            number,
            bytes,
            ..
        } => {
            let ranks = valid.members[*on].len() as u64;
            let (all, block) = (bytes / ELEMENT, bytes / ELEMENT / ranks.max(1));
            let (kind, numel) = match *name {
                "all-gather" => ("_ALLGATHER_BASE", (block, all)),
                "reduce-scatter" => ("_REDUCE_SCATTER_BASE", (all, block)),
                "all-to-all" => ("ALLTOALL_BASE", (all, all)),
                "broadcast" => ("BROADCAST", (all, all)),
                "reduce" => ("REDUCE", (all, all)),
                // A barrier is an all-reduce of one element.
                _ => ("ALLREDUCE", (all, all)),
            };
            (kind, numel, *number)
        }
        Inside::Message { sends, bytes, .. } => {
            let numel = bytes / ELEMENT;
            (if *sends { "SEND" } else { "RECV" }, (numel, numel), 1)
        }
        Inside::Monitored { .. } => ("BARRIER", (0, 0), 0),
    }
}

/// The first rank of a monitored barrier says who has not come.
fn monitored(
    valid: &ValidCalls,
    (wait, timeout): (&Wait, Time),
    all: &mut Vec<(Time, String, String)>,
) {
    let on = wait.inside.on();
    let mut absent: Vec<u32> = wait
        .absent
        .iter()
        .flat_map(|(ranks, _)| ranks.iter().copied())
        .collect();
    absent.sort_unstable();
    let (Some(&first), Some(&missing)) = (valid.members[on].first(), absent.first()) else {
        return;
    };
    let millis = timeout.picos() / 1_000_000_000;
    let at = wait.called + timeout;
    if wait.ranks.contains(&first) {
        let text = format!(
            "[Rank {first}]: Rank {missing} failed to pass monitoredBarrier in {millis} ms"
        );
        all.push((at, format!("monitored barrier, rank {first}"), text));
        if absent.len() > 1 {
            let text = format!(
                "with wait_all_ranks: Ranks {} failed to pass monitoredBarrier",
                list(&absent)
            );
            all.push((at, format!("monitored barrier, rank {first}"), text));
        }
        let others: Vec<u32> = wait
            .ranks
            .iter()
            .copied()
            .filter(|&rank| rank != first)
            .collect();
        if !others.is_empty() {
            let text = format!(
                "successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank {first}"
            );
            all.push((at, format!("monitored barrier, {}", of(&others)), text));
        }
    }
}

fn list(ranks: &[u32]) -> String {
    ranks
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What PyTorch would have said at the call with TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares calls.
fn detail(valid: &ValidCalls, waits: &[Wait], all: &mut Vec<(Time, String, String)>) {
    let differs = waits.iter().find_map(|wait| {
        let mut absent = wait.absent.iter();
        absent.find_map(|(ranks, instead)| match instead {
            Instead::Differs(other @ Inside::Operation { on_host: false, .. }) => {
                let watched = !matches!(wait.inside, Inside::Operation { on_host: true, .. });
                watched.then_some((wait, ranks, other))
            }
            _ => None,
        })
    });
    let Some((wait, ranks, other)) = differs else {
        return;
    };
    let text = format!(
        "Detected mismatch between collectives on ranks: {} in {}{}, {} in {}{}",
        of(&wait.ranks),
        wait.inside.text(&valid.names),
        size_of(&wait.inside),
        of(ranks),
        other.text(&valid.names),
        size_of(other)
    );
    let who = "PyTorch, if TORCH_DISTRIBUTED_DEBUG=DETAIL".to_owned();
    all.push((wait.called, who, text));
    let (kind, _, sequence) = work(valid, &wait.inside);
    let (their_kind, _, _) = work(valid, other);
    let text = format!(
        "collective sequence {sequence} of {}: {} {kind} of {} bytes, {} {their_kind} of {} bytes",
        valid.names[wait.inside.on()],
        of(&wait.ranks),
        wait.inside.bytes(),
        of(ranks),
        other.bytes()
    );
    let model = watchdogs();
    let at = poll(wait.called + valid.timeout, model);
    let who = "flight recorder, if TORCH_NCCL_TRACE_BUFFER_SIZE is set".to_owned();
    all.push((at + Time::from_picos(1), who, text));
}

/// What is heard of a process that is dead.
fn crashed(
    valid: &ValidCalls,
    waits: &[Wait],
    model: &WatchdogModel,
    all: &mut Vec<(Time, String, String)>,
) {
    let dead = waits.iter().find_map(|wait| {
        let mut absent = wait.absent.iter();
        absent.find_map(|(ranks, instead)| match instead {
            Instead::Crashed(at) => Some((wait, ranks[0], *at)),
            _ => None,
        })
    });
    let Some((wait, rank, at)) = dead else { return };
    let text = format!("no answer from the process of rank {rank}");
    all.push((
        at + model.ras_warn.value,
        "NCCL's RAS, if asked (ncclras)".to_owned(),
        text,
    ));
    let text = format!("the process of rank {rank} is declared dead; operations go on waiting");
    all.push((
        at + model.ras_dead.value,
        "NCCL's RAS, if asked (ncclras)".to_owned(),
        text,
    ));
    let node = |rank: u32| valid.topology.node_of(valid.gpus[rank as usize]);
    let beyond: Vec<u32> = wait
        .ranks
        .iter()
        .copied()
        .filter(|&r| node(r) != node(rank))
        .collect();
    if !beyond.is_empty() {
        let tried = model.ib_try.value.times(model.ib_tries.value);
        let text = "NET/IB: Got completion from peer with status=12 (transport retry counter exceeded), if a message was \
                    under way to it";
        let who = format!("NCCL over InfiniBand, a neighbour among {}", of(&beyond));
        all.push((at.max(wait.since) + tried, who, text.to_owned()));
    }
}
