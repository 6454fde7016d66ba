//! Characters that may stand at a position of a text, however JSON, a URL, a form or HTML writes them.
//!
//! An escape may be made of escaped characters, since texts are put into texts: `%252D` is `%2D` in a URL in a URL,
//! `\\u002d` is `\u002d` in a string in a string, `&amp;#45;` is `&#45;` in HTML in HTML, and one may stand in another.

/// Most texts that stand in one another, the innermost included. Three would take a text of nothing
/// but backslashes, which anybody can send, ten times as long, and no encoder was seen that does
/// it.
const NESTED_MAX: u8 = 2;
/// Most characters between `&` and `;`: `&DoubleLongRightArrow;` is no character that is looked
/// for, and `&#x0000002d;` has as many zeros as any encoder writes.
const ENTITY_CHARS_MAX: usize = 14;

/// A way to read what begins at a position: the character, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EscapeReading {
    pub end: usize,
    pub character: char,
}

/// Whether a byte may begin an escape, so that there is more than one way to read it.
pub(super) fn is_escape(byte: u8) -> bool {
    matches!(byte, b'\\' | b'%' | b'&' | b'+')
}

/// The ways to read what begins at `at`; none in the midst of a character.
pub(super) fn readings(text: &[u8], at: usize) -> Vec<EscapeReading> {
    Nested(NESTED_MAX).readings(text, at)
}

/// Depth to which escapes may stand in one another.
#[derive(Clone, Copy)]
struct Nested(u8);

