//! vLLM's v1 scheduler (`vllm/v1/core/sched/scheduler.py`, `schedule`), without speculative tokens.

use super::super::request::Request;
use super::super::scheduler::{Pass, Scheduler};
use super::{find_prefix, part};

/// Requests that run get what they miss, in the order in which they were let in; one that lacks a
/// block takes those of the last one, which is computed again later. Then, if nobody lost blocks,
/// requests that wait are let in while the budget lasts, in order of arrival.
pub(super) fn decide(scheduler: &mut Scheduler, requests: &[Request], pass: &mut Pass) {
    let mut budget = scheduler.limits.token_budget;
    let mut next = 0;
    while next < scheduler.running.len() && budget > 0 {
        let id = scheduler.running[next];
        let live = scheduler.live(id);
        if live.in_flight {
            next += 1;
            continue;
        }
        let tokens = live.missing().min(budget);
        let needed = scheduler.room_for(id, live.computed + tokens);
        if !make_room(scheduler, (id, needed), pass) {
            break;
        }
        pass.parts.push(part(scheduler, id, tokens));
        budget -= tokens;
        next += 1;
    }
    if pass.preempted.is_empty() {
        admit(scheduler, requests, budget, pass);
    }
}

/// Blocks for a request that runs, from the last ones that run if need be; `false` if it loses its own.
fn make_room(scheduler: &mut Scheduler, (id, tokens): (u32, u32), pass: &mut Pass) -> bool {
    while !scheduler.grow(id, tokens) {
        // What a pass under way computes cannot be taken away.
        let last = scheduler
            .running
            .iter()
            .rposition(|&id| !scheduler.live(id).in_flight);
        let Some(last) = last else { return false };
        let victim = scheduler.running.remove(last);
        scheduler.preempt(victim);
        pass.preempted.push(victim);
        if victim == id {
            return false;
        }
    }
    true
}

/// Lets requests in, while one after the other fits.
fn admit(scheduler: &mut Scheduler, requests: &[Request], mut budget: u32, pass: &mut Pass) {
    while budget > 0 && scheduler.running.len() < scheduler.limits.max_sequences as usize {
        let Some(id) = scheduler.first() else {
            return;
        };
        let fresh = find_prefix(scheduler, requests, id);
        let missing = scheduler.live(id).missing();
        let cut = missing > budget && !scheduler.limits.chunked_prefill;
        let tokens = missing.min(budget);
        let needed = scheduler.live(id).computed + tokens;
        if cut || !scheduler.grow(id, needed) {
            if fresh {
                scheduler.give_back(id);
            }
            if let_pass(scheduler, pass) {
                continue;
            }
            return;
        }
        scheduler.waiting.pop_front();
        scheduler.running.push(id);
        pass.parts.push(part(scheduler, id, tokens));
        budget -= tokens;
    }
}

/// Where nothing runs and the first one lacks blocks, requests behind it may hold them: their KV caches have come from
/// elsewhere. One of these goes first, or nothing would go on.
fn let_pass(scheduler: &mut Scheduler, pass: &Pass) -> bool {
    if !(scheduler.running.is_empty() && pass.parts.is_empty()) {
        return false;
    }
    let Some(place) = scheduler.holder().filter(|&place| place > 0) else {
        return false;
    };
    let Some(id) = scheduler.waiting.remove(place) else {
        return false;
    };
    scheduler.waiting.push_front(id);
    true
}
