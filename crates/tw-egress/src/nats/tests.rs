use super::{BadNatsUrl, NatsLogin, NatsServers, pause_before};

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
        ("nats://t%2Fken@a:1, tls://b", 2, Ok(token())),
        ("nats://a,nats://t%2Fken@b,nats://t%2Fken@c", 3, Ok(token())),
        (
            "nats://t%2Fken@a,nats://other@b",
            0,
            Err(BadNatsUrl::Logins),
        ),
        ("", 0, Err(BadNatsUrl::Form)),
        ("nats.example.com:4222", 0, Err(BadNatsUrl::Form)),
        ("http://a:4222", 0, Err(BadNatsUrl::Form)),
        ("ws://a:4222", 0, Err(BadNatsUrl::Form)),
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

#[test]
fn pauses_grow_to_the_longest() {
    let pauses = [0, 1, 2, 3, 10, 11, 99].map(|tries| pause_before(tries).as_millis());
    assert_eq!(pauses, [2, 2, 4, 8, 1000, 1000, 1000]);
}
