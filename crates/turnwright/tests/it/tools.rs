//! `turnwright tools`

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::slice::from_ref;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};
use tw_testkit::polling::poll_at_most;

use crate::process::{SECRET, ServerProcess, create_key, key_of, serve, stderr, turnwright};

/// What `tools list` begins with.
const BUILT_IN_ROWS: [&str; 2] = ["time_now built_in - read -", "calculate built_in - read -"];

/// A data folder that is not there yet, and files beside it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, name: &str, text: impl ToString) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    fn apply(&self, file: &Path, flags: &[&str]) -> Output {
        let mut command = turnwright();
        command.args(["tools", "apply"]).arg(file);
        command.arg("--data").arg(self.data());
        command.args(flags).output().unwrap()
    }

    /// Applies tools that are right, and returns what was printed.
    fn applied(&self, tools: &[Value], flags: &[&str]) -> String {
        printed(&self.apply(&self.write("tools.json", json!(tools)), flags))
    }

    /// The lines of `tools list`, each with one space between its columns.
    fn list(&self, flags: &[&str]) -> Vec<String> {
        let mut command = turnwright();
        command.args(["tools", "list", "--data"]).arg(self.data());
        let text = printed(&command.args(flags).output().unwrap());
        let columns = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = text.lines().skip(1).map(columns).collect();
        let own = rows.split_off(BUILT_IN_ROWS.len());
        assert_eq!(rows, BUILT_IN_ROWS);
        own
    }
}

/// Makes a key for a tool that is not there yet.
const TICKETS_LATER: [&str; 3] = ["--tools", "create_ticket", "--allow-unknown-tools"];

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    assert_eq!(stderr(output), "");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What was said by a command that refused.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert!(output.stdout.is_empty());
    stderr(output)
}

fn ticket() -> Value {
    json!({
        "name": "create_ticket",
        "label": "Create a ticket",
        "description": "Opens a ticket.",
        "type": "api_request",
        "method": "POST",
        "url": "https://tickets.example/v1/tickets",
        "parameters": { "title": { "mode": "ai", "schema": { "type": "string" } } },
    })
}

fn weather() -> Value {
    json!({
        "name": "weather",
        "description": "Tells the weather.",
        "type": "api_request",
        "url": "https://weather.example/v1/{city}",
        "parameters": { "city": { "mode": "ai", "schema": { "type": "string" } } },
    })
}

fn with(mut tool: Value, member: &str, value: Value) -> Value {
    tool[member] = value;
    tool
}

const TICKET_ROW: &str = "create_ticket api_request 1 once Create a ticket";
const WEATHER_ROW: &str = "weather api_request 1 read weather";

#[test]
fn tools_are_made_once_changed_and_removed_only_when_told() {
    let place = Place::new();
    let both = [weather(), ticket()];
    assert_eq!(place.applied(&both, &[]), "+ weather\n+ create_ticket\n");
    assert_eq!(place.list(&[]), [TICKET_ROW, WEATHER_ROW]);
    assert_eq!(place.applied(&both, &[]), "= weather\n= create_ticket\n");
    assert_eq!(place.list(&[]), [TICKET_ROW, WEATHER_ROW]);

    let changed = with(ticket(), "label", json!("Open one"));
    let told = place.applied(from_ref(&changed), &[]);
    let (first, rest) = told.split_once('\n').unwrap();
    assert_eq!(first, "~ create_ticket (version 2)");
    let differs: Vec<&str> = rest
        .lines()
        .filter(|line| line.starts_with("    -") || line.starts_with("    +"))
        .collect();
    assert_eq!(
        differs,
        [
            "    -  \"label\": \"Create a ticket\",",
            "    +  \"label\": \"Open one\","
        ]
    );
    let row = "create_ticket api_request 2 once Open one";
    assert_eq!(place.list(&[]), [row, WEATHER_ROW]);

    assert_eq!(
        place.applied(&[changed], &["--prune"]),
        "= create_ticket\n- weather\n"
    );
    assert_eq!(place.list(&[]), [row]);
    // A removed tool's name is free again.
    assert_eq!(place.applied(&[weather()], &[]), "+ weather\n");
    assert_eq!(place.list(&[]), [row, WEATHER_ROW]);
    assert_eq!(
        place.applied(&[], &["--prune"]),
        "- create_ticket\n- weather\n"
    );
    assert!(place.list(&[]).is_empty());
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let place = Place::new();
    assert_eq!(place.applied(&[weather()], &["--dry-run"]), "+ weather\n");
    assert!(!place.data().exists());
    // With a database, but without the organization.
    key_of(&create_key(&place.data(), &["--organization", "acme"]));
    assert_eq!(place.applied(&[weather()], &["--dry-run"]), "+ weather\n");
    assert!(place.list(&[]).is_empty());

    place.applied(&[weather(), ticket()], &[]);
    let changed = [with(ticket(), "label", json!("Open one"))];
    let told = place.applied(&changed, &["--dry-run", "--prune"]);
    assert!(told.starts_with("~ create_ticket (version 2)\n"), "{told}");
    assert!(told.ends_with("\n- weather\n"), "{told}");
    assert_eq!(place.list(&[]), [TICKET_ROW, WEATHER_ROW]);
    assert_eq!(place.applied(&changed, &["--prune"]), told);
}