impl Nested {
    fn readings(self, text: &[u8], at: usize) -> Vec<EscapeReading> {
        let Some(&first) = text.get(at) else {
            return Vec::new();
        };
        if self.0 == 0 || !is_escape(first) {
            return plain(text, at).into_iter().collect();
        }
        let parts = Self(self.0 - 1);
        let mut found = parts.readings(text, at);
        for begins in 0..found.len() {
            let EscapeReading { end, character } = found[begins];
            match character {
                '%' => found.extend(parts.percent(text, end)),
                '\\' => parts.backslash(text, end, &mut found),
                '&' => found.extend(parts.entity(text, end)),
                // In a form.
                '+' => found.push(EscapeReading {
                    end,
                    character: ' ',
                }),
                _ => {}
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The ends of a character that is wanted, for each way to read it here.
    fn ends_of(self, wanted: char, text: &[u8], at: usize) -> impl Iterator<Item = usize> {
        let found = self.readings(text, at).into_iter();
        found.filter_map(move |read| (read.character == wanted).then_some(read.end))
    }

    /// A number of so many digits of base 16.
    fn digits(self, count: usize, text: &[u8], at: usize) -> Option<(u32, usize)> {
        let (mut number, mut end) = (0, at);
        for _ in 0..count {
            let found = self.readings(text, end);
            // What begins an escape is no digit, so that one place is at most one digit.
            let digit = |read: &EscapeReading| Some((read.character.to_digit(16)?, read.end));
            let (digit, after) = found.iter().find_map(digit)?;
            number = number * 16 + digit;
            end = after;
        }
        Some((number, end))
    }

    /// The character whose bytes stand behind this percent sign and as many as it has further bytes.
    fn percent(self, text: &[u8], at: usize) -> Option<EscapeReading> {
        let mut bytes = [0; 4];
        let (first, mut end) = self.digits(2, text, at)?;
        bytes[0] = u8::try_from(first).ok()?;
        let length = match bytes[0] {
            0..=0x7f => 1,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return None,
        };
        for byte in &mut bytes[1..length] {
            let mut further = self.ends_of('%', text, end);
            // A percent sign may be the character itself or the beginning of an escaped one.
            let (value, after) = further.find_map(|at| {
                let found = self.digits(2, text, at);
                found.filter(|(value, _)| (0x80..0xc0).contains(value))
            })?;
            *byte = u8::try_from(value).ok()?;
            end = after;
        }
        let character = std::str::from_utf8(&bytes[..length]).ok()?.chars().next()?;
        Some(EscapeReading { end, character })
    }

    /// Reads an escape behind a backslash in a string of JSON, or of the languages that it comes from.
    fn backslash(self, text: &[u8], at: usize, found: &mut Vec<EscapeReading>) {
        for EscapeReading { end, character } in self.readings(text, at) {
            let escaped = match character {
                '"' | '\\' | '/' | '\'' => Some(character),
                'n' => Some('\n'),
                'r' => Some('\r'),
                't' => Some('\t'),
                'b' => Some('\u{8}'),
                'f' => Some('\u{c}'),
                'u' => {
                    found.extend(self.unicode(text, end));
                    None
                }
                'x' => {
                    let number = self.digits(2, text, end);
                    let read = number.and_then(|(number, end)| reading(number, end));
                    found.extend(read);
                    None
                }
                _ => None,
            };
            found.extend(escaped.map(|character| EscapeReading { end, character }));
        }
    }

    /// The digits behind `\u`, and those of the other half of a pair.
    fn unicode(self, text: &[u8], at: usize) -> Option<EscapeReading> {
        let (high, end) = self.digits(4, text, at)?;
        if !(0xd800..0xdc00).contains(&high) {
            return reading(high, end);
        }
        self.ends_of('\\', text, end).find_map(|at| {
            let (low, end) = self
                .ends_of('u', text, at)
                .find_map(|at| self.digits(4, text, at))?;
            let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            reading(0x10000 + (high - 0xd800) * 0x400 + low, end)
        })
    }

    /// Reads an entity of HTML between `&` and `;`.
    fn entity(self, text: &[u8], at: usize) -> Option<EscapeReading> {
        let mut name = String::new();
        let mut end = at;
        for _ in 0..ENTITY_CHARS_MAX {
            let found = self.readings(text, end);
            // The furthest is what an escape stands for, where there is one.
            let read = found.last()?;
            end = read.end;
            if read.character == ';' {
                return Some(EscapeReading {
                    end,
                    character: named(&name)?,
                });
            }
            if !(read.character.is_ascii_alphanumeric() || read.character == '#') {
                return None;
            }
            name.push(read.character);
        }
        None
    }
}

fn reading(number: u32, end: usize) -> Option<EscapeReading> {
    let character = char::from_u32(number)?;
    Some(EscapeReading { end, character })
}

/// The character that begins here as itself.
fn plain(text: &[u8], at: usize) -> Option<EscapeReading> {
    let first = *text.get(at)?;
    let length = match first {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    let end = at + length;
    let character = std::str::from_utf8(text.get(at..end)?)
        .ok()?
        .chars()
        .next()?;
    Some(EscapeReading { end, character })
}

/// The character of an entity without its `&` and `;`. Names are those that HTML has for ASCII.
fn named(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let (digits, radix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (number, 10),
        };
        return char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    }
    Some(match name {
        "Tab" => '\t',
        "NewLine" => '\n',
        "excl" => '!',
        "quot" | "QUOT" => '"',
        "num" => '#',
        "dollar" => '$',
        "percnt" => '%',
        "amp" | "AMP" => '&',
        "apos" => '\'',
        "lpar" => '(',
        "rpar" => ')',
        "ast" | "midast" => '*',
        "plus" => '+',
        "comma" => ',',
        "period" => '.',
        "sol" => '/',
        "colon" => ':',
        "semi" => ';',
        "lt" | "LT" => '<',
        "equals" => '=',
        "gt" | "GT" => '>',
        "quest" => '?',
        "commat" => '@',
        "lsqb" | "lbrack" => '[',
        "bsol" => '\\',
        "rsqb" | "rbrack" => ']',
        "Hat" => '^',
        "lowbar" | "UnderBar" => '_',
        "grave" => '`',
        "lcub" | "lbrace" => '{',
        "verbar" | "vert" | "VerticalLine" => '|',
        "rcub" | "rbrace" => '}',
        _ => return None,
    })
}
