use super::*;
use crate::{Program, WorkerId, verify};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A step: type, source, target, count, and what it waits for.
type StepText<'t> = (&'t str, &'t str, &'t str, u32, Option<(u32, u32)>);

/// Writes files the way a tool would; places are `i0`, `o3`, `s1`.
struct Writer(String);

impl Writer {
    fn new(coll: &str, ranks: u32, chunks: u32, more: &str) -> Self {
        Writer(format!(
            "<!-- made by a test -->\n<algo name=\"a\" proto=\"Simple\" nchannels=\"2\" nchunksperloop=\"{chunks}\" ngpus=\"{ranks}\" coll=\"{coll}\" {more}>\n"
        ))
    }

    fn gpu(
        mut self,
        id: u32,
        chunks: (u32, u32, u32),
        blocks: &[(i32, i32, u32, &[StepText<'_>])],
    ) -> Self {
        let out = &mut self.0;
        let (i, o, s) = chunks;
        writeln!(
            out,
            "<gpu id=\"{id}\" i_chunks=\"{i}\" o_chunks=\"{o}\" s_chunks=\"{s}\">"
        )
        .unwrap();
        for (number, (send, recv, chan, steps)) in blocks.iter().enumerate() {
            writeln!(
                out,
                "<tb id=\"{number}\" send=\"{send}\" recv=\"{recv}\" chan=\"{chan}\">"
            )
            .unwrap();
            for (s, (kind, source, target, count, after)) in steps.iter().enumerate() {
                let (depid, deps) = after.map_or((-1, -1), |(b, s)| (b as i32, s as i32));
                let (sb, so) = source.split_at(1);
                let (db, d) = target.split_at(1);
                writeln!(
                    out,
                    "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{sb}\" srcoff=\"{so}\" dstbuf=\"{db}\" dstoff=\"{d}\" cnt=\"{count}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"0\"/>"
                )
                .unwrap();
            }
            out.push_str("</tb>\n");
        }
        out.push_str("</gpu>\n");
        self
    }

    fn end(mut self) -> String {
        self.0.push_str("</algo>\n");
        self.0
    }
}

/// Both send all to each other, in place: one block sends, one receives after it.
fn exchange() -> String {
    let gpu = |w: Writer, id: u32| {
        let peer = 1 - id as i32;
        w.gpu(
            id,
            (2, 2, 0),
            &[
                (peer, -1, 0, &[("s", "i0", "o0", 2, None)]),
                (-1, peer, 0, &[("rrc", "i0", "i0", 2, Some((0, 0)))]),
            ],
        )
    };
    let writer = Writer::new("allreduce", 2, 2, "inplace=\"1\"");
    gpu(gpu(writer, 0), 1).end()
}

/// A ring all-gather of two chunks a rank, on two channels.
fn ring_all_gather(ranks: u32, in_place: bool) -> String {
    let mut writer = Writer::new(
        "allgather",
        ranks,
        2 * ranks,
        if in_place { "inplace=\"1\"" } else { "" },
    );
    for id in 0..ranks {
        let (next, before) = ((id + 1) % ranks, (id + ranks - 1) % ranks);
        let names: Vec<Vec<String>> = (0..2)
            .map(|c| {
                (0..ranks)
                    .map(|k| format!("o{}", 2 * ((id + ranks - k) % ranks) + c))
                    .collect()
            })
            .collect();
        let own: Vec<String> = (0..2).map(|c| format!("i{c}")).collect();
        let steps: Vec<Vec<StepText<'_>>> = (0..2)
            .map(|c| {
                let mut steps = Vec::new();
                if !in_place {
                    steps.push(("cpy", own[c].as_str(), names[c][0].as_str(), 1, None));
                }
                steps.push(("s", own[c].as_str(), names[c][0].as_str(), 1, None));
                for (k, name) in names[c].iter().enumerate().skip(1) {
                    let kind = if k + 1 == names[c].len() { "r" } else { "rcs" };
                    steps.push((kind, name.as_str(), name.as_str(), 1, None));
                }
                steps
            })
            .collect();
        let block = |c: usize| (next as i32, before as i32, c as u32, steps[c].as_slice());
        let output = 2 * ranks;
        writer = writer.gpu(id, (2, output, 0), &[block(0), block(1)]);
    }
    writer.end()
}

/// Everyone sends each block to its rank, through scratch memory; a `nop` carries the
/// second of two things that the sum waits for.
fn reduce_scatter(in_place: bool) -> String {
    let mut writer = Writer::new(
        "reducescatter",
        3,
        3,
        if in_place { "inplace=\"1\"" } else { "" },
    );
    for id in 0..3u32 {
        let (a, b) = ((id + 1) % 3, (id + 2) % 3);
        let (to_a, to_b, own) = (format!("i{a}"), format!("i{b}"), format!("i{id}"));
        let target = if in_place {
            own.clone()
        } else {
            "o0".to_owned()
        };
        let mut sum: Vec<StepText<'_>> = vec![("nop", "i0", "i0", 0, Some((0, 1)))];
        if in_place {
            sum.push(("re", "s0", &target, 1, Some((1, 1))));
        } else {
            sum.push(("cpy", &own, &target, 1, Some((1, 1))));
            sum.push(("re", "s0", &target, 1, None));
        }
        sum.push(("re", "s1", &target, 1, None));
        writer = writer.gpu(
            id,
            (3, 1, 2),
            &[
                (
                    a as i32,
                    b as i32,
                    0,
                    &[("s", &to_a, "s0", 1, None), ("r", "i0", "s0", 1, None)],
                ),
                (
                    b as i32,
                    a as i32,
                    1,
                    &[("s", &to_b, "s1", 1, None), ("r", "i0", "s1", 1, None)],
                ),
                (-1, -1, 0, &sum),
            ],
        );
    }
    writer.end()
}

/// A ring in place over the input buffer alone: sums are stored where input was.
fn reduce_scatter_ring_in_place() -> String {
    let mut writer = Writer::new("reducescatter", 3, 3, "inplace=\"1\"");
    for id in 0..3u32 {
        let chunk = |k: u32| format!("i{}", (id + 3 - k) % 3);
        let (first, second, own) = (chunk(1), chunk(2), chunk(0));
        let steps: [StepText<'_>; 4] = [
            ("s", &first, &first, 1, None),
            ("rrc", &second, &second, 1, None),
            ("s", &second, &second, 1, None),
            ("rrc", &own, &own, 1, None),
        ];
        let (next, before) = ((id as i32 + 1) % 3, (id as i32 + 2) % 3);
        writer = writer.gpu(id, (3, 1, 0), &[(next, before, 0, &steps)]);
    }
    writer.end()
}

#[test]
fn files_compute_what_they_say() {
    let files = [
        exchange(),
        ring_all_gather(2, false),
        ring_all_gather(5, false),
        ring_all_gather(4, true),
        reduce_scatter(false),
        reduce_scatter(true),
        reduce_scatter_ring_in_place(),
    ];
    for text in &files {
        let algorithm = MscclAlgorithm::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let unit = u64::from(algorithm.chunks);
        // One pass with chunks together, one chunk by chunk, several with a short last one.
        for (bytes, chunk) in [
            (unit * 480, 1 << 20),
            (unit * 480, 480),
            (unit * 1008, 100),
            (0, 64),
        ] {
            let program = algorithm.program(bytes, chunk).unwrap();
            if let Err(error) = verify(&program, 2) {
                panic!("{error}\n{text}");
            }
        }
    }
}

#[test]
fn a_file_that_does_something_else_than_it_says_is_refused() {
    // Nobody sends.
    let step = |offset| {
        format!(
            "<step s=\"0\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" \
             dstoff=\"{offset}\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
        )
    };
    let gpu = |id| {
        format!(
            "<gpu id=\"{id}\" i_chunks=\"1\" o_chunks=\"2\" s_chunks=\"0\">\
             <tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">{}</tb></gpu>",
            step(id)
        )
    };
    let file = format!(
        "<algo name=\"x\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" \
         coll=\"allgather\" inplace=\"0\">{}{}</algo>",
        gpu(0),
        gpu(1)
    );
    let error = MscclAlgorithm::parse(&file).unwrap_err().to_string();
    assert!(
        error.starts_with("it is no all-gather: rank 0, output chunk 1: "),
        "{error}"
    );
    // Data to the wrong place.
    let right = ring_all_gather(3, false);
    let wrong = right.replacen("dstoff=\"1\"", "dstoff=\"2\"", 1);
    assert_ne!(right, wrong);
    let error = MscclAlgorithm::parse(&wrong).unwrap_err().to_string();
    assert!(error.contains("all-gather"), "{error}");
    // What a step does not use is read, too.
    for (attribute, odd) in [
        ("hasdep=\"0\"", "hasdep=\"x\""),
        ("cnt=\"1\"", "cnt=\"NaN\""),
    ] {
        let odd = file.replacen(attribute, odd, 1);
        let error = MscclAlgorithm::parse(&odd).unwrap_err().to_string();
        assert!(error.starts_with("line 1: "), "{error}");
    }
}

#[test]
fn chunks_of_one_step_go_together_while_they_fit() {
    let algorithm = MscclAlgorithm::parse(&exchange()).unwrap();
    let steps = |chunk| {
        let program = algorithm.program(2000, chunk).unwrap();
        (program.steps(WorkerId(0)), program.step(WorkerId(0), 0).len)
    };
    assert_eq!(steps(4096), (1, 2000));
    assert_eq!(steps(1999), (2, 1000));
    assert_eq!(steps(600), (4, 600));
}

#[test]
fn a_size_that_cannot_be_cut_is_refused() {
    let algorithm = MscclAlgorithm::parse(&exchange()).unwrap();
    let error = algorithm.program(7, 64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "7 bytes; expected a multiple of the algorithm's 2 chunks"
    );
}

#[test]
fn the_sizes_that_a_file_is_for_are_read() {
    let of = |more: &str| {
        let text = exchange().replacen("ngpus=", &format!("{more} ngpus="), 1);
        MscclAlgorithm::parse(&text)
    };
    let sizes = [0, 99, 100, 200, 201];
    for (more, are) in [
        ("", [true; 5]),
        ("minBytes=\"100\"", [false, false, true, true, true]),
        (
            "minBytes=\"100\" maxBytes=\"0\"",
            [false, false, true, true, true],
        ),
        (
            "minBytes=\"100\" maxBytes=\"200\"",
            [false, false, true, true, false],
        ),
    ] {
        let algorithm = of(more).unwrap();
        assert_eq!(sizes.map(|bytes| algorithm.is_for(bytes)), are, "{more}");
    }
    assert!(of("minBytes=\"64K\"").is_err());
}

#[test]
fn faults_are_named_with_their_line() {
    let replaced = |from: &str, to: &str| {
        let text = exchange();
        assert!(text.contains(from), "{from}");
        MscclAlgorithm::parse(&text.replacen(from, to, 1))
            .unwrap_err()
            .to_string()
    };
    let cases = [
        (
            "ngpus=\"2\"",
            "ngpus=\"3\"",
            "line 2: 2 gpu elements; expected one for each of 3 ranks",
        ),
        (
            "coll=\"allreduce\"",
            "coll=\"scan\"",
            "line 2: coll=\"scan\"; expected one of allreduce, allgather, reducescatter, alltoall, broadcast, reduce, gather, scatter",
        ),
        (
            "nchunksperloop=\"2\"",
            "",
            "line 2: <algo> without nchunksperloop; expected a number from 1 to 1048576",
        ),
        (
            "id=\"1\" i_chunks",
            "id=\"0\" i_chunks",
            "line 11: a second gpu 0; expected each rank once",
        ),
        (
            "<tb id=\"1\"",
            "<tb id=\"2\"",
            "line 7: thread block 2; expected number 1: they come in order, without a gap",
        ),
        (
            "type=\"s\"",
            "type=\"x\"",
            "line 5: type=\"x\"; expected one of s, r, rcs, rrs, rrc, rrcs, re, cpy, nop",
        ),
        (
            "type=\"s\"",
            "type=\"r\"",
            "line 5: a step that needs a peer in a thread block with recv=\"-1\"; expected a rank in recv",
        ),
        (
            "send=\"1\"",
            "send=\"0\"",
            "line 4: send=\"0\"; expected another rank, or -1",
        ),
        (
            "cnt=\"2\"",
            "cnt=\"3\"",
            "line 5: chunks 0..3 of rank 0's input, which has 2; expected chunks inside it",
        ),
        (
            "cnt=\"2\"",
            "cnt=\"1\"",
            "line 16: receives 2 chunks; line 5 sends 1; expected as many",
        ),
        (
            "depid=\"0\" deps=\"0\"",
            "depid=\"0\" deps=\"7\"",
            "line 8: step 7 of thread block 0, which does not exist; expected a step of this gpu",
        ),
        (
            "depid=\"0\" deps=\"0\"",
            "depid=\"1\" deps=\"0\"",
            "line 8: rank 0, thread block 1 waits here for ever; expected data or a step that somebody provides",
        ),
        (
            "depid=\"0\" deps=\"0\"",
            "depid=\"0\" deps=\"-1\"",
            "line 8: depid=\"0\" with deps=\"-1\"; expected both, or -1 for both",
        ),
        (
            "chan=\"0\"",
            "chan=\"1\"",
            "line 4: no thread block receives from rank 0 to rank 1 on channel 1; expected one at each end",
        ),
        (
            "srcbuf=\"i\"",
            "srcbuf=\"q\"",
            "line 5: srcbuf=\"q\"; expected one of i, o, s",
        ),
        ("<step", "<op", "line 5: <op>; expected <step>"),
        ("</algo>", "", "not XML"),
    ];
    for (from, to, expected) in cases {
        let error = replaced(from, to);
        assert!(error.starts_with(expected), "{from} → {to}: {error}");
    }
}

#[test]
fn data_that_is_not_there_is_named() {
    let text = exchange().replacen("type=\"s\" srcbuf=\"i\"", "type=\"s\" srcbuf=\"s\"", 1);
    let text = text.replacen("s_chunks=\"0\"", "s_chunks=\"2\"", 1);
    let error = MscclAlgorithm::parse(&text).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 5: rank 0 reads chunk 0 of its scratch, which is not written yet; expected data"
    );
}

/// A file for two ranks, of which the first sends itself nothing and copies so many times.
fn copies(steps: usize, count: u32, chunks: u32) -> String {
    let step = |s: usize| {
        format!(
            "<step s=\"{s}\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"{count}\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
        )
    };
    let steps: String = (0..steps).map(step).collect();
    let gpu = |id: u32, steps: &str| {
        format!(
            "<gpu id=\"{id}\" i_chunks=\"{chunks}\" o_chunks=\"{chunks}\" s_chunks=\"0\">\n\
             <tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">\n{steps}</tb>\n</gpu>\n"
        )
    };
    format!(
        "<algo name=\"a\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{chunks}\" ngpus=\"2\" coll=\"alltoall\">\n{}{}</algo>\n",
        gpu(0, &steps),
        gpu(1, "")
    )
}

#[test]
fn files_of_many_steps_are_read_in_one_pass() {
    let began = Instant::now();
    let text = copies(20_000, 1, 2).replace("s=\"19999\" type=\"cpy\"", "s=\"19999\" type=\"x\"");
    let error = MscclAlgorithm::read(&text).unwrap_err().to_string();
    assert!(error.starts_with("line 20003: type=\"x\""), "{error}");
    assert!(MscclAlgorithm::read(&copies(20_000, 1, 2)).is_ok());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn more_than_can_be_followed_is_refused_before_it_is() {
    let began = Instant::now();
    let error = MscclAlgorithm::read(&copies(20, 1 << 20, 1 << 20)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 8: steps up to here that move 5242880 chunks; expected at most 4194304 in all steps"
    );
    let chunks = 1 << 20;
    let gpu = |id: u32| format!("<gpu id=\"{id}\" i_chunks=\"0\" o_chunks=\"0\" s_chunks=\"0\"/>");
    let gpus: String = (0..64).map(gpu).collect();
    let text = format!(
        "<algo nchannels=\"1\" nchunksperloop=\"{chunks}\" ngpus=\"64\" coll=\"alltoall\" inplace=\"1\">{gpus}</algo>"
    );
    let error = MscclAlgorithm::read(&text).unwrap_err().to_string();
    assert!(
        error.contains("67108864 parts of results are more than"),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}