#[test]
fn json_toml_and_standard_input_are_one() {
    let place = Place::new();
    let toml = r#"
        [[tool]]
        name = "weather"
        description = "Tells the weather."
        type = "api_request"
        url = "https://weather.example/v1/{city}"

        [tool.parameters.city]
        mode = "ai"
        schema = { type = "string" }
    "#;
    let file = place.write("tools.toml", toml);
    assert_eq!(printed(&place.apply(&file, &[])), "+ weather\n");
    assert_eq!(place.applied(&[weather()], &[]), "= weather\n");

    let mut command = turnwright();
    command.args(["tools", "apply", "-", "--data"]);
    command.arg(place.data()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let tools = json!([weather(), ticket()]).to_string();
    stdin.write_all(tools.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(printed(&output), "= weather\n+ create_ticket\n");
}

#[test]
fn a_bad_file_is_refused_by_the_field_and_writes_nothing() {
    let place = Place::new();
    let in_json = |bad: Value| ("tools.json", json!([weather(), ticket(), bad]).to_string());
    let cases = [
        (
            in_json(with(ticket(), "name", json!("weather"))),
            "tools.json: [2].name: ",
        ),
        (
            in_json(with(ticket(), "name", json!("calculate"))),
            "tools.json: [2] calculate: name: ",
        ),
        (
            in_json(json!({
                "name": "bad", "description": "", "type": "api_request",
                "url": "https://a.example/",
                "parameters": { "x": { "mode": "ai", "schema": { "type": "strnig" } } },
            })),
            "tools.json: [2] bad: parameters.x.schema: ",
        ),
        (
            in_json(json!({ "name": "bad", "colour": "red" })),
            "tools.json: bad.colour: ",
        ),
        (
            in_json(json!({
                "name": "bad", "description": "", "type": "api_request",
                "url": "https://127.0.0.1/v1",
            })),
            "tools.json: [2] bad: url: ",
        ),
        (("tools.json", "[".to_owned()), "tools.json: "),
        (("tools.json", "{}".to_owned()), "tools.json: "),
        (
            (
                "tools.toml",
                "[[tool]]\nname = \"x\"\nname = 1\n".to_owned(),
            ),
            "tools.toml: ",
        ),
        (("tools.yaml", "[]".to_owned()), "tools.yaml: "),
    ];
    for ((name, text), named) in &cases {
        let said = refused(&place.apply(&place.write(name, text), &[]));
        assert!(said.contains(named), "{text}: {said}");
        assert!(!place.data().exists(), "{text}");
    }
    // Nor is anything changed or removed where there are tools already.
    place.applied(&[ticket()], &[]);
    for ((name, text), named) in &cases {
        let said = refused(&place.apply(&place.write(name, text), &["--prune"]));
        assert!(said.contains(named), "{text}: {said}");
        assert_eq!(place.list(&[]), [TICKET_ROW], "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let place = Place::new();
    let file = place.folder.path().join("none.json");
    let said = refused(&place.apply(&file, &[]));
    assert!(said.contains("none.json"), "{said}");
    let file = place.write("tools.json", json!([weather()]));
    for (flags, named) in [
        (["--organization", "Acme"], "Acme"),
        (["--organization", "acme"], "\"acme\""),
        (["--config", "none.toml"], "none.toml"),
    ] {
        let said = refused(&place.apply(&file, &flags));
        assert!(said.contains(named), "{said}");
        assert!(!place.data().exists(), "{flags:?}");
    }
    let mut command = turnwright();
    command.args(["tools", "list", "--data"]).arg(place.data());
    let said = refused(&command.output().unwrap());
    assert!(said.contains(place.data().to_str().unwrap()), "{said}");
    assert!(!place.data().exists());
}

#[test]
fn tools_are_of_one_organization() {
    let place = Place::new();
    key_of(&create_key(&place.data(), &["--organization", "acme"]));
    place.applied(&[weather()], &[]);
    let acme = ["--organization", "acme"];
    assert!(place.list(&acme).is_empty());
    assert_eq!(
        place.applied(&[ticket()], &["--organization", "acme", "--prune"]),
        "+ create_ticket\n"
    );
    assert_eq!(place.list(&acme), [TICKET_ROW]);
    assert_eq!(place.list(&[]), [WEATHER_ROW]);
}

#[test]
fn an_organization_keeps_no_more_tools_than_it_may() {
    let place = Place::new();
    let config = place.write("turnwright.toml", "[limits]\ntools_stored_max = 1\n");
    let flags = ["--config", config.to_str().unwrap()];
    let file = place.write("both.json", json!([weather(), ticket()]));
    let said = refused(&place.apply(&file, &flags));
    assert!(said.contains("1 tools"), "{said}");
    assert_eq!(place.applied(&[weather()], &flags), "+ weather\n");
    refused(&place.apply(&file, &flags));
    assert_eq!(place.list(&[]), [WEATHER_ROW]);
    // One in the place of another is no more.
    assert_eq!(
        place.applied(&[ticket()], &[flags[0], flags[1], "--prune"]),
        "+ create_ticket\n- weather\n"
    );
}

#[test]
fn the_folder_may_stand_in_the_config() {
    let place = Place::new();
    let data = place.data();
    let config = place.write("turnwright.toml", format!("[server]\ndata = {data:?}\n"));
    let file = place.write("tools.json", json!([weather()]));
    let mut command = turnwright();
    command.args(["tools", "apply"]).arg(file);
    command.arg("--config").arg(config);
    let output = command.current_dir(place.folder.path()).output().unwrap();
    assert_eq!(printed(&output), "+ weather\n");
    assert_eq!(place.list(&[]), [WEATHER_ROW]);
}

const CANARY: &str = "canary-of-the-operator-4711";

fn with_secret(host: &str, name: &str) -> Value {
    let tool = with(ticket(), "url", json!(format!("https://{host}/v1/tickets")));
    with(
        tool,
        "headers",
        json!({ "authorization": { "secret": name, "prefix": "Bearer " } }),
    )
}

#[test]
fn a_secret_that_is_not_granted_is_unknown() {
    let place = Place::new();
    key_of(&create_key(&place.data(), &["--organization", "acme"]));
    let config = place.write(
        "turnwright.toml",
        format!(
            "[secrets.GRANTED]\nvalue = {CANARY:?}\nhosts = [\"tickets.example\"]\n\
             [secrets.WITHOUT_HOSTS]\nvalue = {CANARY:?}\n\
             [secrets.OF_ACME]\nvalue = {CANARY:?}\norganizations = [\"acme\"]\n\
             hosts = [\"tickets.example\"]\n"
        ),
    );
    let flags = ["--config", config.to_str().unwrap()];
    // So that there are two organizations.
    place.applied(&[], &flags);
    let said = |host: &str, name: &str| {
        let file = place.write("tools.json", json!([with_secret(host, name)]));
        let mut command = turnwright();
        command.args(["tools", "apply"]).arg(file);
        command.arg("--data").arg(place.data()).args(flags);
        command.env("OPENAI_API_KEY", CANARY);
        refused(&command.output().unwrap())
    };
    let unknown = said("tickets.example", "NO_SUCH_SECRET");
    let named = "tools.json: [0] create_ticket: headers.authorization: ";
    assert!(unknown.contains(named), "{unknown}");
    for (host, name) in [
        ("tickets.example", "OF_ACME"),
        ("tickets.example", "WITHOUT_HOSTS"),
        ("tickets.example", "OPENAI_API_KEY"),
        ("other.example", "GRANTED"),
        ("tickets.example:8443", "GRANTED"),
    ] {
        assert_eq!(said(host, name), unknown, "{host} {name}");
    }
    assert!(place.list(&[]).is_empty());
    let granted = [with_secret("tickets.example", "GRANTED")];
    assert_eq!(place.applied(&granted, &flags), "+ create_ticket\n");
}

#[test]
fn a_variable_grants_a_secret_to_the_default_organization() {
    let place = Place::new();
    let tool = with_secret("tickets.example", "KEY");
    let file = place.write("tools.json", json!([tool]));
    let apply = |name: &str| {
        let mut command = turnwright();
        command.args(["tools", "apply"]).arg(&file);
        command.arg("--data").arg(place.data());
        command.env(name, CANARY).output().unwrap()
    };
    for name in ["KEY", "TURNWRIGHT_SECRET_OTHER"] {
        let said = refused(&apply(name));
        assert!(said.contains("headers.authorization"), "{said}");
        assert!(!said.contains(CANARY), "{said}");
    }
    assert_eq!(
        printed(&apply("TURNWRIGHT_SECRET_KEY")),
        "+ create_ticket\n"
    );
}

const CALL: &str = r#"{"id":"u","object":"chat.completion","created":1,"model":"m","choices":[{
    "index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,
    "tool_calls":[{"id":"c1","type":"function","function":{
        "name":"create_ticket","arguments":"{\"title\":\"Broken\"}"}}]}}]}"#;
