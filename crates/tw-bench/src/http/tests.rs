use super::{Afterwards, Chunked, Framing, RequestHead, ResponseHead, request, response};

#[test]
fn chunks_cut_anywhere() {
    let wire = b"5\r\nhello\r\nA;x=y\r\n world and\r\n0\r\nx: y\r\n\r\nHTTP/1.1";
    let body_bytes = wire.len() - b"HTTP/1.1".len();
    for cut in 0..=wire.len() {
        let mut chunked = Chunked::new();
        let mut body = Vec::new();
        let mut used = 0;
        for part in [&wire[..cut], &wire[cut..]] {
            used += chunked
                .feed(part, |data| body.extend_from_slice(data))
                .unwrap();
        }
        assert!(chunked.is_whole(), "cut at {cut}");
        assert_eq!(body, b"hello world and", "cut at {cut}");
        assert_eq!(used, body_bytes, "cut at {cut}");
    }
}

#[test]
fn broken_chunks() {
    for wire in [&b"5\r\nhello!\r\n"[..], b"\r\n", b"zz\r\n"] {
        assert!(Chunked::new().feed(wire, |_| {}).is_err(), "{wire:?}");
    }
}

#[test]
fn heads_of_requests() {
    let wire = b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 12\r\n\r\nbody";
    let head = RequestHead {
        bytes: wire.len() - 4,
        path: "/v1/x?y=1".to_owned(),
        body_bytes: 12,
        afterwards: Afterwards::Keep,
    };
    assert_eq!(request(wire).unwrap(), Some(head));
    assert_eq!(request(&wire[..40]).unwrap(), None);
    assert!(request(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
}

#[test]
fn heads_of_answers() {
    let head = |wire: &[u8]| response(wire).unwrap().unwrap();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTurnwright-Turn: abc\r\n\r\n";
    assert_eq!(
        head(chunked),
        ResponseHead {
            bytes: chunked.len(),
            status: 200,
            framing: Framing::Chunked,
            afterwards: Afterwards::Keep,
            turn: Some("abc".to_owned()),
        }
    );
    let closing = head(b"HTTP/1.1 503 X\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
    assert_eq!(
        (closing.status, closing.framing, closing.afterwards),
        (503, Framing::Length(3), Afterwards::Close)
    );
    let endless = head(b"HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(
        (endless.framing, endless.afterwards),
        (Framing::Close, Afterwards::Close)
    );
    assert_eq!(response(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap(), None);
}
