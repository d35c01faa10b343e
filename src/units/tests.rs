use super::*;
use proptest::prelude::*;

#[test]
fn sizes_are_read_as_people_write_them() {
    let cases = [
        ("25MiB", 25 << 20),
        ("1.5GB", 1_500_000_000),
        ("8B", 8),
        ("0.5KiB", 512),
        ("1_000 MB", 1_000_000_000),
    ];
    for (text, bytes) in cases {
        assert_eq!(Bytes::parse(text), Ok(Bytes::new(bytes)), "{text}");
    }
}

#[test]
fn flags_use_the_suffixes_of_nccl_tests() {
    for (text, bytes) in [
        ("8", 8),
        ("64K", 65536),
        ("8G", 8 << 30),
        ("1M", 1 << 20),
        ("8GB", 8_000_000_000),
    ] {
        assert_eq!(Bytes::parse_flag(text), Ok(Bytes::new(bytes)), "{text}");
    }
}

#[test]
fn rates_keep_bits_and_bytes_apart() {
    for (text, rate) in [
        ("450GB/s", 450_000_000_000),
        ("400Gb/s", 50_000_000_000),
        ("1GiB/s", 1 << 30),
        ("25.78125Gb/s", 3_222_656_250),
    ] {
        assert_eq!(
            Bandwidth::parse(text),
            Ok(Bandwidth::from_bytes_per_sec(rate)),
            "{text}"
        );
    }
}

#[test]
fn times_are_exact() {
    for (text, ps) in [
        ("1.5us", 1_500_000),
        ("20ms", 20_000_000_000),
        ("3ps", 3),
        ("2 h", 7_200_000_000_000_000),
    ] {
        assert_eq!(Time::parse(text), Ok(Time::from_picos(ps)), "{text}");
    }
}

#[test]
fn spans_are_longer_than_times() {
    let mtbf = Span::parse("2111.5d").unwrap();
    assert_eq!(mtbf, Span::from_secs(182_433_600));
    assert_eq!(mtbf.to_string(), "2111.5d");
    assert!(Time::parse("2111.5d").is_err());
    assert_eq!(Span::from(Time::from_picos(1001)), Span::from_nanos(2));
    assert_eq!(Span::from_seconds(-1.0), Span::ZERO);
    assert_eq!(Span::from_seconds(1e30), Span::MAX);
}

#[test]
fn nonsense_is_an_error_that_says_what_to_write() {
    let cases = [
        ("", "does not start with a number"),
        ("-3MiB", "it is negative"),
        ("3", "it has no unit (one of B KB"),
        ("3 furlongs", "the unit `furlongs` is unknown"),
        ("1.2.3MiB", "does not start with a number"),
        ("1.MiB", "does not start with a number"),
        ("20EiB", "the unit `EiB` is unknown"),
        ("99999999TiB", "too large"),
        ("0.3B", "not a whole number of bytes"),
        ("1e9B", "the unit `e9B` is unknown"),
        ("NaN", "does not start with a number"),
    ];
    for (text, expected) in cases {
        let error = Bytes::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(
        Bandwidth::parse("99999999TB/s")
            .unwrap_err()
            .to_string()
            .contains("too large")
    );
    assert!(
        Bandwidth::parse("3b/s")
            .unwrap_err()
            .to_string()
            .contains("whole number of bytes per second")
    );
    assert!(
        Time::parse("0.5ps")
            .unwrap_err()
            .to_string()
            .contains("whole number of picoseconds")
    );
}

#[test]
fn a_megabyte_at_fifty_gigabytes_a_second_takes_twenty_microseconds() {
    // formulas.md P1 without its alpha: 1 MiB at 50 GB/s = 20.97152 us.
    let time = Bandwidth::from_gb_per_sec(50).time_for(Bytes::from_mib(1));
    assert_eq!(time, Time::parse("20.97152us").unwrap());
    assert_eq!(
        Bandwidth::of(Bytes::from_mib(1), time),
        Bandwidth::from_gb_per_sec(50)
    );
}

#[test]
fn times_for_people_have_three_digits() {
    for (ps, text) in [
        (0, "0 us"),
        (999, "999 ps"),
        (31_416_000, "31.4 us"),
        (5_067_550_000, "5.07 ms"),
    ] {
        assert_eq!(Time::from_picos(ps).human(), text);
    }
}

proptest! {
    #[test]
    fn printing_and_reading_is_the_identity(value in any::<u64>()) {
        prop_assert_eq!(Bytes::parse(&Bytes::new(value).to_string()), Ok(Bytes::new(value)));
        let rate = Bandwidth::from_bytes_per_sec(value);
        prop_assert_eq!(Bandwidth::parse(&rate.to_string()), Ok(rate));
        prop_assert_eq!(Time::parse(&Time::from_picos(value).to_string()), Ok(Time::from_picos(value)));
        prop_assert_eq!(Span::parse(&Span::from_nanos(value).to_string()), Ok(Span::from_nanos(value)));
    }

    #[test]
    fn reading_anything_never_panics(text in "\\PC{0,24}") {
        let _ = (Bytes::parse(&text), Bytes::parse_flag(&text), Bandwidth::parse(&text), Time::parse(&text));
    }
}

#[test]
fn powers_and_prices_are_exact() {
    for (text, milliwatts) in [("700W", 700_000), ("10.2kW", 10_200_000), ("0.1 W", 100)] {
        let power = Power::parse(text).unwrap();
        assert_eq!(power.watts(), f64::from(milliwatts) / 1e3, "{text}");
        assert_eq!(Power::parse(&power.to_string()), Ok(power), "{text}");
    }
    for (text, shown) in [
        ("36000USD", "36000USD"),
        ("2.690 USD", "2.69USD"),
        ("0.000001USD", "0.000001USD"),
        ("0USD", "0USD"),
    ] {
        let price = Money::parse(text).unwrap();
        assert_eq!(price.to_string(), shown);
        assert_eq!(Money::parse(shown), Ok(price));
    }
    assert_eq!(Money::from_dollars(3).dollars(), 3.0);
    assert_eq!(Power::from_watts(1500).to_string(), "1.5kW");
}

#[test]
fn what_is_no_power_and_no_price_is_told() {
    let said = Power::parse("700").unwrap_err().to_string();
    assert!(said.contains("no unit (one of mW W kW MW)"), "{said}");
    let said = Money::parse("$5").unwrap_err().to_string();
    assert!(said.contains("36000USD"), "{said}");
    assert!(Money::parse("-1USD").is_err());
    assert!(Money::parse("0.0000001USD").is_err());
    assert_eq!(
        Power::from_watts(u64::MAX).saturating_add(Power::from_watts(1)),
        Power::from_watts(u64::MAX)
    );
}
