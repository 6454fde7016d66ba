use super::{BadOrigin, CorsOrigins};

#[test]
fn origins_are_read_as_browsers_write_them() {
    let parse = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        CorsOrigins::parse(&texts)
    };
    assert_eq!(parse(&[]), Ok(CorsOrigins::None));
    assert_eq!(parse(&["*"]), Ok(CorsOrigins::Any));
    for good in [
        "https://chat.example.com",
        "http://localhost:3000",
        "http://[::1]:8080",
        "chrome-extension://abcdef",
    ] {
        let read = parse(&[good]).unwrap();
        assert_eq!(read, CorsOrigins::These(vec![good.parse().unwrap()]));
    }
    for bad in [
        "",
        "null",
        "https://chat.example.com/",
        "https://chat.example.com:443",
        "https://Chat.example.com",
        "https://*.example.com",
        "chat.example.com",
        "https://a.example b",
    ] {
        assert_eq!(parse(&[bad]), Err(BadOrigin::NoOrigin), "{bad}");
    }
    let both = parse(&["*", "https://a.example"]);
    assert_eq!(both, Err(BadOrigin::NotAlone));
}
