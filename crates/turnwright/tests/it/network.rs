//! The networks that people have: authorities of their own, client certificates, proxies.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::connect_proxy::{ConnectProxy, ProxyReply};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::tls_listener::{Authority, TestIdentity, TlsListener, Validity};

use crate::process::{ServerProcess, create_key, key_of, turnwright};

const PASSWORD: &str = "the-password-of-the-proxy";

/// A folder with a config whose only upstream is `u`.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new(base_url: &str, fields: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let text = format!(
            "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nbase_url = \"{base_url}\"\n{fields}"
        );
        std::fs::write(folder.path().join("turnwright.toml"), text).unwrap();
        Self { folder }
    }

    fn command(&self, words: &[&str], environment: &[(&str, String)]) -> Command {
        let mut command = turnwright();
        command.args(words);
        command.arg("--data").arg(self.folder.path().join("data"));
        let config = self.folder.path().join("turnwright.toml");
        command.arg("--config").arg(config);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What `doctor --ask` says of the upstream.
    fn doctor(&self, environment: &[(&str, String)]) -> String {
        let output = self
            .command(&["doctor", "--ask"], environment)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!said.contains(PASSWORD), "{said}");
        let line = said.lines().find(|line| line.contains(" upstream u: "));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    /// What a client and the log are told of a chat: the message, and the line.
    async fn chat(&self, environment: &[(&str, String)]) -> (String, String) {
        let data = self.folder.path().join("data");
        let key = key_of(&create_key(&data, &[]));
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"], environment);
        command.env("RUST_LOG", "info");
        let server = ServerProcess::start(command, &data);
        let client = TestClient {
            key: Some(key),
            ..server.client.clone()
        };
        let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let got = client.chat(&ask).await.unwrap();
        assert_eq!(got.status, 502, "{}", got.text());
        let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
        let log = server.log();
        assert!(!log.contains(PASSWORD), "{log}");
        let line = log
            .lines()
            .find(|line| line.contains("a model request failed"))
            .unwrap_or_else(|| panic!("{log}"));
        (message, line.to_owned())
    }
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_str().unwrap())
}

enum Trust {
    Nobody,
    /// `ca_file` of the upstream.
    Upstream,
    /// `tls.ca_file`.
    Global,
    File,
    Folder,
}

struct TlsCase {
    name: &'static str,
    names: &'static [&'static str],
    validity: Validity,
    trust: Trust,
    /// The server wants a certificate; whether it is shown one, and of its authority.
    client: Option<Option<bool>>,
    doctor: &'static str,
    chat: Option<&'static str>,
}

const HERE: &[&str] = &["127.0.0.1"];
const LISTS: &str = "ok   upstream u: lists 1 models";
const GOOD: TlsCase = TlsCase {
    name: "its authority is in ca_file of the upstream",
    names: HERE,
    validity: Validity::Now,
    trust: Trust::Upstream,
    client: None,
    doctor: LISTS,
    chat: None,
};

