//! The networks that people have, for tools: what is said of them, and to whom.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::connect_proxy::{ConnectProxy, ProxyReply};
use tw_testkit::tls_listener::{Authority, TlsListener, Validity};

use crate::process::{ServerProcess, create_key, key_of, turnwright};

/// A folder with a config whose scripted model calls the tool `act`, once.
struct ToolSite {
    folder: TempDir,
}

/// What became of the tool.
struct Acted {
    /// Of `POST …/test`: the status, and the message.
    tested: (String, String),
    /// Of a turn: the reason, and what the model was shown.
    called: (Value, String),
    log: String,
}

/// A certificate and its key in files, as settings.
fn shown(authority: &Authority, folder: &TempDir) -> String {
    let identity = authority.sign(&["us"], Validity::Now).unwrap();
    let (certificate, key) = identity.write(folder.path(), "us").unwrap();
    format!(
        "client_cert_file = {:?}\nclient_key_file = {:?}\n",
        certificate.to_str().unwrap(),
        key.to_str().unwrap()
    )
}

const SCRIPT: &str = r#"
[[rule]]
when = { last_role = "user" }
calls = [{ name = "act", arguments = {} }]

[[rule]]
text = "Done."
"#;

impl ToolSite {
    /// `settings` are tables, and may use files of the folder by their names.
    fn new(settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let script = folder.path().join("model.toml");
        std::fs::write(&script, SCRIPT).unwrap();
        let upstream = format!(
            "[[upstream]]\nname = \"u\"\nkind = \"scripted\"\nscript = {:?}\n",
            script.to_str().unwrap()
        );
        let text = format!("{upstream}\n{settings}");
        std::fs::write(folder.path().join("turnwright.toml"), text).unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = turnwright();
        command.args(words).arg("--data").arg(self.data());
        let config = self.folder.path().join("turnwright.toml");
        command.arg("--config").arg(config);
        command
    }

    /// Tests and calls a tool that gets this URL.
    async fn act(&self, url: &str, environment: &[(&str, &str)]) -> Acted {
        let scopes = "chat,turns:read_all,tools:read,tools:write";
        let flags = ["--tools", "all", "--scope", scopes];
        let key = key_of(&create_key(&self.data(), &flags));
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("RUST_LOG", "info");
        command.envs(environment.iter().copied());
        let mut server = ServerProcess::start(command, &self.data());
        let client = TestClient {
            key: Some(key),
            ..server.client.clone()
        };
        let tool = json!({
            "name": "act", "description": "A test's tool.", "type": "api_request", "url": url,
            "policy": { "attempts_max": 1 },
        });
        let path = "/api/default/tools";
        let made = client.send("POST", path, &[], tool.to_string()).await;
        let made = made.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("{path}/{}/test", made.json()["id"].as_str().unwrap());
        let tested = client.send("POST", &path, &[], r#"{"dry":false}"#);
        let tested = tested.await.unwrap().json();
        let outcome = &tested["outcome"];
        let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let got = client.chat(&ask).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        let path = format!("/v1/turns/{}?full=1", got.header("turnwright-turn"));
        let turn = client.send("GET", &path, &[], "").await.unwrap().json();
        let call = &turn["rounds"][0]["calls"][0];
        let text = |value: &Value| {
            value
                .as_str()
                .unwrap_or_else(|| panic!("{tested} {turn}"))
                .to_owned()
        };
        // Until then lines may be on their way to the log.
        server.terminate();
        assert_eq!(server.end().0, Some(0));
        Acted {
            tested: (text(&outcome["status"]), text(&outcome["result"])),
            called: (call["reason"].clone(), text(&call["shown"])),
            log: server.log(),
        }
    }
}

impl Acted {
    /// That it was not sent for this reason, which everybody may read, and for this cause, which
    /// the operator reads.
    #[track_caller]
    fn assert_not_sent(&self, told: &str, cause: &str) {
        assert_eq!(self.tested, ("not_sent".to_owned(), told.to_owned()));
        assert_eq!(self.called.0, "not_sent");
        assert!(self.called.1.contains(told), "{}", self.called.1);
        self.assert_cause(cause);
    }

