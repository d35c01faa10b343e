use super::super::{Beside, Field};
use super::{Mean, Metric, answer, clock, series_of};
use std::time::{Duration, Instant};

fn mean(start: f64, end: f64, value: f64) -> Mean {
    Mean { start, end, value }
}

#[test]
fn the_output_of_dcgmi_dmon_is_read() {
    let text = "#Entity   SMACT        NVLTX        TMPTR\nID\n\
                GPU 0     0.500        1000         41\nGPU 1     0.700        N/A          40\n\
                #Entity   SMACT        NVLTX        TMPTR\nID\n\
                GPU 0     1.000        3000         41\nGPU 1     0.800        N/A          40\n";
    let series = series_of(text, 2.0).ok().unwrap();
    assert_eq!(series.form, "dcgmi dmon");
    let of = |field| &series.metrics[&Metric::Gpu(field)];
    assert_eq!(
        *of(Field::SmActive),
        [mean(0.0, 2.0, 0.6), mean(2.0, 4.0, 0.9)]
    );
    assert_eq!(
        *of(Field::NvlinkTx),
        [mean(0.0, 2.0, 1e3), mean(2.0, 4.0, 3e3)]
    );
}

/// As `dcgmi dmon -e 203,155,1002,1004,1005,1011,1012` prints it.
#[test]
fn columns_that_no_run_has_are_named_and_headers_come_again() {
    let text = "# Entity   GPUTL  POWER     SMACT   TENSO   DRAMA   NVLTX          NVLRX          PMCLK\n     Id\n\
                 GPU 0     98     412.123   0.912   0.402   0.355   12000000000    13000000000    1\n\
                 GPU 1     0      N/A       0.000   0.000   0.000   0              0              N/A\n\n\
                # Entity   GPUTL  POWER     SMACT   TENSO   DRAMA   NVLTX          NVLRX          PMCLK\n     Id\n\
                 GPU 0     98     400       0.912   0.402   0.355   12000000000    13000000000    1\n";
    let series = series_of(text, 1.0).ok().unwrap();
    assert_eq!(series.unknown, ["PMCLK"]);
    let of = |field| &series.metrics[&Metric::Gpu(field)];
    assert_eq!(series.metrics.len(), 7);
    assert_eq!(
        *of(Field::Power),
        [mean(0.0, 1.0, 412.123), mean(1.0, 2.0, 400.0)]
    );
    assert_eq!(
        *of(Field::GpuUtil),
        [mean(0.0, 1.0, 49.0), mean(1.0, 2.0, 98.0)]
    );
    assert_eq!(of(Field::NvlinkRx)[0], mean(0.0, 1.0, 6.5e9));
}

#[test]
fn values_and_times_that_no_series_has_are_refused_by_line() {
    let of = |rows: &str| {
        let text = format!("Time,DCGM_FI_DEV_POWER_USAGE{{gpu=0}}\n1700000000,300\n{rows}\n");
        series_of(&text, 1.0)
            .err()
            .map(|wrong| (wrong.line, wrong.found))
    };
    assert_eq!(of("1700000001,310"), None);
    for (rows, found) in [
        ("1600000000,300", "100000000 s before the one above"),
        (
            "1700000000,900",
            "a second value of DCGM_FI_DEV_POWER_USAGE",
        ),
        ("99999999999999999999,300", "`99999999999999999999`"),
        ("1700000001,-5", "-5 for DCGM_FI_DEV_POWER_USAGE"),
        ("1700000001,1e308", "for DCGM_FI_DEV_POWER_USAGE"),
        ("-1700000000,300", "`-1700000000`"),
    ] {
        let (line, told) = of(rows).unwrap();
        assert_eq!(line, 3, "{told}");
        assert!(told.contains(found), "{told}");
    }
    let value =
        r#"{"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","gpu":"0"},"values":[[1,"1"],[2,"3"]]}"#;
    let twice = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{value},{value}]}}}}"#
    );
    let told = series_of(&twice, 1.0).err().unwrap().found;
    assert!(told.contains("before the one above"), "{told}");
}

