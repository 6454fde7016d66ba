use std::ffi::OsString;

use tw_runtime::telemetry::{SampledRoots, TraceSampler};

use super::super::environment::Environment;
use super::{TelemetrySettings, WrittenTelemetry};

fn read(table: &str, variables: &[(&str, &str)]) -> anyhow::Result<Option<WrittenTelemetry>> {
    let mut all: toml::Table = super::super::DEFAULTS.parse().unwrap();
    let mut own: toml::Table = all.remove("telemetry").unwrap().try_into().unwrap();
    own.extend(table.parse::<toml::Table>().unwrap());
    let settings: TelemetrySettings = own.try_into().unwrap();
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    settings.read(&Environment::of(variables))
}

#[test]
fn nothing_is_traced_unless_somebody_says_where_to() {
    for (table, variables) in [
        ("", &[][..]),
        ("sampler = 'always_on'", &[("OTEL_SERVICE_NAME", "a")]),
        (
            "endpoint = 'http://c:4318'",
            &[("OTEL_SDK_DISABLED", "true")],
        ),
        (
            "endpoint = 'http://c:4318'",
            &[("OTEL_TRACES_EXPORTER", "none")],
        ),
    ] {
        assert!(
            read(table, variables).unwrap().is_none(),
            "{table} {variables:?}"
        );
    }
}

#[test]
fn where_traces_go() {
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    for (table, variables, expected) in [
        (
            "endpoint = 'http://c:4318'",
            &[][..],
            "http://c:4318/v1/traces",
        ),
        (
            "endpoint = 'https://c/otlp/'",
            &[],
            "https://c/otlp/v1/traces",
        ),
        (
            "endpoint = 'http://c'",
            &[(BASE, "http://[::1]:1")],
            "http://[::1]:1/v1/traces",
        ),
        (
            "",
            &[
                (BASE, "http://c"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://d/in?x=1"),
            ],
            "https://d/in?x=1",
        ),
    ] {
        assert_eq!(read(table, variables).unwrap().unwrap().url, expected);
    }
}

#[test]
fn the_standard_variables_count_more_than_the_table() {
    let table =
        "endpoint = 'http://c'\nservice_name = 'here'\nsampler = 'always_off'\ntimeout_ms = 5";
    let written = read(table, &[]).unwrap().unwrap();
    assert_eq!(
        written.config.resource.0[0],
        ("service.name".to_owned(), "here".to_owned())
    );
    assert_eq!(written.config.sampler.roots, SampledRoots::None);
    assert_eq!(written.timeout.as_millis(), 5);
    let written = read(
        table,
        &[
            ("OTEL_SERVICE_NAME", "there"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=a%2Cb, service.name=no",
            ),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20k,x-a=1",
            ),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-A=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "9"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ],
    );
    let written = written.unwrap().unwrap();
    let shown: Vec<String> = written
        .config
        .resource
        .0
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(shown[0], "service.name=there");
    assert_eq!(shown[1], "deployment.environment.name=a,b");
    let expected = TraceSampler {
        follows_parent: true,
        roots: SampledRoots::Ratio(0.25),
    };
    assert_eq!(written.config.sampler, expected);
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [header("authorization", "Bearer k"), header("X-A", "2")];
    assert_eq!(written.headers, headers);
    assert_eq!(written.timeout.as_millis(), 7);
    assert_eq!(written.config.queue_spans_max, 9);
    assert!(written.config.contents);
}

#[test]
fn what_is_wrong_is_named_and_not_shown() {
    const SECRET: &str = "sk-4711";
    for (table, variables, expected) in [
        ("endpoint = 'sk-4711'", &[][..], "telemetry.endpoint"),
        ("endpoint = 'ftp://sk-4711'", &[], "telemetry.endpoint"),
        (
            "endpoint = 'http://c'\nsampler = 'sk-4711'",
            &[],
            "telemetry.sampler",
        ),
        ("endpoint = 'http://c'\nsampler_ratio = 2.0", &[], "ratio"),
        (
            "endpoint = 'http://c'\nqueue_spans_max = 0",
            &[],
            "queue_spans_max",
        ),
        (
            "",
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "sk-4711")],
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            "",
            &[("OTEL_TRACES_EXPORTER", "sk-4711")],
            "OTEL_TRACES_EXPORTER",
        ),
        (
            "endpoint = 'http://c'",
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ),
        (
            "endpoint = 'http://c'",
            &[("OTEL_EXPORTER_OTLP_HEADERS", "sk-4711")],
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            "endpoint = 'http://c'",
            &[("OTEL_EXPORTER_OTLP_HEADERS", "a b=sk-4711")],
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            "endpoint = 'http://c'",
            &[("OTEL_BSP_SCHEDULE_DELAY", "sk-4711")],
            "OTEL_BSP_SCHEDULE_DELAY",
        ),
        (
            "endpoint = 'http://c'",
            &[("OTEL_TRACES_SAMPLER_ARG", "sk-4711")],
            "ratio",
        ),
    ] {
        let error = format!("{:#}", read(table, variables).unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains(SECRET), "{error}");
    }
}
