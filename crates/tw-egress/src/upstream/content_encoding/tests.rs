use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::{NotUnpacked, Unpacker};

const TEXT: &[u8] =
    b"data: {\"choices\":[{\"delta\":{\"content\":\"ok ok ok ok\"}}]}\n\ndata: [DONE]\n\n";
/// The same from `brotli -c` and `zstd -c`.
const BROTLI: &[u8] = &[
    0x1b, 0x46, 0x00, 0x20, 0x9d, 0x07, 0xb6, 0xed, 0xe4, 0x12, 0xba, 0x1c, 0xef, 0x84, 0x81, 0xd9,
    0x87, 0xa2, 0x67, 0x3a, 0x42, 0xa5, 0xb7, 0xc8, 0xde, 0x16, 0xc8, 0x24, 0x5b, 0x7b, 0x4b, 0x85,
    0xae, 0xbe, 0xd4, 0x11, 0xe9, 0x73, 0x8c, 0x03, 0xf6, 0x71, 0xc0, 0xfd, 0xe5, 0x1a, 0xe4, 0xb2,
    0xcc, 0x9a, 0x00, 0x3a, 0xa1, 0x80, 0x2d, 0xc3, 0x95, 0xa7, 0xe7, 0x24, 0x29, 0x8e, 0x1b, 0xe7,
    0x1b, 0x0e, 0x1f, 0x1c, 0x56, 0x00,
];
const ZSTD: &[u8] = &[
    0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x47, 0x1d, 0x02, 0x00, 0x94, 0x03, 0x64, 0x61, 0x74, 0x61, 0x3a,
    0x20, 0x7b, 0x22, 0x63, 0x68, 0x6f, 0x69, 0x63, 0x65, 0x73, 0x22, 0x3a, 0x5b, 0x7b, 0x22, 0x64,
    0x65, 0x6c, 0x74, 0x61, 0x22, 0x3a, 0x7b, 0x22, 0x63, 0x6f, 0x6e, 0x74, 0x65, 0x6e, 0x74, 0x22,
    0x3a, 0x22, 0x6f, 0x6b, 0x20, 0x22, 0x7d, 0x7d, 0x5d, 0x7d, 0x0a, 0x0a, 0x5b, 0x44, 0x4f, 0x4e,
    0x45, 0x5d, 0x0a, 0x0a, 0x02, 0x00, 0x5c, 0x0d, 0x23, 0x09, 0x57, 0x06, 0x8d, 0x95, 0x18, 0x1d,
];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn unpack(said: &str, packed: &[u8], cut: usize, bytes_max: usize) -> Result<Vec<u8>, NotUnpacked> {
    let mut headers = HeaderMap::new();
    if !said.is_empty() {
        headers.insert(CONTENT_ENCODING, said.parse().unwrap());
    }
    let mut unpacker = Unpacker::new(&headers, bytes_max);
    let mut text = Vec::new();
    for piece in packed.chunks(cut) {
        text.extend_from_slice(&unpacker.feed(Bytes::copy_from_slice(piece))?);
    }
    text.extend_from_slice(&unpacker.end()?);
    Ok(text)
}

#[test]
fn a_packed_answer_is_read_whatever_its_head_says() {
    let mut twice = gzip(&TEXT[..10]);
    twice.extend(gzip(&TEXT[10..]));
    let rows: [(&str, Vec<u8>); 15] = [
        ("gzip", gzip(TEXT)),
        ("x-gzip", gzip(TEXT)),
        ("GZIP", twice),
        ("", gzip(TEXT)),
        ("identity", gzip(TEXT)),
        ("deflate", zlib(TEXT)),
        ("deflate", deflate(TEXT)),
        ("br", BROTLI.to_vec()),
        ("zstd", ZSTD.to_vec()),
        ("", ZSTD.to_vec()),
        ("", zlib(TEXT)),
        ("gzip", TEXT.to_vec()),
        ("deflate", TEXT.to_vec()),
        ("br", TEXT.to_vec()),
        ("", TEXT.to_vec()),
    ];
    for (said, packed) in rows {
        for cut in [1, 3, packed.len()] {
            let text = unpack(said, &packed, cut, 1 << 20);
            assert_eq!(text.as_deref(), Ok(TEXT), "{said:?} in pieces of {cut}");
        }
    }
}

#[test]
fn an_answer_that_unpacks_to_more_than_allowed_is_refused() {
    let zeros = vec![b' '; 1 << 20];
    for (said, packed) in [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros))] {
        assert_eq!(
            unpack(said, &packed, packed.len(), 1 << 16),
            Err(NotUnpacked)
        );
    }
    // What is no such stream at all.
    assert_eq!(unpack("br", &[0xff; 64], 64, 1 << 16), Err(NotUnpacked));
}