#[test]
fn the_output_of_nvidia_smi_dmon_is_read_with_and_without_times() {
    let plain = "# gpu    pwr  gtemp  mtemp     sm    mem     fb\n# Idx      W      C      C      %      %     MB\n\
                     0    412     61      -     98     40  40536\n    1     71     33      -      0      0      3\n\
                     0    400     61      -     96     40  40536\n    1     72     33      -      0      0      3\n";
    let timed = "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n\
                  20260131   12:00:00      0    412     98\n 20260131   12:00:00      1     71      0\n\
                  20260131   12:00:02      0    400     96\n 20260131   12:00:02      1     72      0\n";
    for (text, unknown, length) in [
        (plain, vec!["gtemp", "mem", "mtemp"], 3),
        (timed, vec![], 2),
    ] {
        let series = series_of(text, 2.0).ok().unwrap();
        assert_eq!(
            (series.form, &series.unknown[..]),
            (
                "nvidia-smi dmon",
                &unknown.iter().map(|u| (*u).to_owned()).collect::<Vec<_>>()[..]
            )
        );
        let of = |field| &series.metrics[&Metric::Gpu(field)];
        assert_eq!(series.metrics.len(), length);
        assert_eq!(
            *of(Field::Power),
            [mean(0.0, 2.0, 241.5), mean(2.0, 4.0, 236.0)]
        );
        assert_eq!(
            *of(Field::GpuUtil),
            [mean(0.0, 2.0, 49.0), mean(2.0, 4.0, 48.0)]
        );
    }
}

#[test]
fn a_query_of_nvidia_smi_is_read_with_and_without_the_number_of_a_gpu() {
    let at = clock::seconds("2026-01-31T12:00:00").unwrap();
    let numbered = "timestamp, index, name, power.draw [W], utilization.gpu [%], temperature.gpu\n\
        2026/01/31 12:00:00.000, 0, NVIDIA H100 80GB HBM3, 400.50 W, 98 %, 41\n\
        2026/01/31 12:00:00.004, 1, NVIDIA H100 80GB HBM3, [N/A], 0 %, 40\n\
        2026/01/31 12:00:01.000, 0, NVIDIA H100 80GB HBM3, 300.50 W, 96 %, 41\n\
        2026/01/31 12:00:01.004, 1, NVIDIA H100 80GB HBM3, 100.50 W, 0 %, 40\n";
    let bare = "timestamp, power.draw [W], utilization.gpu [%]\n\
        2026/01/31 12:00:00.000, 400.50, 98\n2026/01/31 12:00:00.004, [Not Supported], 0\n\
        2026/01/31 12:00:01.000, 300.50, 96\n2026/01/31 12:00:01.004, 100.50, 0\n\
        2026/01/31 12:00:02.000, 300.50, 96\n";
    for (text, unknown, samples) in [
        (numbered, vec!["temperature.gpu".to_owned()], 2),
        (bare, vec![], 3),
    ] {
        let series = series_of(text, 7.0).ok().unwrap();
        assert_eq!((series.form, &series.unknown), ("nvidia-smi", &unknown));
        let of = |field| &series.metrics[&Metric::Gpu(field)];
        assert_eq!(of(Field::Power).len(), samples);
        assert_eq!(
            of(Field::Power)[..2],
            [mean(at - 1.0, at, 400.5), mean(at, at + 1.0, 200.5)]
        );
        assert_eq!(
            of(Field::GpuUtil)[..2],
            [mean(at - 1.0, at, 49.0), mean(at, at + 1.0, 48.0)]
        );
    }
    // One GPU, now and then a little late.
    let one = "timestamp, memory.used [MiB]\n2026/01/31 12:00:00.000, 40536 MiB\n2026/01/31 12:00:01.000, 40536 MiB\n\
        2026/01/31 12:00:02.500, 40536 MiB\n";
    let series = series_of(one, 1.0).ok().unwrap();
    assert_eq!(series.metrics[&Metric::Gpu(Field::FbUsed)].len(), 3);
}

