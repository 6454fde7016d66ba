mod misplaced;
mod money;
mod quota;
mod reference;
mod zeros;

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU32;

use tw_core::accepts::{
    Accepts, AddressRule, FieldRule, ReasoningSent, SchemaDialect, StrictTools, SystemRole,
    TokenLimit,
};
use tw_core::call_ids::CallIdRule;
use tw_core::limits::{RequestLimits, TurnLimits};

use tw_egress::client::host_port::HostPort;
use tw_runtime::limiter::{STREAMS_DEFAULT, TURNS_DEFAULT};
use tw_runtime::runtime::{MODELS_KEPT_DEFAULT, RESULTS_BYTES_DEFAULT, TOOLS_STORED_DEFAULT};
use tw_wire::native_words;

use super::Settings;
use super::environment::Environment;
use crate::cli::{ServeArgs, StoreArgs};
use crate::database::DatabasePlace;

fn load(text: &str) -> anyhow::Result<Settings> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Settings::load(&ServeArgs {
        listen: None,
        metrics_listen: None,
        take_over: false,
        data: None,
        store: StoreArgs::default(),
        config: Some(file.path().to_owned()),
    })
}

#[test]
fn the_written_defaults_are_the_defaults_of_the_code() {
    let settings = load("").unwrap();
    assert_eq!(settings.limits.turn(), TurnLimits::defaults());
    assert_eq!(settings.limits.request(), RequestLimits::defaults());
    assert_eq!(settings.limits.tools_stored_max, TOOLS_STORED_DEFAULT);
    assert_eq!(settings.cache.bytes_max, RESULTS_BYTES_DEFAULT);
    let models = std::time::Duration::from_secs(settings.cache.models_s);
    assert_eq!(models, MODELS_KEPT_DEFAULT);
    assert_eq!(settings.server.turns_max, TURNS_DEFAULT);
    assert_eq!(settings.server.streams_max, STREAMS_DEFAULT);
    for limits in [settings.rate.key(), settings.rate.organization()] {
        assert_eq!(limits.requests_per_minute(), None);
        assert_eq!(limits.concurrency_max(), None);
        assert_eq!(limits.streams_max(), None);
    }
}

#[test]
fn limits_are_of_keys_of_organizations_and_of_one_of_them() {
    let text = "[rate.key]\nconcurrency_max = 4\n
        [rate.organization]\nstreams_max = 5\n
        [rate.organizations.acme]\nrequests_per_minute = 6\n";
    let settings = load(text).unwrap();
    let max = |max| NonZeroU32::new(max);
    assert_eq!(settings.rate.key().concurrency_max(), max(4));
    assert_eq!(settings.rate.organization().streams_max(), max(5));
    let acme = settings.rate.organizations().unwrap()["acme"];
    let acme = acme.or(settings.rate.organization());
    assert_eq!(acme.requests_per_minute(), max(6));
    assert_eq!(acme.streams_max(), max(5));
}

#[test]
fn a_file_changes_what_it_names_and_nothing_else() {
    let settings = load("[limits]\nrounds_max = 3\n").unwrap();
    assert_eq!(
        settings.limits.turn(),
        TurnLimits {
            rounds_max: 3,
            ..TurnLimits::defaults()
        }
    );
}

