//! vLLM's policy beside a slow, obvious one: what is free is counted anew each time, queues are lists that are searched.
//! And what holds of every policy: no block is held twice, budgets are kept, everything ends.

use super::super::blocks::BlockPool;
use super::super::request::Request;
use super::super::scheduler::{Limits, Live, Pass, Scheduler};
use super::PolicyKind;
use fabricsim_units::Time;
use proptest::prelude::*;

const BLOCK: u32 = 16;

/// A request as the obvious scheduler has it.
#[derive(Debug, Clone)]
struct Plain {
    id: u32,
    /// Prompt and what was generated.
    known: u32,
    /// Of these, in the cache.
    cached: u32,
    /// Still to generate.
    left: u32,
}

/// vLLM's rules as its comments have them.
struct Obvious {
    blocks: u32,
    limits: Limits,
    waiting: Vec<Plain>,
    running: Vec<Plain>,
}

/// What a pass computes of whom, and who lost their blocks.
type Decision = (Vec<(u32, u32)>, Vec<u32>);

impl Obvious {
    /// Blocks that nobody holds, if requests that run hold what they have in the cache, and those that are
    /// scheduled already what they will have.
    fn free(&self, scheduled: &[(u32, u32)]) -> i64 {
        let holds = |r: &Plain| {
            let more = scheduled
                .iter()
                .find(|(id, _)| *id == r.id)
                .map_or(0, |s| s.1);
            i64::from((r.cached + more).div_ceil(BLOCK))
        };
        i64::from(self.blocks) - self.running.iter().map(holds).sum::<i64>()
    }

    fn decide(&mut self) -> Decision {
        let mut budget = self.limits.token_budget;
        let (mut scheduled, mut lost): (Vec<(u32, u32)>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut place = 0;
        'requests: while place < self.running.len() && budget > 0 {
            let r = self.running[place].clone();
            let tokens = (r.known - r.cached).min(budget);
            let needs = i64::from((r.cached + tokens).div_ceil(BLOCK) - r.cached.div_ceil(BLOCK));
            while self.free(&scheduled) < needs {
                let mut last = self.running.pop().expect("one runs");
                lost.push(last.id);
                last.cached = 0;
                let is_own = last.id == r.id;
                self.waiting.insert(0, last);
                if is_own {
                    break 'requests;
                }
            }
            scheduled.push((r.id, tokens));
            budget -= tokens;
            place += 1;
        }
        if lost.is_empty() {
            while budget > 0
                && self.running.len() < self.limits.max_sequences as usize
                && !self.waiting.is_empty()
            {
                let tokens = self.waiting[0].known.min(budget);
                let whole = self.limits.chunked_prefill || tokens == self.waiting[0].known;
                if !whole || self.free(&scheduled) < i64::from(tokens.div_ceil(BLOCK)) {
                    break;
                }
                let next = self.waiting.remove(0);
                scheduled.push((next.id, tokens));
                self.running.push(next);
                budget -= tokens;
            }
        }
        for (id, tokens) in &scheduled {
            for r in self.running.iter_mut().filter(|r| r.id == *id) {
                r.cached += tokens;
                if r.cached == r.known {
                    r.known += 1;
                    r.left -= 1;
                }
            }
        }
        self.running.retain(|r| r.left > 0);
        (scheduled, lost)
    }
}

/// A scheduler with these requests, which all wait.
fn with(requests: &[(u32, u32)], limits: Limits, blocks: u32) -> (Scheduler, Vec<Request>) {
    let mut scheduler = Scheduler::new(limits, BlockPool::new(blocks, BLOCK, false));
    let mut all = Vec::new();
    for (number, &(input, output)) in (0..).zip(requests) {
        let id = scheduler.add(Live {
            request: number,
            tokens: input,
            prompt: input,
            output,
            ..Live::default()
        });
        scheduler.waiting.push_back(id);
        all.push(Request::new(Time::ZERO, input, output));
    }
    (scheduler, all)
}