#[test]
fn what_prometheus_answers_is_read() {
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","gpu":"0","Hostname":"a"},"values":[[1769860800,"100"],[1769860815.5,"300"]]},
        {"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","gpu":"1","Hostname":"a"},"values":[[1769860800,"200"],[1769860815.5,"NaN"]]},
        {"metric":{"__name__":"DCGM_FI_DEV_SM_CLOCK","gpu":"0"},"values":[[1769860800,"1980"]]},
        {"metric":{"__name__":"node_infiniband_port_data_transmitted_bytes_total","device":"mlx5_0","port":"1"},
         "values":[[1769860800,"1.5e3"],[1769860810,"2500"]]}
        ]},"warnings":["a hint"]}"#;
    let series = series_of(text, 1.0).ok().unwrap();
    assert_eq!(
        (series.form, &series.unknown[..]),
        ("Prometheus", &["DCGM_FI_DEV_SM_CLOCK".to_owned()][..])
    );
    let at = 1_769_860_800.0;
    assert_eq!(
        series.metrics[&Metric::Gpu(Field::Power)],
        [mean(at - 15.5, at, 150.0), mean(at, at + 15.5, 300.0)]
    );
    assert_eq!(
        series.metrics[&Metric::PortOut],
        [mean(at, at + 10.0, 100.0)]
    );
    assert!(answer::is_answer(text) && answer::is_answer("\u{feff}{ \"status\": \"error\""));
    assert!(!answer::is_answer(r#"{"name": "status"}"#));
}

#[test]
fn what_grafana_saves_is_read_formatted_or_not() {
    let at = clock::seconds("2026-01-31T12:00:00").unwrap();
    let labels = r#"{__name__=""NAME"", gpu=""0"", instance=""a:9400""}"#;
    let head = |names: [&str; 3]| {
        let columns = names.map(|name| format!("\"{}\"", labels.replace("NAME", name)));
        format!("\"Time\",{}", columns.join(","))
    };
    let head = head([
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
    ]);
    let raw =
        format!("\u{feff}{head}\r\n1769860800000,98,0.5,12000000000\r\n1769860815000,96,,\r\n");
    let shown =
        format!("{head}\n2026-01-31 12:00:00,98%,50.0%,12 GB/s\n2026-01-31 12:00:15,96%,,\n");
    let excel = format!(
        "\u{feff}sep=,\r\n{head}\r\n2026-01-31 12:00:00.000,98%,50%,12 GB/s\r\n2026-01-31 12:00:15.000,96%,,\r\n"
    );
    let table = "\"Time\",\"__name__\",\"gpu\",\"Value #A\"\n1769860800000,DCGM_FI_DEV_GPU_UTIL,0,98\n\
                 1769860815000,DCGM_FI_DEV_GPU_UTIL,0,96\n1769860800000,DCGM_FI_PROF_SM_ACTIVE,0,0.5\n\
                 1769860800000,DCGM_FI_PROF_NVLINK_TX_BYTES,0,12000000000\n";
    for text in [raw.as_str(), &shown, &excel, table] {
        let series = series_of(text, 1.0).ok().unwrap();
        assert_eq!(series.form, "Prometheus");
        let of = |field| &series.metrics[&Metric::Gpu(field)];
        assert_eq!(
            *of(Field::GpuUtil),
            [mean(at - 15.0, at, 98.0), mean(at, at + 15.0, 96.0)],
            "{text}"
        );
        assert_eq!(
            (of(Field::SmActive)[0].value, of(Field::NvlinkTx)[0].value),
            (0.5, 12e9)
        );
    }
}

#[test]
fn range_queries_are_read_by_column_and_by_line() {
    let wide = "Time,\"DCGM_FI_DEV_POWER_USAGE{gpu=\"\"0\"\"}\",\"DCGM_FI_DEV_POWER_USAGE{gpu=\"\"1\"\"}\",DCGM_FI_DEV_SM_CLOCK\n\
                2026-01-31 12:00:00,100,200,1980\n2026-01-31 12:00:15,300,,1980\n";
    let series = series_of(wide, 1.0).ok().unwrap();
    assert_eq!(series.unknown, ["DCGM_FI_DEV_SM_CLOCK"]);
    let at = clock::seconds("2026-01-31T12:00:00Z").unwrap();
    assert_eq!(at, 1_769_860_800.0);
    let power = &series.metrics[&Metric::Gpu(Field::Power)];
    let expected = [mean(at - 15.0, at, 150.0), mean(at, at + 15.0, 300.0)];
    assert_eq!(*power, expected);
    // A counter of two ports, in milliseconds; one begins again.
    let long = "timestamp,__name__,device,value\n\
                1769860800000,node_infiniband_port_data_received_bytes_total,mlx5_0,100\n\
                1769860810000,node_infiniband_port_data_received_bytes_total,mlx5_0,300\n\
                1769860800000,node_infiniband_port_data_received_bytes_total,mlx5_1,900\n\
                1769860810000,node_infiniband_port_data_received_bytes_total,mlx5_1,50\n";
    let series = series_of(long, 1.0).ok().unwrap();
    assert_eq!(series.metrics[&Metric::PortIn], [mean(at, at + 10.0, 20.0)]);
}

#[test]
fn what_cannot_be_read_is_said_with_its_line() {
    for (text, line, found, expected) in [
        ("", 1, "nothing", "dcgmi dmon"),
        ("a,b\n1,2\n", 1, "the columns a, b", "a column of times"),
        ("time,speed\n1,2\n", 1, "the series `speed`", "DCGM_FI_"),
        (
            "time,DCGM_FI_DEV_POWER_USAGE\n1,2\nx,2\n",
            3,
            "`x` in column time",
            "since 1970",
        ),
        (
            "time,DCGM_FI_DEV_POWER_USAGE\n1,much\n",
            2,
            "`much`",
            "a number",
        ),
        ("time,DCGM_FI_DEV_POWER_USAGE\n1\n", 2, "1 cells", "2"),
        (
            "time,DCGM_FI_DEV_SM_CLOCK\n1,2\n",
            1,
            "no series",
            "a field of DCGM",
        ),
        ("#Entity WHAT\nGPU 0 1\n", 1, "no series", "a field of DCGM"),
        ("#Entity SMACT\n#GPU 0\n", 2, "`#GPU 0`", "a header"),
        (
            "#Entity SMACT\nGPU 0 much\n",
            2,
            "`much` in column SMACT",
            "12.5, alone or in %",
        ),
        (
            "# gpu pwr\n# Idx W\n  gpu0 71\n",
            3,
            "`gpu0 71`",
            "`0  412  98`",
        ),
        (
            "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n",
            1,
            "`# TYPE DCGM",
            "`dcgmi dmon`",
        ),
        (
            "timestamp, power.draw [W]\n2026/01/31 12:00:00.000, 412 kW/h\n",
            2,
            "`412 kW/h` in column power.draw [W]",
            "alone or in W, kW",
        ),
        (
            "timestamp, power.draw [W]\n31.01.2026, 412 W\n",
            2,
            "`31.01.2026` in column timestamp",
            "2026/01/31",
        ),
        (
            "index, power.draw [W]\n0, 412 W\n",
            1,
            "the columns index, power.draw [W]",
            "timestamp",
        ),
        (
            "timestamp, power.draw [W]\n2026/01/31 12:00:00.000, 1 W\n2026/01/31 12:00:00.004, 1 W\n\
             2026/01/31 12:00:01.000, 1 W\n2026/01/31 12:00:02.000, 1 W\n",
            4,
            "1 at about the same time, after 2 before",
            "a column index",
        ),
        (
            "sep=;\nTime;DCGM_FI_DEV_GPU_UTIL\n1;5 W\n",
            3,
            "`5 W`",
            "alone or in %",
        ),
        (
            "{\"status\":\"success\",\n\"data\":{\"resultType\":\"vector\",\"result\":[]}}",
            2,
            "no range: vector",
            "api/v1/query_range",
        ),
        (
            "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}",
            1,
            "the status error: bad_data: parse error",
            "api/v1/query_range",
        ),
        (
            "{\"status\":\"success\",\"data\":{",
            1,
            "EOF",
            "api/v1/query_range",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[\n{\"metric\":{\"gpu\":\"0\"},\"values\":[]}]}}",
            2,
            "a series without __name__ (gpu=0)",
            "rate()",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"speed\"},\"values\":[]}]}}",
            1,
            "the series `speed`",
            "DCGM_FI_",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\"},\n\
             \"values\":[[1,\"2\"],\n[2,\"much\"]]}]}}",
            3,
            "the value `much`",
            "api/v1/query_range",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\"},\
             \"values\":[[1,2]]}]}}",
            1,
            "invalid type: integer `2`",
            "api/v1/query_range",
        ),
        (
            "#Entity SMACT\nGPU 0 1 2\n",
            2,
            "2 values",
            "1, one a column",
        ),
        ("#Entity SMACT\nID\nNVS 0 1\n", 3, "`NVS 0 1`", "GPU 0"),
        (
            "time,DCGM_FI_DEV_POWER_USAGE\n1,\"300\n2,400\n",
            2,
            "a quote that nothing closes",
            "behind the cell",
        ),
        (
            "time,DCGM_FI_DEV_POWER_USAGE\n1,2\n2,\"30\"5\n",
            3,
            "`5` behind a quoted cell",
            "is doubled",
        ),
        (
            "sep=;\nTime;DCGM_FI_DEV_GPU_UTIL\n1;\"30\"5\n",
            3,
            "`5` behind a quoted cell",
            "is doubled",
        ),
        (
            "timestamp, power.draw [W]\n2026/01/31 12:00:00.000, [9999 garbage\n",
            2,
            "`[9999 garbage` in column power.draw [W]",
            "a number",
        ),
        (
            "start_us,end_us,Hostname,gpu,device,port,DCGM_FI_DEV_FB_USED\n0,1,n,0,,,3\n9,5,n,0,,,3\n",
            3,
            "DCGM_FI_DEV_FB_USED from 0.000009 s to 0.000005 s",
            "the first of two before the second",
        ),
        (
            "start_us,end_us,Hostname,gpu,device,port,DCGM_FI_DEV_FB_USED\n-1e300,1e300,n,0,,,3\n",
            2,
            "DCGM_FI_DEV_FB_USED from -1",
            "times of 0 or more",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\"},\n\
             \"values\":[[1e300,\"2\"]]}]}}",
            1,
            "DCGM_FI_DEV_POWER_USAGE at 1",
            "times of 0 or more",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\",\n\
             \"gpu\":\"0\",\"gpu\":\"1\"},\"values\":[]}]}}",
            2,
            "the name `gpu` stands twice",
            "api/v1/query_range",
        ),
        (
            "start_us,end_us,Hostname,gpu,device,port,X\n",
            1,
            "the column X",
            "DCGM",
        ),
        (
            "start_us,end_us,Hostname,gpu,device,port,DCGM_FI_DEV_FB_USED\n0,1,n,0,,,y\n",
            2,
            "`y`",
            "a number",
        ),
    ] {
        let wrong = series_of(text, 1.0).err().unwrap();
        assert_eq!(wrong.line, line, "{text}");
        assert!(wrong.found.contains(found), "{}: {text}", wrong.found);
        assert!(
            wrong.expected.contains(expected),
            "{}: {text}",
            wrong.expected
        );
    }
}

#[test]
fn words_of_nvidia_smi_are_no_values() {
    for word in [
        "[N/A]",
        "[Not Supported]",
        "[Unknown Error]",
        "[GPU is lost]",
    ] {
        let text = format!(
            "timestamp, power.draw [W], utilization.gpu [%]\n2026/01/31 12:00:00.000, {word}, 5 %\n"
        );
        let series = series_of(&text, 1.0).ok().unwrap();
        assert_eq!(series.metrics.len(), 1, "{word}");
    }
}

/// A line is looked for behind the one of the series before.
#[test]
fn answers_of_many_series_are_read_in_one_pass() {
    let series = |index: usize| {
        let name = match index {
            59_999 => "speed".to_owned(),
            _ => format!("DCGM_FI_DEV_NONE_{index}"),
        };
        format!("{{\"metric\":{{\"__name__\":\"{name}\"}},\"values\":[]}}")
    };
    let all: Vec<String> = (0..60_000).map(series).collect();
    let all = all.join(",\n");
    let text = format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[\n{all}]}}}}"
    );
    let began = Instant::now();
    let wrong = series_of(&text, 1.0).err().unwrap();
    assert_eq!((wrong.line, &*wrong.found), (60_001, "the series `speed`"));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn next_to_nothing_measured_has_no_ratio() {
    let of = |value: &str| {
        let text = format!("time,DCGM_FI_DEV_POWER_USAGE\n1,{value}\n2,{value}\n");
        series_of(&text, 1.0).ok().unwrap()
    };
    let beside = Beside::new(("a", &of("300")), ("b", &of("1e-320"))).unwrap();
    assert_eq!(
        (beside.metrics[0].mean_ratio, beside.metrics[0].peak_ratio),
        (None, None)
    );
    assert!(beside.answer.contains("has no ratio"), "{}", beside.answer);
    let beside = Beside::new(("a", &of("300")), ("b", &of("200"))).unwrap();
    assert_eq!(beside.metrics[0].mean_ratio, Some(1.5));
}
