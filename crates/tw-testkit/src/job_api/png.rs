//! Small pictures, as PNG (W3C, third edition), whose colors follow from a text.

const SIDE: u32 = 64;

/// A picture; equal texts have equal ones.
pub fn picture(text: &str) -> Vec<u8> {
    // FNV-1a, to tell texts apart.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let [red, green, blue, _] = hash.to_be_bytes();
    let mut rows = Vec::new();
    for y in 0..SIDE {
        // No filter.
        rows.push(0);
        for x in 0..SIDE {
            let shade = |color: u8, by: u32| color.wrapping_add(by.to_le_bytes()[0]);
            rows.extend([shade(red, x), shade(green, y), shade(blue, x ^ y)]);
        }
    }
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [SIDE.to_be_bytes(), SIDE.to_be_bytes()].concat();
    // Eight bits of red, green and blue.
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut png, b"IHDR", &header);
    chunk(&mut png, b"IDAT", &zlib(&rows));
    chunk(&mut png, b"IEND", &[]);
    png
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    png.extend(length.to_be_bytes());
    let from = png.len();
    png.extend(kind);
    png.extend(data);
    let sum = crc32(&png[from..]);
    png.extend(sum.to_be_bytes());
}

/// The data in one stored block, which 64 rows fit into (RFC 1950 and 1951).
fn zlib(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
    let mut out = vec![0x78, 0x01, 1];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(data);
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in data {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            let mask = (sum & 1).wrapping_neg();
            sum = (sum >> 1) ^ (0xedb8_8320 & mask);
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_checksum_is_that_of_the_standard() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
