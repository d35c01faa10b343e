//! Tables, plots and the page as text.

use super::samples;
use crate::record::{Doing, Part, PartKind, Timeline};
use crate::{
    attribution_table, bandwidth_svg, collective_table, font, html, links_table, numbers, rows_csv,
    table_header, table_left_out, table_row,
};
use fabricsim_units::Time;

/// Leaves only these rows of a collective.
fn keep(summary: &mut crate::Summary, rows: &[usize]) {
    let all = &mut samples::collective(summary).rows;
    *all = rows.iter().map(|&index| all[index].clone()).collect();
}

#[test]
fn numbers_are_printed_as_nccl_tests_prints_them() {
    let cases = [
        (0.0, 6, "  0.00"),
        (41.944, 6, " 41.94"),
        (116.302, 6, "116.30"),
        (1234.5, 6, "1234.5"),
        (15668.24, 7, "15668.2"),
        (123_456.7, 6, "123457"),
        (999.999, 6, "1000.0"),
        (12_345_678.0, 7, "  1.2e7"),
    ];
    for (value, width, text) in cases {
        assert_eq!(numbers::nccl_float(value, width), text);
    }
}

#[test]
fn numbers_for_people() {
    let cases = [
        (numbers::size(8.0), "8 B"),
        (numbers::size(1536.0), "1.5 KiB"),
        (numbers::size(1_048_575.0), "1 MiB"),
        (numbers::size(8f64 * 1024f64.powi(3)), "8 GiB"),
        (numbers::micros(0.0), "0 µs"),
        (numbers::micros(0.83), "830 ns"),
        (numbers::micros(9.5), "9.50 µs"),
        (numbers::micros(999.9), "1.00 ms"),
        (numbers::micros_mark(10.0), "10 µs"),
        (numbers::percent(0.714), "71 %"),
        (numbers::percent(0.0321), "3.2 %"),
        (numbers::percent(0.0), "0 %"),
        (
            numbers::grouped(8_589_934_592),
            "8\u{a0}589\u{a0}934\u{a0}592",
        ),
        (numbers::trimmed(-0.0001, 2), "0"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    assert_eq!(numbers::count(605.0), "605");
    assert_eq!(numbers::count(999_600.0), "1.00 M");
    assert_eq!(numbers::count(70.6e9), "70.6 B");
    assert_eq!(numbers::seconds(4.21), "4.21 s");
    assert_eq!(numbers::seconds(2710.0), "45.2 min");
    assert_eq!(numbers::seconds(3.0 * 86_400.0), "3 days");
}

#[test]
fn a_table_has_the_columns_of_nccl_tests() {
    let mut summary = samples::sweep();
    keep(&mut summary, &[0, 17, 30]);
    summary.warnings.truncate(1);
    let golden = "\
# fabricsim 0.1.0, seed 1
# all-reduce: 8 GPUs in one node on DGX H100: 8 H100 SXM, 4 NVSwitch, 8 NDR 400G
#
#       size         count      type   redop    root     time   algbw   busbw        algo   proto  channels    bound  bottleneck
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)                                   (us)
           8             2     float     sum      -1     9.50    0.00    0.00        tree      ll         4     0.00  latency of hops
     1048576        262144     float     sum      -1    15.06   69.62  121.84        ring   ll128        24     2.83  NVLink out of each GPU
  8589934592    2147483648     float     sum      -1  31327.0  274.20  479.85        nvls  simple        24  23216.0  NVLink out of each GPU
# Avg bus bandwidth    : 200.565765
# Sizes up to 128 KiB wait for hops, larger ones for NVLink out of each GPU.
# warning: NCCL_FOO is not a variable that fabricsim knows; it was ignored
";
    assert_eq!(collective_table(samples::view(&summary), false), golden);
    let coloured = collective_table(samples::view(&summary), true);
    assert!(coloured.contains("\u{1b}["));
    samples::collective(&mut summary).rows[1].algo = "recursive-doubling".to_owned();
    let wide = collective_table(samples::view(&summary), false);
    let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
    let lines: Vec<&str> = wide.lines().collect();
    assert_eq!(ends(lines[3], "algo"), ends(lines[6], "recursive-doubling"));
    assert_eq!(ends(lines[3], "proto"), ends(lines[7], "simple"));
    samples::collective(&mut summary).collective = "broadcast".to_owned();
    assert!(collective_table(samples::view(&summary), false).contains("float    none       0"));
}

#[test]
fn a_narrow_table_leaves_out_what_matters_least() {
    let mut summary = samples::sweep();
    keep(&mut summary, &[0, 17, 30]);
    samples::collective(&mut summary).rows[0].bottleneck =
        "message handling of network proxies (17 %)".to_owned();
    let table = |width| {
        let rows = samples::view(&summary).result.rows.iter();
        let rows = rows.map(|row| table_row(samples::view(&summary), row, Some(width), false));
        table_header(samples::view(&summary), Some(width), false) + &rows.collect::<String>()
    };
    let golden = "\
#     size     time   busbw        algo   proto  bottleneck
#      (B)     (us)  (GB/s)
         8     9.50    0.00        tree      ll  message handling of net… (17 %)
   1048576    15.06  121.84        ring   ll128  NVLink out of each GPU
8589934592  31327.0  479.85        nvls  simple  NVLink out of each GPU
";
    assert!(table(80).ends_with(golden), "{}", table(80));
    let left_out = table_left_out(samples::view(&summary), Some(80), "--json has all", false);
    assert_eq!(
        left_out,
        "# Left out, for lines have 80 characters (--json has all):\n\
         #   count, type, redop, root, algbw, channels, bound\n"
    );
    for width in 30..200 {
        let table = table(width);
        let lengths = table.lines().skip(3).map(|line| line.chars().count());
        assert!(lengths.max() <= Some(width), "{width}:\n{table}");
        assert!(table.contains("121.84"), "{width}:\n{table}");
    }
    let whole = table(149);
    assert!(
        whole.contains("channels") && whole.contains("redop"),
        "{whole}"
    );
    assert_eq!(
        table_left_out(samples::view(&summary), Some(149), "", false),
        ""
    );
    assert_eq!(table_left_out(samples::view(&summary), None, "", false), "");
}

#[test]
fn rows_are_csv_with_the_fields_of_the_json() {
    let mut summary = samples::sweep();
    samples::collective(&mut summary).rows.truncate(1);
    samples::collective(&mut summary).rows[0].bottleneck = "NVLink, both ways".to_owned();
    assert_eq!(
        rows_csv(samples::view(&summary)).unwrap(),
        "topology,nodes,gpus,gpus_per_node,collective,bytes,count,time_us,algbw_gbs,busbw_gbs,algo,proto,channels,bound_us,bottleneck,events,bound_plain_us\n\
         dgx-h100,1,8,8,all-reduce,8,2,9.500233333333334,0.0008420845803787275,0.001473648015662773,tree,ll,4,0.00002162162162162162,\"NVLink, both ways\",4000,0.000037837837837837835\n"
    );
}

#[test]
fn time_is_shown_as_bars() {
    let mut attribution = samples::collective(&mut samples::ring().0)
        .attribution
        .clone()
        .unwrap();
    let part = |what: &str, us, fraction| Part {
        what: what.to_owned(),
        kind: PartKind::Limited,
        time: Time::from_micros(us),
        fraction,
    };
    attribution.critical_path = vec![
        part("launch", 5, 0.05),
        part("limited by NVLink", 95, 0.95),
        part("idle", 0, 0.0),
    ];
    attribution.total = Vec::new();
    let golden = "\
Where the time went: critical path, 100 us
  limited by NVLink   95.0 us    95 %  ████████████████████████████▌
  launch              5.00 us   5.0 %  █▌
  idle                   0 us     0 %
";
    assert_eq!(attribution_table(&attribution, false), golden);
}

#[test]
fn links_are_listed_from_the_busiest() {
    let links = samples::collective(&mut samples::ring().0).links.clone();
    let table = links_table(&links, 2, false);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].contains("NVLink") && lines[0].contains("100.0 GB/s"));
    assert_eq!(lines[2], "  and 70 more links");
}

