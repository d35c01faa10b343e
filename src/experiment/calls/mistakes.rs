//! Mistakes that make ranks wait without end, as scenarios to begin with.

use serde_json::{Value, json};

/// A mistake, by its name.
#[derive(Debug, Clone, Copy)]
pub struct Mistake {
    /// Its name.
    pub name: &'static str,
    /// What ranks do, in one line.
    pub about: &'static str,
    /// `job.calls` with so many ranks, two at least.
    calls: fn(u32) -> Value,
}

/// All of them, in the order in which they are listed.
pub fn mistakes() -> impl Iterator<Item = Mistake> + Clone {
    MISTAKES.iter().copied()
}

/// The one of that name.
#[must_use]
pub fn mistake(name: &str) -> Option<Mistake> {
    mistakes().find(|mistake| mistake.name == name)
}

impl Mistake {
    /// A scenario of it on a machine, with so many ranks.
    #[must_use]
    pub fn scenario(&self, topology: &Value, nodes: Option<u32>, ranks: u32) -> Value {
        let mut scenario = json!({
            "comment": "Edit what ranks call and run it again. `fabricsim schema scenario` lists all fields; any object may hold a comment.",
            "name": self.name,
            "title": self.about,
            "topology": topology,
            "job": { "calls": (self.calls)(ranks) },
        });
        if let (Some(nodes), Value::Object(map)) = (nodes, &mut scenario) {
            map.insert("nodes".to_owned(), nodes.into());
        }
        scenario
    }
}

/// All ranks but the last one, and that one.
fn but_last(ranks: u32) -> (String, u32) {
    let last = ranks.saturating_sub(1);
    match last {
        0 | 1 => ("0".to_owned(), last),
        _ => (format!("0-{}", last - 1), last),
    }
}

fn reduce(size: &str) -> Value {
    json!({ "all-reduce": { "size": size } })
}

/// The last rank does something else than the others.
fn unlike(ranks: u32, others: &Value, last: &Value) -> Value {
    let (most, one) = but_last(ranks);
    json!({ "ranks": [
        { "ranks": most, "calls": others },
        { "ranks": one, "calls": last },
    ] })
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "different-collectives",
        about: "one rank calls an all-gather where others call an all-reduce",
        calls: |ranks| {
            let others = json!([reduce("64MiB"), "barrier"]);
            let last = json!([{ "all-gather": { "size": "64MiB" } }, "barrier"]);
            unlike(ranks, &others, &last)
        },
    },
    Mistake {
        name: "different-sizes",
        about: "one rank reduces half as much as others: its last batch was smaller",
        calls: |ranks| {
            unlike(
                ranks,
                &json!([reduce("256MiB")]),
                &json!([reduce("128MiB")]),
            )
        },
    },
    Mistake {
        name: "wrong-data",
        about: "one rank reduces 16 bytes less than others: nothing hangs, and the sum is wrong",
        calls: |ranks| {
            unlike(
                ranks,
                &json!([reduce("1024KiB")]),
                &json!([reduce("1048560B")]),
            )
        },
    },
    Mistake {
        name: "different-order",
        about: "one rank calls a broadcast and an all-reduce in the other order",
        calls: |ranks| {
            let broadcast = json!({ "broadcast": { "size": "1MiB" } });
            let others = json!([broadcast, reduce("64MiB")]);
            unlike(ranks, &others, &json!([reduce("64MiB"), broadcast]))
        },
    },
    Mistake {
        name: "two-groups",
        about: "two communicators share two ranks, which use them in different order on one stream",
        calls: |_| {
            let on = |group: &str| json!({ "all-reduce": { "size": "16MiB", "on": group } });
            json!({
                "communicators": { "tp": "0-1", "dp": "0-1" },
                "ranks": [
                    { "ranks": 0, "calls": [on("tp"), on("dp")] },
                    { "ranks": 1, "calls": [on("dp"), on("tp")] },
                ]
            })
        },
    },
    Mistake {
        name: "both-send-first",
        about: "two ranks send to each other before they receive, more than buffers take",
        calls: |_| {
            let with = |rank: u32| json!({ "with": rank, "size": "64MiB" });
            json!({ "ranks": [
                { "ranks": 0, "calls": [{ "send": with(1) }, { "recv": with(1) }] },
                { "ranks": 1, "calls": [{ "send": with(0) }, { "recv": with(0) }] },
            ] })
        },
    },
    Mistake {
        name: "absent-rank",
        about: "one rank leaves the loop a step before others: its data are used up",
        calls: |ranks| {
            unlike(
                ranks,
                &json!([reduce("64MiB"), reduce("64MiB")]),
                &json!([reduce("64MiB")]),
            )
        },
    },
    Mistake {
        name: "crashed-rank",
        about: "the process of one rank dies in its second step",
        calls: |ranks| {
            let step = json!({ "wait": "250ms" });
            let others = json!([reduce("64MiB"), step, reduce("64MiB")]);
            unlike(ranks, &others, &json!([reduce("64MiB"), step, "crash"]))
        },
    },
    Mistake {
        name: "late-rank",
        about: "one rank writes a checkpoint for 15 minutes, longer than others' timeout",
        calls: |ranks| {
            unlike(
                ranks,
                &json!([reduce("64MiB")]),
                &json!([{ "wait": "900s" }, reduce("64MiB")]),
            )
        },
    },
    Mistake {
        name: "monitored-barrier",
        about: "as absent-rank, with a monitored barrier of 30 s that names the rank",
        calls: |ranks| {
            let barrier = json!({ "monitored-barrier": { "timeout": "30s" } });
            let others = json!([reduce("64MiB"), barrier]);
            unlike(ranks, &others, &json!([reduce("64MiB")]))
        },
    },
    Mistake {
        name: "one-window",
        about: "one rank does not register its window, which all have to",
        calls: |ranks| {
            let others = json!([{ "register": {} }, reduce("1MiB")]);
            unlike(ranks, &others, &json!([reduce("1MiB")]))
        },
    },
    Mistake {
        name: "one-buffer",
        about: "one rank has not registered its buffer: nothing hangs, and all copy",
        calls: |ranks| {
            let registered = json!([{ "all-reduce": { "size": "64MiB", "registered": true } }]);
            unlike(ranks, &registered, &json!([reduce("64MiB")]))
        },
    },
];