/// One pass; who is done goes.
fn step(policy: PolicyKind, scheduler: &mut Scheduler, all: &[Request], pass: &mut Pass) {
    policy.decide(scheduler, all, pass);
    scheduler.begin(pass);
    let mut done = Vec::new();
    scheduler.end(pass, all, |id| done.push(id));
    for id in done {
        scheduler.remove(id);
    }
}

fn workload() -> impl Strategy<Value = (Vec<(u32, u32)>, Limits, u32)> {
    let requests = prop::collection::vec((1u32..400, 1u32..60), 1..24);
    let limits = (16u32..600, 1u32..12, any::<bool>());
    // Room for the largest request, and a little more.
    (requests, limits, 29u32..80).prop_map(|(requests, (budget, sequences, chunked), blocks)| {
        // Without chunks a prompt has to fit a pass, with what was generated before it lost its blocks.
        let budget = if chunked { budget } else { budget.max(460) };
        (requests, Limits::plain(budget, sequences, chunked), blocks)
    })
}

proptest! {
    #[test]
    fn vllm_decides_as_the_obvious_scheduler_does((requests, limits, blocks) in workload()) {
        let (mut scheduler, all) = with(&requests, limits, blocks);
        let plain = (0..).zip(&requests).map(|(id, &(input, output))| Plain {
            id, known: input, cached: 0, left: output,
        });
        let mut obvious = Obvious { blocks, limits, waiting: plain.collect(), running: Vec::new() };
        let mut pass = Pass::default();
        for _ in 0..20_000 {
            let expected = obvious.decide();
            // Numbers of a scheduler that forgets nobody on the way are those of requests.
            PolicyKind::Vllm.decide(&mut scheduler, &all, &mut pass);
            let number = |id: u32| scheduler.live(id).request;
            let found: Vec<(u32, u32)> = pass.parts.iter().map(|p| (number(p.live), p.tokens)).collect();
            let lost: Vec<u32> = pass.preempted.iter().map(|&id| number(id)).collect();
            prop_assert_eq!((found, lost), expected);
            if pass.parts.is_empty() && pass.preempted.is_empty() {
                prop_assert_eq!(scheduler.load(), 0);
                return Ok(());
            }
            scheduler.begin(&pass);
            let mut done = Vec::new();
            scheduler.end(&pass, &all, |id| done.push(id));
            done.into_iter().for_each(|id| scheduler.remove(id));
        }
        prop_assert!(false, "it does not end");
    }

    #[test]
    fn every_policy_keeps_its_limits_and_ends((requests, limits, blocks) in workload()) {
        for policy in [PolicyKind::Vllm, PolicyKind::Sglang, PolicyKind::Trtllm, PolicyKind::Static] {
            let (mut scheduler, all) = with(&requests, limits, blocks);
            let mut pass = Pass::default();
            let mut tokens = 0;
            let mut passes = 0;
            while scheduler.load() > 0 {
                step(policy, &mut scheduler, &all, &mut pass);
                prop_assert!(!pass.parts.is_empty() || !pass.preempted.is_empty(), "{:?} stands still", policy);
                let sum: u32 = pass.parts.iter().map(|part| part.tokens).sum();
                let budget = if limits.chunked_prefill || policy != PolicyKind::Static { limits.token_budget } else { u32::MAX };
                // SGLang gives each request that runs its token, whatever the budget for prompts is.
                prop_assert!(sum <= budget || policy == PolicyKind::Sglang, "{policy:?}: {sum}");
                prop_assert!(scheduler.running.len() <= limits.max_sequences as usize);
                tokens += pass.parts.iter().filter(|part| part.emits).count();
                passes += 1;
                prop_assert!(passes < 20_000, "{:?} does not end", policy);
            }
            // Nothing is held any more, and everyone has got what was asked for.
            prop_assert_eq!(scheduler.pool.free(), blocks);
            prop_assert_eq!(scheduler.kv_tokens(), 0);
            prop_assert_eq!(tokens as u32, requests.iter().map(|r| r.1).sum::<u32>());
        }
    }
}