const TLS_CASES: [TlsCase; 10] = [
    GOOD,
    TlsCase {
        name: "its authority is in tls.ca_file",
        trust: Trust::Global,
        ..GOOD
    },
    TlsCase {
        name: "its authority is in SSL_CERT_FILE",
        trust: Trust::File,
        ..GOOD
    },
    TlsCase {
        name: "its authority is in SSL_CERT_DIR",
        trust: Trust::Folder,
        ..GOOD
    },
    TlsCase {
        name: "unknown authority",
        trust: Trust::Nobody,
        doctor: "its certificate is of an authority that is not trusted here: ",
        chat: Some("its certificate is of an authority that is not trusted here"),
        ..GOOD
    },
    TlsCase {
        name: "expired",
        validity: Validity::Past,
        doctor: "its certificate has expired: ",
        chat: Some("its certificate has expired"),
        ..GOOD
    },
    TlsCase {
        name: "not valid yet",
        validity: Validity::Future,
        doctor: "look at the clock of this machine",
        chat: Some("its certificate is not valid yet"),
        ..GOOD
    },
    TlsCase {
        name: "another name",
        names: &["other.example"],
        doctor: "its certificate is for another name: ",
        chat: Some("its certificate is for another name"),
        ..GOOD
    },
    TlsCase {
        name: "wants a client certificate",
        client: Some(None),
        doctor: "it wants a client certificate: ",
        chat: Some("it wants a client certificate"),
        ..GOOD
    },
    TlsCase {
        name: "takes the client certificate",
        client: Some(Some(true)),
        ..GOOD
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn what_of_tls_failed_is_said_and_what_is_trusted_is_trusted() {
    let files = TempDir::new().unwrap();
    let (ours, theirs) = (
        Authority::new("ours").unwrap(),
        Authority::new("theirs").unwrap(),
    );
    let folder = files.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let ca = ours.write(&folder, "ca.pem").unwrap();
    let write = |identity: TestIdentity, name: &str| {
        let (certificate, key) = identity.write(files.path(), name).unwrap();
        format!(
            "client_cert_file = {}\nclient_key_file = {}\n",
            quoted(&certificate),
            quoted(&key)
        )
    };
    let right = write(ours.sign(&["client"], Validity::Now).unwrap(), "right");
    let wrong = write(theirs.sign(&["client"], Validity::Now).unwrap(), "wrong");
    let refused = TlsCase {
        name: "refuses the client certificate",
        client: Some(Some(false)),
        doctor: "it refuses the client certificate: ",
        chat: Some("it refuses the client certificate"),
        ..GOOD
    };
    for case in TLS_CASES.into_iter().chain([refused]) {
        let identity = ours.sign(case.names, case.validity).unwrap();
        let clients = case.client.map(|_| &ours);
        let listener = TlsListener::start(&identity, clients).await.unwrap();
        let mut fields = String::new();
        let mut environment = Vec::new();
        match case.trust {
            Trust::Nobody => {}
            Trust::Upstream => fields = format!("ca_file = {}\n", quoted(&ca)),
            Trust::Global => {}
            Trust::File => environment.push(("SSL_CERT_FILE", ca.to_str().unwrap().to_owned())),
            Trust::Folder => {
                environment.push(("SSL_CERT_DIR", folder.to_str().unwrap().to_owned()));
            }
        }
        match case.client {
            Some(Some(true)) => fields.push_str(&right),
            Some(Some(false)) => fields.push_str(&wrong),
            Some(None) | None => {}
        }
        if matches!(case.trust, Trust::Global) {
            fields.push_str(&format!("[tls]\nca_file = {}\n", quoted(&ca)));
        }
        let site = Site::new(&listener.url("/v1"), &fields);
        let said = site.doctor(&environment);
        assert!(said.contains(case.doctor), "{}: {said}", case.name);
        let Some(expected) = case.chat else {
            continue;
        };
        assert!(said.starts_with("fail"), "{}: {said}", case.name);
        assert!(said.contains(&listener.address.to_string()), "{said}");
        let (message, line) = site.chat(&environment).await;
        assert!(message.contains(expected), "{}: {message}", case.name);
        assert!(!message.contains("127.0.0.1"), "{message}");
        assert!(line.contains(expected), "{}: {line}", case.name);
        assert!(line.contains(&listener.address.to_string()), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_of_the_name_and_the_address_failed_is_said() {
    let plain = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let secure_url = plain.url("/v1").replace("http://", "https://");
    for (base_url, doctor, chat) in [
        (
            "http://no-such-host.invalid/v1",
            "the name no-such-host.invalid has no address here",
            "the upstream cannot be reached: its name could not be looked up",
        ),
        (
            "http://127.0.0.1:1/v1",
            "127.0.0.1:1 takes no connection: Connection refused",
            "the upstream cannot be reached: it takes no connection",
        ),
        (
            &secure_url,
            "it does not speak TLS on this port: ",
            "the upstream cannot be reached securely: it does not speak TLS on this port",
        ),
    ] {
        let site = Site::new(base_url, "");
        let said = site.doctor(&[]);
        assert!(said.starts_with("fail") && said.contains(doctor), "{said}");
        let (message, line) = site.chat(&[]).await;
        assert_eq!(message, chat);
        assert!(line.contains(doctor), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_are_reached_through_the_proxy_that_is_set() {
    let files = TempDir::new().unwrap();
    let authority = Authority::new("ours").unwrap();
    let ca = authority.write(files.path(), "ca.pem").unwrap();
    let identity = authority.sign(&["u.example"], Validity::Now).unwrap();
    let secure = TlsListener::start(&identity, None).await.unwrap();
    let clear = Listener::start(|_| ListenerReply::json(r#"{"data":[{"id":"a"}]}"#))
        .await
        .unwrap();
    let clear_address = clear.url("").replace("http://", "").parse().unwrap();
    let trusted = format!("ca_file = {}\n", quoted(&ca));
    let (https, http) = ("https://u.example/v1", "http://u.example/v1");
    let connect = "CONNECT u.example:443 HTTP/1.1\r\n";
    let get = "GET http://u.example/v1/models HTTP/1.1\r\n";
    // user:the-password-of-the-proxy
    let basic = "Basic dXNlcjp0aGUtcGFzc3dvcmQtb2YtdGhlLXByb3h5";
    for (url, variables, field, head) in [
        (https, vec!["HTTPS_PROXY"], None, Some(connect)),
        (https, vec!["https_proxy"], None, Some(connect)),
        (https, vec!["ALL_PROXY"], None, Some(connect)),
        (https, vec!["HTTP_PROXY"], None, None),
        (http, vec!["HTTP_PROXY"], None, Some(get)),
        (http, vec!["all_proxy"], None, Some(get)),
        (https, vec![], Some(true), Some(connect)),
        (http, vec![], Some(true), Some(get)),
        // The upstream's own setting goes first, and "" is none.
        (https, vec!["HTTPS_PROXY"], Some(false), None),
        (https, vec!["HTTPS_PROXY", "NO_PROXY"], None, None),
        (https, vec!["HTTPS_PROXY", "no_proxy"], None, None),
    ] {
        let to = if url == https {
            secure.address
        } else {
            clear_address
        };
        let proxy = ConnectProxy::start(ProxyReply::Forward(to)).await.unwrap();
        let written = format!("http://user:{PASSWORD}@{}", proxy.address);
        let environment: Vec<(&str, String)> = variables
            .iter()
            .map(|name| {
                let is_list = name.eq_ignore_ascii_case("NO_PROXY");
                let value = if is_list { ".example" } else { &written };
                (*name, value.to_owned())
            })
            .collect();
        let mut fields = trusted.clone();
        match field {
            Some(true) => fields.push_str(&format!("proxy = \"{written}\"\n")),
            Some(false) => fields.push_str("proxy = \"\"\n"),
            None => {}
        }
        let said = Site::new(url, &fields).doctor(&environment);
        match head {
            Some(head) => {
                assert!(said.contains(LISTS), "{variables:?}: {said}");
                let asked = &proxy.asked()[0];
                assert!(asked.starts_with(head), "{asked}");
                assert!(
                    asked.to_lowercase().contains("proxy-authorization: "),
                    "{asked}"
                );
                assert!(asked.contains(basic), "{asked}");
            }
            None => {
                assert!(said.contains("the name u.example has no address"), "{said}");
                assert!(proxy.asked().is_empty());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_fails_is_said_and_this_machine_goes_without() {
    let here = Listener::start(|_| ListenerReply::json(r#"{"data":[{"id":"a"}]}"#))
        .await
        .unwrap();
    let wants_user = ConnectProxy::start(ProxyReply::Refuse(407)).await.unwrap();
    let forbids = ConnectProxy::start(ProxyReply::Refuse(403)).await.unwrap();
    let proxy_failed = "the upstream cannot be reached: the proxy before it failed";
    for (proxy, doctor) in [
        (
            wants_user.address.to_string(),
            "answered 407 to CONNECT u.example:443; the proxy wants a user and a password",
        ),
        (
            forbids.address.to_string(),
            "answered 403 to CONNECT u.example:443; look at the proxy's setting",
        ),
        (
            "127.0.0.1:1".to_owned(),
            "the proxy: 127.0.0.1:1 takes no connection: Connection refused",
        ),
        (
            "no-such-proxy.invalid:3128".to_owned(),
            "the proxy: the name no-such-proxy.invalid has no address here",
        ),
    ] {
        let environment = [("HTTPS_PROXY", format!("http://{proxy}"))];
        let site = Site::new("https://u.example/v1", "");
        let said = site.doctor(&environment);
        assert!(said.starts_with("fail") && said.contains(doctor), "{said}");
        let (message, line) = site.chat(&environment).await;
        assert_eq!(message, proxy_failed);
        assert!(line.contains(doctor), "{line}");
    }
    // A proxy elsewhere would look for this machine there.
    let environment = [("ALL_PROXY", "http://127.0.0.1:1".to_owned())];
    let said = Site::new(&here.url("/v1"), "").doctor(&environment);
    assert!(said.contains(LISTS), "{said}");
}

#[test]
fn settings_that_cannot_be_used_are_told_without_their_values() {
    let files = TempDir::new().unwrap();
    let folder = files.path();
    let authority = Authority::new("ours").unwrap();
    let ca = quoted(&authority.write(folder, "ca.pem").unwrap());
    let mut identities = ["a", "b"].map(|name| {
        let identity = authority.sign(&[name], Validity::Now).unwrap();
        let (certificate, key) = identity.write(folder, name).unwrap();
        (quoted(&certificate), quoted(&key))
    });
    let [(certificate, _), (_, other_key)] = &mut identities;
    let none = folder.join("none.pem");
    std::fs::write(&none, "").unwrap();
    let none = quoted(&none);
    for (fields, variable, expected) in [
        (
            format!("ca_file = {none}\n"),
            None,
            "there is no certificate in it",
        ),
        (
            "ca_file = \"/no/such.pem\"\n".to_owned(),
            None,
            "'ca_file': the file cannot be read",
        ),
        (
            format!("client_cert_file = {certificate}\n"),
            None,
            "go together",
        ),
        (
            format!("client_cert_file = {certificate}\nclient_key_file = {other_key}\n"),
            None,
            "do not go together",
        ),
        (
            format!("client_cert_file = {certificate}\nclient_key_file = {ca}\n"),
            None,
            "there is no private key in it",
        ),
        (
            "proxy = \"socks5://p:1\"\n".to_owned(),
            None,
            "'proxy': only proxies",
        ),
        (
            String::new(),
            Some(("ALL_PROXY", format!("socks5://u:{PASSWORD}@p:1"))),
            "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY",
        ),
        (
            String::new(),
            Some(("SSL_CERT_FILE", "/no/such.pem".to_owned())),
            "SSL_CERT_FILE or SSL_CERT_DIR: the file cannot be read",
        ),
    ] {
        let site = Site::new("https://u.example/v1", &fields);
        let environment: Vec<_> = variable.into_iter().collect();
        let output = site.command(&["doctor"], &environment).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("fail configuration: "), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(
            !said.contains(PASSWORD) && !said.contains("/no/such"),
            "{said}"
        );
    }
}
