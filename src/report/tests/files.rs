//! A run's folder: whole, reproducible, and never at the cost of another.

use super::samples;
use crate::record::{Row, Timeline};
use crate::{
    Outputs, Recording, ReportError, Results, Summary, summary_json, summary_schema, write_file,
    write_results,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn run() -> Results {
    let (summary, timeline) = samples::ring();
    let drawing = "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
    samples::results(summary, timeline, drawing)
}

fn rows(results: &mut Results) -> &mut Vec<Row> {
    &mut samples::collective(&mut results.summary).rows
}

fn timeline(results: &mut Results) -> &mut Timeline {
    match &mut results.records[0].recorded {
        Recording::Collective { timeline, .. } => timeline,
        Recording::Training(_) => panic!("a collective"),
    }
}

fn drop_drawing(results: &mut Results) {
    if let Recording::Collective { topology_svg, .. } = &mut results.records[0].recorded {
        topology_svg.clear();
    }
}

fn write(target: &Path, results: &Results) -> Result<(), ReportError> {
    write_results(target, results, &Outputs::default())
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

#[test]
fn a_run_is_the_same_bytes_again_and_leaves_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let mut run = run();
    let first = home.path().join("new/parents/first");
    write(&first, &run).unwrap();
    rows(&mut run)[0].wall_ms = 99.0;
    let second = home.path().join("second");
    write(&second, &run).unwrap();
    write(&second, &run).unwrap();
    let files = contents(&first);
    assert_eq!(
        files.keys().map(String::as_str).collect::<Vec<_>>(),
        cfg!(feature = "png")
            .then_some("bandwidth.png")
            .into_iter()
            .chain([
                "bandwidth.svg",
                "links.csv",
                "report.html",
                "summary.json",
                "timeline.json",
                "topology.svg"
            ])
            .collect::<Vec<_>>()
    );
    assert!(files == contents(&second), "the files differ");
    assert_eq!(contents(home.path()).len(), 2, "something was left behind");

    let summary: Summary = serde_json::from_slice(&files["summary.json"]).unwrap();
    assert_eq!(samples::view(&summary).result.rows[0].wall_ms, 0.0);
    let png = files.get("bandwidth.png");
    assert!(png.is_none_or(|png| png.starts_with(b"\x89PNG\r\n")));
}

#[test]
fn a_finished_run_replaces_an_older_one() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("run");
    fs::create_dir(&target).unwrap();
    write(&target, &run()).unwrap();
    let mut other = run();
    other.summary.title = "Another".to_owned();
    drop_drawing(&mut other);
    write(&target, &other).unwrap();
    let files = contents(&target);
    assert!(!files.contains_key("topology.svg"));
    assert!(String::from_utf8_lossy(&files["summary.json"]).contains("Another"));
}

#[test]
fn what_fabricsim_did_not_write_stays() {
    let cases = [
        ("notes.txt", "mine", "it holds `notes.txt`"),
        (
            "summary.json",
            "{\"mine\": true}",
            "its summary.json is not fabricsim's",
        ),
        (
            "summary.json",
            "no json",
            "its summary.json is not fabricsim's",
        ),
        ("report.html", "mine", "it has no summary.json"),
    ];
    for (name, text, reason) in cases {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("run");
        fs::create_dir(&target).unwrap();
        fs::write(target.join(name), text).unwrap();
        let error = write(&target, &run()).unwrap_err();
        assert!(matches!(error, ReportError::Foreign { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(reason) && message.contains("/run`"),
            "{message}"
        );
        assert_eq!(contents(&target)[name], text.as_bytes());
        assert_eq!(contents(home.path()).len(), 1);
    }
}

#[test]
fn notes_kept_in_a_run_keep_it_from_being_replaced() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("run");
    write(&target, &run()).unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    let error = write(&target, &run()).unwrap_err();
    assert!(matches!(error, ReportError::Foreign { .. }), "{error}");
    assert_eq!(contents(&target).len(), 8);
}

#[test]
fn a_parent_that_cannot_hold_a_folder_is_an_error_that_names_it() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "mine").unwrap();
    for target in [file.join("run"), file.join("deep/run"), file.clone()] {
        let error = write(&target, &run()).unwrap_err().to_string();
        assert!(error.contains(file.to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(contents(home.path()).len(), 1);
    for nameless in ["/", ".."] {
        let error = write(Path::new(nameless), &run()).unwrap_err().to_string();
        assert!(error.contains('`'), "{error}");
    }
}

#[test]
fn a_run_that_cannot_be_written_leaves_the_old_one_and_no_parents() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("run");
    write(&target, &run()).unwrap();
    let before = contents(&target);
    let mut broken = run();
    rows(&mut broken)[0].time_us = f64::NAN;
    let error = write(&target, &broken).unwrap_err().to_string();
    assert_eq!(
        error,
        "the result `rows[0].time_us` is NaN, which no report can hold"
    );
    assert!(before == contents(&target));
    broken = run();
    timeline(&mut broken).links[0].bytes[1] = f64::INFINITY;
    write(&home.path().join("deep/er/run"), &broken).unwrap_err();
    assert_eq!(contents(home.path()).len(), 1);
}

#[test]
fn a_summary_fits_its_schema_and_reads_back() {
    let schema = serde_json::to_value(summary_schema()).unwrap();
    for summary in [samples::ring().0, samples::sweep()] {
        let text = summary_json(&summary).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let found = jsonschema::validate(&schema, &value);
        assert!(found.is_ok(), "{found:?}");
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    }
}

#[test]
fn runs_without_rows_links_or_trace_are_written_too() {
    let home = tempfile::tempdir().unwrap();
    let mut summary = samples::sweep();
    let result = samples::collective(&mut summary);
    result.rows.clear();
    result.traced_row = Some(7);
    let empty = samples::results(summary, Timeline::default(), "");
    write(&home.path().join("empty"), &empty).unwrap();
    let mut zero = run();
    rows(&mut zero)[0].time_us = 0.0;
    rows(&mut zero)[0].algbw_gbs = 0.0;
    rows(&mut zero)[0].bound_us = 0.0;
    rows(&mut zero)[0].bytes = 0;
    timeline(&mut zero).bin = fabricsim_units::Time::ZERO;
    timeline(&mut zero).end = fabricsim_units::Time::ZERO;
    write(&home.path().join("zero"), &zero).unwrap();
}

#[test]
fn a_file_is_replaced_whole_or_left() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("page.html");
    write_file(&path, b"one").unwrap();
    write_file(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    #[cfg(unix)]
    {
        let link = home.path().join("link.html");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_file(&link, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_file(&link).unwrap();
    }
    let error = write_file(&path.join("below"), b"")
        .unwrap_err()
        .to_string();
    assert!(error.contains("page.html"), "{error}");
    write_file(home.path(), b"").unwrap_err();
    write_file(&home.path().join("missing/page.html"), b"").unwrap_err();
    assert_eq!(contents(home.path()).len(), 1);
}

#[cfg(unix)]
#[test]
fn others_may_read_what_the_user_lets_them_read() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (file, folder) = (home.path().join("plain"), home.path().join("folder"));
    fs::write(&file, "").unwrap();
    fs::create_dir(&folder).unwrap();
    write_file(&home.path().join("ours"), b"").unwrap();
    write(&home.path().join("run"), &run()).unwrap();
    assert_eq!(mode(&home.path().join("ours")), mode(&file));
    assert_eq!(mode(&home.path().join("run")), mode(&folder));
    assert_eq!(mode(&home.path().join("run/summary.json")), mode(&file));
}
