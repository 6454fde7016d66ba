use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{BadNatsUrl, NatsConfig, NatsConnection, NatsLogin, NatsServers, NatsSubscription};

#[test]
fn urls_name_servers_and_one_who_connects() {
    let token = || NatsLogin::Token("t/ken".to_owned());
    let user = || NatsLogin::User {
        name: "turn".to_owned(),
        password: "p@ss,word".to_owned(),
    };
    let cases = [
        ("nats://nats.example.com", 1, Ok(NatsLogin::Nobody)),
        ("nats://127.0.0.1:4333/", 1, Ok(NatsLogin::Nobody)),
        ("tls://[::1]:4222", 1, Ok(NatsLogin::Nobody)),
        ("nats://t%2Fken@a", 1, Ok(token())),
        ("nats://turn:p%40ss%2Cword@a", 1, Ok(user())),
        ("nats://t%2Fken@a:1, nats://b", 2, Ok(token())),
        ("nats://a,nats://t%2Fken@b,nats://t%2Fken@c", 3, Ok(token())),
        (
            "nats://t%2Fken@a,nats://other@b",
            0,
            Err(BadNatsUrl::Logins),
        ),
        ("", 0, Err(BadNatsUrl::Form)),
        ("nats.example.com:4222", 1, Ok(NatsLogin::Nobody)),
        ("localhost, [::1]:4222", 2, Ok(NatsLogin::Nobody)),
        ("t%2Fken@a:4222", 1, Ok(token())),
        ("tls://a,tls://t%2Fken@b", 2, Ok(token())),
        ("tls://t%2Fken@a,nats://b", 0, Err(BadNatsUrl::Mixed)),
        ("t%2Fken@a,tls://b", 0, Err(BadNatsUrl::Mixed)),
        ("a b:4222", 0, Err(BadNatsUrl::Form)),
        ("http://a:4222", 0, Err(BadNatsUrl::Scheme)),
        ("ws://a:4222", 0, Err(BadNatsUrl::Scheme)),
        ("nats://", 0, Err(BadNatsUrl::Form)),
        ("nats://a,", 0, Err(BadNatsUrl::Form)),
        ("nats://a/subject", 0, Err(BadNatsUrl::Form)),
        ("nats://a?x=1", 0, Err(BadNatsUrl::Form)),
        ("nats://%ff@a", 0, Err(BadNatsUrl::Form)),
    ];
    for (written, count, login) in cases {
        let read = NatsServers::parse(written);
        match (read, login) {
            (Ok(read), Ok(login)) => {
                assert_eq!(read.addresses.len(), count, "{written}");
                assert!(read.login == login, "{written}");
                let shown = format!("{read:?}");
                assert!(!shown.contains("ken") && !shown.contains("turn"), "{shown}");
            }
            (Err(found), Err(wanted)) => assert_eq!(found, wanted, "{written}"),
            (read, _) => panic!("{written}: {read:?}"),
        }
    }
}

/// A server that says what a test has it say.
struct FakeNats {
    listener: TcpListener,
    info: String,
}

/// One connection to it.
struct FakeConnection(BufReader<TcpStream>);

impl FakeNats {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let info = "{}".to_owned();
        Self { listener, info }
    }

    fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// Takes the next connection as far as it counts as one.
    async fn accept(&self) -> FakeConnection {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut connection = FakeConnection(BufReader::new(stream));
        connection.say(&format!("INFO {}\r\n", self.info)).await;
        connection.line("CONNECT ").await;
        connection.line("PING").await;
        connection.say("PONG\r\n").await;
        connection
    }
}

impl FakeConnection {
    async fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    /// The rest of the next line that begins so.
    async fn line(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).await.unwrap();
            assert_ne!(read, 0, "{begin}");
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim().to_owned();
            }
        }
    }

    /// The id of the next subscription.
    async fn subscribed(&mut self) -> String {
        let line = self.line("SUB subject ").await;
        line.rsplit(' ').next().unwrap().to_owned()
    }

    async fn tell(&mut self, id: &str, payload: &str) {
        let bytes = payload.len();
        self.say(&format!("MSG subject {id} {bytes}\r\n{payload}\r\n"))
            .await;
    }
}

/// A connection that is kept as long as the set of tasks is there.
async fn connect(address: &str) -> (NatsConnection, JoinSet<()>) {
    let roots = rustls::RootCertStore::empty();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = NatsConfig {
        servers: NatsServers::parse(address).unwrap(),
        tls: tls.with_no_client_auth(),
    };
    let (nats, keeper) = NatsConnection::start(config).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(keeper.keep());
    (nats, tasks)
}

/// Longest time that a test waits for something to come.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

async fn heard(subscription: &mut NatsSubscription) -> Option<String> {
    let next = tokio::time::timeout(HEARD_WITHIN, subscription.next()).await;
    next.expect("a message")
}

#[tokio::test]
async fn a_client_that_breaks_is_made_anew() {
    let server = FakeNats::start().await;
    let (nats, _tasks) = connect(&server.address()).await;
    let mut connection = server.accept().await;
    let mut subscription = nats.subscribe("subject".to_owned()).unwrap();
    let id = connection.subscribed().await;
    assert!(nats.is_connected());
    connection.tell(&id, "1").await;
    assert_eq!(heard(&mut subscription).await.as_deref(), Some("1"));

    let huge = usize::MAX;
    connection
        .say(&format!("MSG subject {id} {huge}\r\n"))
        .await;
    let mut link = nats.0.clone();
    let is_lost = link.wait_for(|link| link.client.is_none());
    let is_lost = tokio::time::timeout(HEARD_WITHIN, is_lost).await;
    drop(is_lost.expect("a loss").unwrap());
    assert!(!nats.is_connected());
    assert!(!nats.publish("subject".to_owned(), "x".into()));
    let told = async {
        let mut connection = server.accept().await;
        let id = connection.subscribed().await;
        connection.tell(&id, "2").await;
        connection
    };
    let (_connection, heard) = tokio::join!(told, heard(&mut subscription));
    assert_eq!(heard.as_deref(), Some("2"));
    assert!(nats.is_connected());
}

#[tokio::test]
async fn messages_that_are_none_of_ours_are_passed_over() {
    let server = FakeNats::start().await;
    let (nats, _tasks) = connect(&server.address()).await;
    let mut connection = server.accept().await;
    let mut subscription = nats.subscribe("subject".to_owned()).unwrap();
    let id = connection.subscribed().await;
    for payload in [&"9".repeat(33), "", &"9".repeat(1_000_000), "7"] {
        connection.tell(&id, payload).await;
    }
    for payload in ["", "7"] {
        assert_eq!(heard(&mut subscription).await.as_deref(), Some(payload));
    }
}

/// They would be given the password, and over whatever they like.
#[tokio::test]
async fn servers_that_only_a_server_names_are_not_connected_to() {
    let stranger = FakeNats::start().await;
    let mut server = FakeNats::start().await;
    server.info = format!("{{\"connect_urls\":[\"{}\"]}}", stranger.address());
    let (_nats, _tasks) = connect(&format!("token@{}", server.address())).await;
    // One that has failed is tried last.
    for _ in 0..8 {
        tokio::select! {
            connection = server.accept() => drop(connection),
            _ = stranger.accept() => panic!("a stranger was given the token"),
        }
    }
}