    #[track_caller]
    fn assert_cause(&self, cause: &str) {
        for event in ["a tool gave no answer", "tool tested"] {
            let line = self.log.lines().find(|line| line.contains(event));
            let line = line.unwrap_or_else(|| panic!("{}", self.log));
            assert!(line.contains(cause), "{event}: {line}");
        }
        for message in [&self.tested.1, &self.called.1] {
            assert!(!message.contains("127.0.0.1"), "{message}");
        }
    }
}

/// An authority whose certificate stands in a file of this folder.
fn authority(folder: &TempDir) -> (Authority, String) {
    let authority = Authority::new("ours").unwrap();
    let file = authority.write(folder.path(), "ca.pem").unwrap();
    let trusted = format!("[tls]\nca_file = {:?}\n", file.to_str().unwrap());
    (authority, trusted)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_of_the_network_failed_is_told_by_class_and_logged_whole() {
    let files = TempDir::new().unwrap();
    let (ours, trusted) = authority(&files);
    let expired = ours.sign(&["127.0.0.1"], Validity::Past).unwrap();
    let expired = TlsListener::start(&expired, None).await.unwrap().address;
    let closed = "127.0.0.1:1".parse().unwrap();
    for (address, told, cause) in [
        (
            expired,
            "no secure connection to the tool could be made: its certificate has expired",
            "its certificate has expired: invalid peer certificate",
        ),
        (
            closed,
            "the tool cannot be reached: it takes no connection",
            "takes no connection: Connection refused",
        ),
    ] {
        let settings = format!("{trusted}[[egress.allow]]\nplace = \"{address}\"\n");
        let site = ToolSite::new(&settings);
        let acted = site.act(&format!("https://{address}/"), &[]).await;
        acted.assert_not_sent(told, cause);
        acted.assert_cause(&address.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_does_not_exist_is_known_by_the_log_only() {
    let site = ToolSite::new("");
    let acted = site.act("https://no-such-host.invalid/", &[]).await;
    let (status, told) = &acted.tested;
    assert_eq!(status, "not_allowed");
    assert_eq!(
        told,
        "the tool's address does not exist or may not be reached from here"
    );
    acted.assert_cause("the name no-such-host.invalid has no address here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_of_the_settings_is_shown_at_its_place() {
    let files = TempDir::new().unwrap();
    let (ours, trusted) = authority(&files);
    let server = ours.sign(&["127.0.0.1"], Validity::Now).unwrap();
    let server = TlsListener::start(&server, Some(&ours)).await.unwrap();
    let (address, files) = (server.address, shown(&ours, &files));
    let wanted = "no secure connection to the tool could be made: it wants a client certificate";
    for (place, organizations, is_shown) in [
        (address.to_string(), "", true),
        (address.to_string(), "organizations = [\"acme\"]\n", false),
        ("127.0.0.2:443".to_owned(), "", false),
    ] {
        let site = ToolSite::new(&format!(
            "{trusted}[[egress.allow]]\nplace = \"{address}\"\n\
             [[egress.certificate]]\nplace = \"{place}\"\n{organizations}{files}"
        ));
        let acted = site.act(&server.url("/"), &[]).await;
        if is_shown {
            assert_eq!(acted.tested.0, "answered", "{}", acted.tested.1);
            assert_eq!(acted.called.0, Value::Null);
        } else {
            acted.assert_not_sent(wanted, "[[egress.certificate]] shows one to a place");
        }
    }
}

const PASSWORD: &str = "the-password-of-the-proxy";

#[tokio::test(flavor = "multi_thread")]
async fn tools_go_through_the_proxy_of_their_settings_and_through_no_other() {
    let files = TempDir::new().unwrap();
    let (ours, trusted) = authority(&files);
    let server = ours
        .sign(&["8.8.8.8", "tool.example"], Validity::Now)
        .unwrap();
    let server = TlsListener::start(&server, None).await.unwrap();
    let settings = "proxy = \"PROXY\"\n";
    let looks_up = "proxy = \"PROXY\"\nproxy_looks_up = true\n";
    let without = "proxy = \"PROXY\"\nno_proxy = [\"invalid\"]\nproxy_looks_up = true\n";
    let none = "proxy = \"\"\n";
    for (egress, url, asked) in [
        (
            settings,
            "https://8.8.8.8/",
            Some("CONNECT 8.8.8.8:443 HTTP/1.1\r\n"),
        ),
        (
            looks_up,
            "https://tool.example/",
            Some("CONNECT tool.example:443 HTTP/1.1\r\n"),
        ),
        (settings, "https://no-such-host.invalid/", None),
        (without, "https://no-such-host.invalid/", None),
        (none, "https://no-such-host.invalid/", None),
        ("", "https://no-such-host.invalid/", None),
    ] {
        let proxy = ConnectProxy::start(ProxyReply::Forward(server.address));
        let proxy = proxy.await.unwrap();
        let written = format!("http://user:{PASSWORD}@{}", proxy.address);
        let egress = egress.replace("PROXY", &written);
        let site = ToolSite::new(&format!("{trusted}[egress]\n{egress}"));
        let variables = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"];
        // Without a setting, this is all that could lead there.
        let environment: &[_] = &variables.map(|name| (name, written.as_str()));
        let acted = site.act(url, environment).await;
        assert!(!acted.log.contains(PASSWORD), "{}", acted.log);
        match asked {
            Some(head) => {
                assert_eq!(acted.tested.0, "answered", "{}", acted.tested.1);
                assert_eq!(acted.called.0, Value::Null, "{}", acted.called.1);
                assert!(proxy.asked()[0].starts_with(head), "{:?}", proxy.asked());
            }
            None => {
                assert_eq!(acted.tested.0, "not_allowed", "{egress}");
                assert!(proxy.asked().is_empty(), "{:?}", proxy.asked());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_tools_that_fails_is_told_and_found_by_doctor() {
    let forbids = ConnectProxy::start(ProxyReply::Refuse(403)).await.unwrap();
    let closed = "127.0.0.1:1".parse().unwrap();
    for (address, doctor, cause) in [
        (
            forbids.address,
            "ok   proxy of tools: 127.0.0.1:",
            "answered 403 to CONNECT tool.example:443; look at 'proxy' in [egress]",
        ),
        (
            closed,
            "fail proxy of tools: the proxy: 127.0.0.1:1 takes no connection: Connection refused",
            "the proxy: 127.0.0.1:1 takes no connection: Connection refused",
        ),
    ] {
        let settings = format!(
            "[egress]\nproxy = \"http://user:{PASSWORD}@{address}\"\nproxy_looks_up = true\n"
        );
        let site = ToolSite::new(&settings);
        let acted = site.act("https://tool.example/", &[]).await;
        let told = "the tool cannot be reached: the proxy before it failed";
        acted.assert_not_sent(told, cause);
        assert!(!acted.log.contains(PASSWORD), "{}", acted.log);
        let output = site.command(&["doctor", "--ask"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.lines().any(|line| line.starts_with(doctor)), "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[test]
fn settings_that_cannot_be_used_are_told_by_their_place() {
    let files = TempDir::new().unwrap();
    let (ours, _) = authority(&files);
    let shown = shown(&ours, &files);
    let (certificate, _) = shown.split_once('\n').unwrap();
    let entry =
        |place: &str, rest: &str| format!("[[egress.certificate]]\nplace = \"{place}\"\n{rest}");
    let unreadable = format!("{certificate}\nclient_key_file = \"/no/such\"\n");
    for (settings, expected) in [
        (
            entry("10.0.0.0/8:443", &shown),
            "egress.certificate[0]: the host of this place is one name or one address, no network",
        ),
        (
            entry("tool.example", &shown),
            "egress.certificate[0]: a place is written HOST:PORT",
        ),
        (
            entry("a.example:443", &format!("organizations = []\n{shown}")),
            "egress.certificate[0]: 'organizations' is empty",
        ),
        (
            entry("a.example:443", &unreadable),
            "egress.certificate[0]: 'client_cert_file' and 'client_key_file': the file cannot be read",
        ),
        (
            format!("[egress]\nproxy = \"socks5://u:{PASSWORD}@p:1\"\n"),
            "egress: 'proxy': only proxies that are asked over http://",
        ),
        (
            format!("[egress]\nno_proxy = [\"a.example\", \"http://u:{PASSWORD}@p:1\"]\n"),
            "egress.no_proxy[1] is no name, address or network",
        ),
        (
            format!("[egress]\nproxy = {{ url = \"{PASSWORD}\" }}\n"),
            "egress.proxy",
        ),
    ] {
        let site = ToolSite::new(&settings);
        let output = site.command(&["doctor"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|line| line.starts_with("fail"));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(expected), "{expected}: {line}");
        let is_shown = line.contains("/no/such") || line.contains(PASSWORD);
        assert!(!is_shown, "{line}");
    }
}