const HELLO: &str = r#"{"id":"u","object":"chat.completion","created":1,"model":"m",
    "choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}"#;

/// A model that calls the tool as soon as it is offered.
fn model(asked: &ReceivedRequest) -> ListenerReply {
    let asked = asked.json();
    let messages = asked["messages"].as_array().unwrap();
    if messages.last().unwrap()["role"] == "tool" || asked.get("tools").is_none() {
        ListenerReply::json(HELLO)
    } else {
        ListenerReply::json(CALL)
    }
}

/// Turns before a test fails: many times those of the second after which a change is noticed.
const ASKS_MAX: u32 = 3_000;

/// Asks until the first round's tools are as wanted, and returns the turn.
async fn ask_until(
    client: &TestClient,
    upstream: &Listener,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let request = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    poll_at_most(ASKS_MAX, "the tools as they are wanted", async || {
        let rounds_before = upstream.asked().len();
        let got = client.chat(&request).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        let offered = upstream.asked()[rounds_before].json()["tools"].clone();
        if !wanted(&offered) {
            return None;
        }
        let path = format!("/v1/turns/{}?full=1", got.header("turnwright-turn"));
        Some(client.send("GET", &path, &[], "").await.unwrap().json())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_change_while_the_server_runs() {
    let place = Place::new();
    let data = place.data();
    let upstream = Listener::start(model).await.unwrap();
    let tickets = Listener::in_turn(vec![ListenerReply::json(r#"{"id":"T-1"}"#)]);
    let tickets = tickets.await.unwrap();
    let host = tickets.url("").replace("http://", "");
    let config = place.write(
        "turnwright.toml",
        format!(
            "[[egress.allow]]\nplace = {host:?}\n\
             [secrets.TICKETS_KEY]\nvalue = {CANARY:?}\nhosts = [{host:?}]\n"
        ),
    );
    let mut command = serve(&data, &upstream);
    command.arg("--config").arg(&config);
    let mut server = ServerProcess::start(command, &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &TICKETS_LATER))),
        ..server.client.clone()
    };
    let turn = ask_until(&client, &upstream, Value::is_null).await;
    assert_eq!(turn["tool_count"], 0);

    let tool = with_secret(&host, "TICKETS_KEY");
    let tool = with(tool, "url", json!(tickets.url("/v1/tickets")));
    let flags = ["--config", config.to_str().unwrap()];
    assert_eq!(place.applied(from_ref(&tool), &flags), "+ create_ticket\n");
    let is_offered = |tools: &Value| tools[0]["function"]["name"] == "create_ticket";
    let turn = ask_until(&client, &upstream, is_offered).await;
    let call = &turn["rounds"][0]["calls"][0];
    assert_eq!(call["status"], "completed", "{turn}");
    assert_eq!(call["result"], r#"{"id":"T-1"}"#);
    let asked = &tickets.asked()[0];
    assert_eq!(asked.target, "/v1/tickets");
    assert_eq!(asked.json(), json!({ "title": "Broken" }));
    assert_eq!(asked.header("authorization"), format!("Bearer {CANARY}"));

    let changed = with(tool, "description", json!("Opens another."));
    place.applied(&[changed], &flags);
    let is_changed = |tools: &Value| tools[0]["function"]["description"] == "Opens another.";
    ask_until(&client, &upstream, is_changed).await;

    place.applied(&[], &["--prune"]);
    ask_until(&client, &upstream, Value::is_null).await;

    server.terminate();
    assert_eq!(server.end(), (Some(0), String::new()));
    let log = server.log();
    assert!(!log.contains(CANARY) && !log.contains(SECRET), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_entry_leads_to_the_server_itself() {
    let place = Place::new();
    let data = place.data();
    let upstream = Listener::start(model).await.unwrap();
    // The server's port is chosen when it starts, so each one that it may be is allowed.
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    // Other systems than Linux take IANA's.
    let range = range.unwrap_or_else(|_| "49152 65535".to_owned());
    let (first, last) = range.trim().split_once(char::is_whitespace).unwrap();
    let ports = first.parse::<u16>().unwrap()..=last.trim().parse().unwrap();
    let entry = |port| format!("{{ place = \"127.0.0.1:{port}\" }}");
    let entries: Vec<String> = ports.map(entry).collect();
    let text = format!("[egress]\nallow = [{}]\n", entries.join(", "));
    let config = place.write("turnwright.toml", text);
    let mut command = serve(&data, &upstream);
    command.arg("--config").arg(&config);
    let server = ServerProcess::start(command, &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &TICKETS_LATER))),
        ..server.client.clone()
    };
    let url = |address: SocketAddr| json!(format!("http://{address}/v1/chat/completions"));
    let tool = with(ticket(), "url", url(client.address));
    let flags = ["--config", config.to_str().unwrap()];
    // By this config the server listens somewhere else.
    place.applied(from_ref(&tool), &flags);
    let is_offered = |tools: &Value| tools.is_array();
    let turn = ask_until(&client, &upstream, is_offered).await;
    let call = &turn["rounds"][0]["calls"][0];
    assert_eq!(call["status"], "failed", "{turn}");
    assert_eq!(call["reason"], "target_not_allowed", "{turn}");

    // A config that names the address shows it at once.
    let text =
        "[server]\nlisten = \"127.0.0.1:8788\"\n[[egress.allow]]\nplace = \"127.0.0.1:8788\"\n";
    let config = place.write("turnwright.toml", text);
    let tool = with(tool, "url", url("127.0.0.1:8788".parse().unwrap()));
    let file = place.write("tools.json", json!([tool]));
    let flags = ["--config", config.to_str().unwrap()];
    let said = refused(&place.apply(&file, &flags));
    assert!(said.contains("[0] create_ticket: url: "), "{said}");
}

/// Whoever writes a tool decides how long its arguments take to check.
///
/// One step of the turn checks all calls of a round and gives each an id after its check, and ids sort by time. On the
/// one thread that there is, another turn has an id between theirs only if that step lets others go on.
#[tokio::test(flavor = "multi_thread")]
async fn others_are_served_while_arguments_are_checked() {
    let place = Place::new();
    let data = place.data();
    let patterns: Vec<Value> = (0..10)
        .map(|n| json!({ "pattern": format!("[01]*1[01]{{{}}}2", 1_500 + n) }))
        .collect();
    let tool = json!({
        "name": "slow", "description": "s", "type": "api_request", "url": "https://api.example.com/", "method": "POST",
        "parameters": { "x": { "mode": "ai", "schema": { "type": "string", "allOf": patterns } } },
    });
    place.applied(&[tool], &[]);
    let arguments = json!({ "x": "0110".repeat(10_000) }).to_string();
    let called = |name: &str, arguments: &str| {
        json!({ "id": format!("c-{name}"), "type": "function",
            "function": { "name": name, "arguments": arguments } })
    };
    let calls = json!({ "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null,
        "tool_calls": [called("time_now", "{}"), called("slow", &arguments)] } }] })
    .to_string();
    let upstream = Listener::start(move |asked| {
        let asked = asked.json();
        let messages = asked["messages"].as_array().unwrap();
        let is_first = messages.last().unwrap()["content"] == "Slowly";
        ListenerReply::json(if is_first { &calls } else { HELLO })
    });
    let upstream = upstream.await.unwrap();
    let mut command = serve(&data, &upstream);
    // No other thread is there to serve anybody.
    command.env("TOKIO_WORKER_THREADS", "1");
    let server = ServerProcess::start(command, &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &["--tools", "all"]))),
        ..server.client.clone()
    };
    let ask =
        |text: &str| json!({ "model": "m", "messages": [{ "role": "user", "content": text }] });
    let (asking, slowly) = (client.clone(), ask("Slowly"));
    let slow = tokio::spawn(async move { asking.chat(&slowly).await.unwrap() });
    let mut others = Vec::new();
    while !slow.is_finished() {
        let got = client.chat(&ask("Hi")).await.unwrap();
        assert_eq!(got.status, 200);
        others.push(got.header("turnwright-turn").to_owned());
    }
    let slow = slow.await.unwrap();
    assert_eq!(slow.status, 200);
    let path = format!("/v1/turns/{}?full=1", slow.header("turnwright-turn"));
    let turn = client.send("GET", &path, &[], "").await.unwrap().json();
    let calls = turn["rounds"][0]["calls"].as_array().unwrap();
    let ids: Vec<&str> = calls
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let [quick, slow] = ids[..] else {
        panic!("{turn}");
    };
    let between = others
        .iter()
        .filter(|id| quick < id.as_str() && id.as_str() < slow);
    assert!(between.count() > 0, "{quick}, {others:?}, {slow}");
}