/// The character map (format 4) of a TrueType font: whether it has a glyph.
fn has_glyph(font: &[u8], character: char) -> bool {
    let short = |at: usize| usize::from(u16::from_be_bytes([font[at], font[at + 1]]));
    let long = |at: usize| short(at) << 16 | short(at + 2);
    let tables = (0..short(4)).map(|index| 12 + index * 16);
    let entry = tables.into_iter().find(|at| &font[*at..at + 4] == b"cmap");
    let cmap = long(entry.unwrap() + 8);
    let maps = (0..short(cmap + 2)).map(|index| cmap + long(cmap + 8 + index * 8));
    let map = maps.into_iter().find(|at| short(*at) == 4).unwrap();
    let segments = short(map + 6) / 2;
    let code = character as usize;
    (0..segments).any(|index| {
        let end = short(map + 14 + index * 2);
        let start = short(map + 16 + (segments + index) * 2);
        // The last segment ends every map and stands for nothing.
        (start..=end).contains(&code) && code != 0xFFFF
    })
}

/// The text between tags, with the entities that SVG uses undone.
fn words(svg: &str) -> String {
    let pieces = svg.split('<').filter_map(|tag| tag.split_once('>'));
    pieces
        .map(|(_, text)| text)
        .collect::<String>()
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[test]
fn the_bundled_font_has_every_glyph_of_the_plots() {
    assert!(has_glyph(font::BYTES, 'µ') && !has_glyph(font::BYTES, '漢'));
    let (ring, timeline) = samples::ring();
    let both = samples::sweep();
    let plots = crate::plot::all_svg(samples::view(&both), &timeline).unwrap();
    assert_eq!(plots.len(), 3);
    let mut text: String = plots.iter().map(|svg| words(svg)).collect();
    text += &words(&bandwidth_svg(samples::view(&ring), &timeline).unwrap());
    // What plots may print for other data.
    text += "…·–→≤≥×µα±²⁹₂";
    for character in text.chars().filter(|c| !c.is_control()) {
        assert!(
            has_glyph(font::BYTES, character),
            "no glyph for {character:?}"
        );
    }
    assert!(text.contains("8 GiB") && text.contains("10 µs") && text.contains("nvls, Simple"));
}

#[test]
fn a_page_is_one_file_and_runs_no_text_of_others() {
    let (mut summary, timeline) = samples::ring();
    summary.title = "<img src=x onerror=alert(1)>".to_owned();
    samples::collective(&mut summary).rows[0].bottleneck =
        "</table><script>alert(2)</script>".to_owned();
    let mut timeline: Timeline = timeline;
    timeline.spans[0].doing = Doing::Moves("</script><script>alert(3)");
    let page = html::report(
        samples::view(&summary),
        &timeline,
        Some("<?xml?><svg id=\"drawing\"></svg>"),
    )
    .unwrap();
    for bad in [
        "<img",
        "<script>alert",
        "<?xml",
        "src=\"",
        "href=",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(bad), "{bad}");
    }
    assert!(page.contains("<svg id=\"drawing\">"));
    // Ours: the data, and the program.
    assert_eq!(page.matches("<script").count(), 2);
    let data = page
        .split_once("<script type=\"application/json\">")
        .unwrap()
        .1;
    let data = data.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let lanes = data["lanes"].as_array().unwrap();
    assert_eq!(
        lanes.len(),
        (samples::GPUS * u32::from(samples::CHANNELS)) as usize
    );
    let numbers: usize = lanes
        .iter()
        .map(|lane| lane["spans"].as_array().unwrap().len())
        .sum();
    assert_eq!(numbers, timeline.spans.len() * 5);
}

#[test]
fn a_page_says_what_it_leaves_out() {
    let (summary, mut timeline) = samples::ring();
    let spans = timeline.spans.clone();
    timeline.spans = (0..100).flat_map(|_| spans.clone()).collect();
    timeline.ranks_omitted = 1016;
    let page = html::report(samples::view(&summary), &timeline, None).unwrap();
    // 228 spans a rank and copy (the last rank finishes last), so two whole ranks fit.
    assert!(page.contains("recorded GPUs; timeline.json beside this page has all."));
    assert!(
        page.contains("of 2 of 8 recorded GPUs"),
        "{}",
        timeline.spans.len()
    );
    assert!(page.contains("1\u{a0}016 more GPUs were simulated but not recorded."));
}
