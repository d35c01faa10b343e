use super::super::Field;
use super::{Mean, Metric, clock, series_of};

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
        (
            "#Entity SMACT WHAT\nGPU 0 1 2\n",
            1,
            "the column WHAT",
            "NVLTX",
        ),
        ("#Entity SMACT\nGPU 0 1 2\n", 2, "2 values", "1"),
        ("#Entity SMACT\nID\nNVS 0 1\n", 3, "`NVS 0 1`", "GPU 0"),
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