#[test]
fn what_is_not_known_is_an_error_that_names_it() {
    for (text, named) in [
        ("[limits]\nround_max = 3\n", "round_max"),
        ("[sever]\nlisten = \"x\"\n", "sever"),
        ("[server]\nlisten = \"nowhere\"\n", "listen"),
        ("[cache]\nbytes = 3\n", "bytes"),
        ("[egress]\nallowed = []\n", "allowed"),
        ("[[egress.allow]]\nhost = \"a:1\"\n", "host"),
        (
            "[[egress.allow]]\nplace = \"a:1\"\norganization = \"x\"\n",
            "organization",
        ),
        ("[rate.keys]\nstreams_max = 1\n", "keys"),
        ("[rate.key]\nstreams = 1\n", "streams"),
        ("[rate.key]\nstreams_max = -1\n", "rate.key.streams_max"),
        ("[rate.organizations.\"A b\"]\n", "A b"),
        ("[secret.KEY]\nvalue = \"v\"\n", "secret"),
        ("[secrets.KEY]\nvalues = \"v\"\n", "values"),
        (
            "[server]\nnats_url = \"nats://canary@127.0.0.1/x\"\n",
            "server.nats_url: must be a URL as nats://",
        ),
        (
            "[server]\nnats_url = \"ws://canary@127.0.0.1\"\n",
            "server.nats_url: must be a URL of nats://",
        ),
        (
            "[server]\nnats_url = \"nats://canary@a,nats://b:canary@c\"\n",
            "server.nats_url: names several users",
        ),
    ] {
        let error = format!("{:#}", load(text).unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
        assert!(!error.contains("canary"), "{text}: {error}");
    }
}

/// Other programs read the variable as well, and may mean another way to NATS.
#[test]
fn nats_url_is_read_where_servers_share_a_record() {
    let named = "[server]\nnats_url = \"nats://named\"\n";
    let of_variable = "[nats://v:4222]";
    let of_settings = "[nats://named]";
    for (text, variable, on_server, in_folder) in [
        ("", "", Ok(None), None),
        ("", "nats://v:4222", Ok(Some(of_variable)), None),
        ("", "v:4222", Ok(Some(of_variable)), None),
        (named, "v:4222", Ok(Some(of_variable)), Some(of_settings)),
        (named, "", Ok(Some(of_settings)), Some(of_settings)),
        ("", "wss://v:443", Ok(None), None),
        (
            named,
            "wss://v:443",
            Ok(Some(of_settings)),
            Some(of_settings),
        ),
        ("", "nats://canary@v/x", Err("the variable NATS_URL"), None),
        (
            "",
            "tls://canary@v,nats://w",
            Err("the variable NATS_URL"),
            None,
        ),
    ] {
        let settings = load(text).unwrap();
        let environment = Environment::of([("NATS_URL".into(), variable.into())]);
        let url = "postgres://127.0.0.1/none";
        let server = DatabasePlace::named(url, &settings).unwrap();
        let folder = DatabasePlace::Folder("data".into());
        let read = |place| {
            let servers = settings.nats_servers(place, &environment);
            servers.map(|servers| servers.map(|servers| format!("{servers:?}").replace('"', "")))
        };
        match (read(&server), on_server) {
            (Ok(found), Ok(wanted)) => assert_eq!(found.as_deref(), wanted, "{variable}"),
            (Err(error), Err(wanted)) => {
                let error = format!("{error:#}");
                assert!(error.contains(wanted), "{error}");
                assert!(!error.contains("canary"), "{error}");
            }
            (found, _) => panic!("{variable}: {found:?}"),
        }
        assert_eq!(read(&folder).unwrap().as_deref(), in_folder, "{variable}");
    }
}

#[test]
fn an_upstream_that_cannot_be_used_is_refused_by_name() {
    for (text, named) in [
        ("kind = \"opanai\"", "'kind'"),
        ("kind = \"scripted\"", "script"),
        ("kind = \"openai\"\nsystem_role = \"user\"", "system_role"),
        (
            "kind = \"openai\"\ncompletion_tokens_field = \"n\"",
            "completion_tokens_field",
        ),
        ("kind = \"openai\"\nstrict_tools = \"yes\"", "strict_tools"),
        (
            "kind = \"openai\"\nschema_dialect = \"gemini\"",
            "json_schema, openapi",
        ),
        (
            "kind = \"openai\"\nreasoning_field = \"thoughts\"",
            "reasoning_field",
        ),
        ("kind = \"openai\"\nfields = { model = false }", "'model'"),
        (
            "kind = \"openai\"\nfields = { seed = \"messages\" }",
            "'messages'",
        ),
        ("kind = \"azure\"", "base_url"),
        (
            "kind = \"azure\"\nbase_url = \"https://r.example.com/openai/v1/\"",
            "/openai",
        ),
        (
            "kind = \"azure\"\nbase_url = \"https://r.example.com/openai\"",
            "/openai",
        ),
        (
            "kind = \"azure\"\nbase_url = \"https://r.example.com\"\napi_version = \"a&b\"",
            "api_version",
        ),
        (
            "kind = \"openai\"\napi_version = \"2024-10-21\"",
            "api_version",
        ),
        (
            "kind = \"openai\"\nbase_url = \"localhost:1/v1\"",
            "'base_url' is no address",
        ),
        (
            "kind = \"openai\"\nbase_url = \"https://u:k@example.com/v1\"",
            "api_key_env",
        ),
        (
            "kind = \"openai\"\nbase_url = \"https://example.com/v1?key=k\"",
            "end with its path",
        ),
        (
            "kind = \"openai\"\nbase_url = \"https://example.com/…\"",
            "'base_url' holds '…'",
        ),
        (
            "kind = \"openai\"\nbase_url = \"https://example.com/v 1\"",
            "'base_url' holds a space at its character 22",
        ),
        (
            "kind = \"openai\"\napi_key_env = \"TURNWRIGHT_NO_SUCH_VARIABLE\"",
            "TURNWRIGHT_NO_SUCH_VARIABLE",
        ),
        ("kind = \"openai\"\nmodels = [\"gpt-*\", \"\"]", "models"),
        ("kind = \"openai\"\naliases = { \"\" = \"m\" }", "aliases"),
        ("kind = \"openai\"\naliases = { fast = \"\" }", "fast"),
        ("kind = \"openai\"\naliases = { fast = \"gpt-*\" }", "fast"),
    ] {
        let settings = load(&format!("[[upstream]]\nname = \"u\"\n{text}\n")).unwrap();
        let error = format!("{:#}", settings.runtime().unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn an_upstream_needs_a_name_of_its_own() {
    let entry = |name: &str| format!("[[upstream]]\nname = {name:?}\nkind = \"openai\"\n");
    for (text, named) in [
        (
            entry("a") + &entry("b") + &entry("a"),
            "upstream[2]: an earlier one has this name",
        ),
        (entry(""), "from 1 to 64"),
        (entry(&"n".repeat(65)), "from 1 to 64"),
    ] {
        let settings = load(&text).unwrap();
        let error = format!("{:#}", settings.runtime().unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn upstreams_are_asked_in_the_order_of_the_file() {
    let text = "[[upstream]]\nname = \"b\"\nkind = \"openai\"\nmodels = [\"gpt-*\"]\n\
                aliases = { fast = \"gpt-4o-mini\" }\nconnect_s = 1\n\
                [[upstream]]\nname = \"a\"\nkind = \"openai\"\nask_usage = false\n";
    let upstreams = load(text).unwrap().runtime().unwrap().upstreams;
    assert_eq!(upstreams[0].name, "b");
    assert_eq!(upstreams[0].timeouts.connect.as_secs(), 1);
    assert_eq!(upstreams[0].models.sent("fast"), "gpt-4o-mini");
    assert!(upstreams[0].models.serves("gpt-5") && !upstreams[0].models.serves("o3"));
    assert!(upstreams[0].accepts.usage_in_streams);
    assert_eq!(upstreams[1].name, "a");
    assert!(upstreams[1].models.serves("o3"));
    assert!(!upstreams[1].accepts.usage_in_streams);
}

#[test]
fn how_an_upstream_differs_is_read_and_nothing_differs_unless_it_says_so() {
    let entry = "[[upstream]]\nname = \"u\"\nkind = \"openai\"\n";
    let accepts = |more: &str| {
        let settings = load(&format!("{entry}{more}")).unwrap();
        settings.runtime().unwrap().upstreams[0].accepts.clone()
    };
    assert_eq!(accepts(""), Accepts::everything());
    let all = "system_role = \"developer\"\ncompletion_tokens_field = \"max_tokens\"\n\
               images_in_tool_results = false\npart_addresses = \"downloaded\"\nstrict_tools = \"where_it_fits\"\n\
               schema_dialect = \"openapi\"\nreasoning_field = \"thinking\"\ncall_ids = \"nine_letters\"\nask_usage = false\n\
               fields = { user = false, metadata = true, seed = \"random_seed\" }\n";
    let expected = Accepts {
        usage_in_streams: false,
        system_role: SystemRole::Developer,
        token_limit: TokenLimit::MaxTokens,
        images_in_results: false,
        addresses: AddressRule::Downloaded,
        strict: StrictTools::WhereItFits,
        schemas: SchemaDialect::OpenApi,
        reasoning: ReasoningSent::Field(native_words::place("thinking").unwrap()),
        call_ids: CallIdRule::NineLetters,
        unknown_call_ids: CallIdRule::AsSent,
        fields: BTreeMap::from([
            ("user".into(), FieldRule::LeftOut),
            ("metadata".into(), FieldRule::Sent),
            ("seed".into(), FieldRule::Renamed("random_seed".into())),
        ]),
    };
    assert_eq!(accepts(all), expected);
}

/// The provider's host, and the fields that are left out for it.
#[test]
fn a_provider_is_known_by_its_host() {
    let all = ["metadata", "safety_identifier", "store", "user"];
    for (host, expected) in [
        ("api.mistral.ai", &all[..]),
        ("codestral.mistral.ai:443", &all),
        ("generativelanguage.googleapis.com", &all),
        ("api.groq.com", &all[..3]),
        ("api.openai.com", &[]),
        ("notmistral.ai", &[]),
        ("mistral.ai.example.com", &[]),
        ("127.0.0.1:8080", &[]),
    ] {
        let url = format!("https://{host}/v1");
        let left_out = |settings: &Settings| -> Vec<String> {
            let fields = settings.runtime().unwrap().upstreams[0]
                .accepts
                .fields
                .clone();
            let left_out = fields
                .into_iter()
                .filter(|(_, rule)| *rule == FieldRule::LeftOut);
            left_out.map(|(name, _)| name.into()).collect()
        };
        let entry =
            format!("[[upstream]]\nname = \"u\"\nkind = \"openai\"\nbase_url = \"{url}\"\n");
        let settings = load(&entry).unwrap();
        assert_eq!(left_out(&settings), expected, "{host}");
        let settings = load(&format!("{entry}fields = {{ store = true }}\n")).unwrap();
        let but_store: Vec<&str> = expected
            .iter()
            .copied()
            .filter(|name| *name != "store")
            .collect();
        assert_eq!(left_out(&settings), but_store, "{host}");
    }
}

#[test]
fn an_entry_that_lets_nobody_anywhere_is_refused() {
    for (entry, named) in [
        ("place = \"10.0.0.7\"", "HOST:PORT"),
        ("place = \"http://10.0.0.7:80\"", "the host of a place"),
        ("place = \"*.example.com:443\"", "the host of a place"),
        ("place = \"a:1\"\norganizations = []", "organizations"),
        (
            "place = \"a:1\"\norganizations = [\"Acme\"]",
            "'organizations'",
        ),
    ] {
        let text = format!("[[egress.allow]]\nplace = \"b:1\"\n[[egress.allow]]\n{entry}\n");
        let error = format!("{:#}", load(&text).unwrap_err());
        assert!(error.contains(named), "{entry}: {error}");
        assert!(error.contains("egress.allow[1]"), "{entry}: {error}");
    }
}

#[test]
fn a_secret_is_granted_to_hosts_as_they_are_compared() {
    for host in [
        "https://api.example.com",
        "api.example.com/v1",
        "*.example.com",
        "10.0.0.0/8",
        "api.example.com:0",
        "api.example.com:443",
        "api.example.com:https",
        "::1",
        " api.example.com",
        "",
    ] {
        let text = format!("[secrets.KEY]\nvalue = \"canary-4711\"\nhosts = [{host:?}]");
        let error = format!("{:#}", load(&text).unwrap_err());
        let named = error.contains("KEY") && error.contains("hosts[0]");
        assert!(named, "{host}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn a_place_without_organizations_is_for_the_default_one() {
    let text = "[[egress.allow]]\nplace = \"10.0.0.0/8:80\"\n\
                [[egress.allow]]\nplace = \"b:1\"\norganizations = [\"acme\"]\n";
    let allowed = load(text).unwrap().egress.allowed().unwrap();
    let places = allowed.iter().map(|entry| entry.place.clone());
    assert!(places.eq(["10.0.0.0/8:80", "b:1"].map(|place| HostPort::parse(place).unwrap())));
    let organizations: Vec<_> = allowed.iter().map(|entry| &entry.organizations).collect();
    assert_eq!(organizations, [&["default"], &["acme"]]);
}

#[test]
fn a_file_that_is_no_toml_is_refused_by_its_line_and_not_shown() {
    for text in [
        "[secrets.K]\nvalue = canary-4711\n",
        "[secrets.K]\nvalue = \"canary-4711\n",
        "[secrets.K]\nvalue \"canary-4711\"\n",
        "[secrets.K]\nvalue = \"canary-4711\" \"canary-4711\"\n",
        "[secrets.K]\nvalue = \"\\canary-4711\"\n",
    ] {
        let error = format!("{:#}", load(text).unwrap_err());
        assert!(error.contains("line 2: "), "{text}: {error}");
        assert!(!error.contains("canary"), "{text}: {error}");
    }
}

#[test]
fn no_secret_is_in_what_debugging_prints() {
    let settings = load("[secrets.K]\nvalue = \"canary-4711\"\n").unwrap();
    let printed = format!("{settings:?}");
    assert!(printed.contains("secrets: [\"K\"]"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
}

#[test]
fn times_beyond_any_clock_are_refused_wherever_they_stand() {
    for (text, path) in [
        (
            "[server]\nkeep_alive_s = 9223372036854775807",
            "server.keep_alive_s",
        ),
        (
            "[server]\nhead_timeout_s = 315360001",
            "server.head_timeout_s",
        ),
        ("[record]\nevents_kept_h = 87601", "record.events_kept_h"),
        (
            "[limits]\nmodel_backoff_ms = 315360000001",
            "limits.model_backoff_ms",
        ),
        (
            "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nidle_s = 9223372036854775807",
            "upstream[0].idle_s",
        ),
    ] {
        let error = format!("{:#}", load(text).unwrap_err());
        assert!(
            error.contains(&format!(": {path} may be at most ")),
            "{error}"
        );
    }
    load("[server]\nhead_timeout_s = 315360000\n[limits]\nbody_bytes_max = 9223372036854775807")
        .unwrap();
}

#[test]
fn headers_that_name_the_end_user_are_read_and_refused_by_place() {
    let headers = |text: &str| {
        let settings = load(&format!("[server]\nend_user_headers = {text}")).unwrap();
        settings
            .surfaces()
            .map(|surfaces| surfaces.end_user_headers)
    };
    let defaults = load("").unwrap().surfaces().unwrap().end_user_headers;
    assert_eq!(
        defaults,
        tw_http::server::SurfaceOptions::defaults().end_user_headers
    );
    assert_eq!(headers("[]").unwrap(), [""; 0]);
    let two = headers("[\"X-OpenWebUI-User-Id\", \"turnwright-user\"]");
    assert_eq!(two.unwrap(), ["x-openwebui-user-id", "turnwright-user"]);
    for (text, told) in [
        ("[\"canary 4711\"]", "server.end_user_headers[0] is no name"),
        (
            "[\"x-user\", \"\"]",
            "server.end_user_headers[1] is no name",
        ),
        (
            "[\"Authorization\"]",
            "server.end_user_headers[0]: authorization",
        ),
        (
            "[\"x-user\", \"X-User\"]",
            "server.end_user_headers[1] stands there twice",
        ),
    ] {
        let error = format!("{:#}", headers(text).unwrap_err());
        assert!(error.contains(told) && !error.contains("canary"), "{error}");
    }
}
