//! `calculate`: reads an expression and computes it on the way.
//!
//! ```text
//! sum     = product (('+' | '-') product)*
//! product = signed (('*' | '/' | '%') signed)*
//! signed  = ('-' | '+') signed | power
//! power   = value ('^' signed)?
//! value   = number | '(' sum ')' | name '(' sum (',' sum)* ')'
//! ```
//! So a power binds tighter than a sign (`-2^2` is -4) and groups to the right (`2^3^2` is 2^9).

use serde_json::Value;

use number::{Number, NumberRefusal};

mod number;

/// Longest expression read, in characters.
const EXPRESSION_CHARS_MAX: usize = 1_000;

/// Deepest nesting of parentheses, signs and powers; each level costs a few stack frames.
const DEPTH_MAX: usize = 64;

const FUNCTIONS: &str = "abs, round, floor, ceil, min, max, sqrt";

/// Errors of an expression. Positions count characters, from 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum CalculatorError {
    #[error("expression must be a string")]
    NotText,
    #[error("expression is longer than {EXPRESSION_CHARS_MAX} characters; compute it in parts")]
    TooLong,
    #[error("position {at}: expected a number, a function or '(' but found {found}")]
    ExpectedValue { at: usize, found: FoundToken },
    #[error("position {at}: expected an operator or the end but found {found}")]
    ExpectedOperator { at: usize, found: FoundToken },
    #[error("position {at}: expected {wanted:?} but found {found}")]
    ExpectedMark {
        at: usize,
        wanted: char,
        found: FoundToken,
    },
    #[error("position {at}: expected a digit but found {found}")]
    ExpectedDigit { at: usize, found: FoundToken },
    #[error(
        "position {at}: a comma only separates arguments; write numbers without thousands separators"
    )]
    Separator { at: usize },
    #[error(
        "position {at}: a number does not begin with 0 before another digit; write numbers without thousands separators"
    )]
    LeadingZero { at: usize },
    #[error("position {at}: unknown name {name:?}; the functions are {FUNCTIONS}")]
    UnknownName { at: usize, name: String },
    #[error("position {at}: {name} takes {takes} but got {got}")]
    Arguments {
        at: usize,
        name: String,
        takes: &'static str,
        got: usize,
    },
    #[error("position {at}: nested deeper than {DEPTH_MAX} levels; compute it in parts")]
    TooDeep { at: usize },
    // The model reads one line, so the reason is part of the message and not a source.
    #[error("position {at}: {refusal}")]
    Refused { at: usize, refusal: NumberRefusal },
    #[error("writing the result as JSON")]
    Encode(#[source] serde_json::Error),
}

/// The character at a position of the expression; `None` is its end.
#[derive(Debug)]
pub(super) struct FoundToken(Option<char>);

impl std::fmt::Display for FoundToken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(found) => write!(out, "{found:?}"),
            None => out.write_str("the end"),
        }
    }
}

/// The fields in the order the model reads them.
#[derive(serde::Serialize)]
struct Answer<'a> {
    expression: &'a str,
    result: String,
    exact: bool,
}

pub(super) fn answer(arguments: &Value) -> Result<String, CalculatorError> {
    let expression = arguments
        .get("expression")
        .and_then(Value::as_str)
        .ok_or(CalculatorError::NotText)?;
    let chars: Vec<char> = expression.chars().take(EXPRESSION_CHARS_MAX + 1).collect();
    if chars.len() > EXPRESSION_CHARS_MAX {
        return Err(CalculatorError::TooLong);
    }
    let mut reader = Reader {
        chars: &chars,
        next: 0,
        depth: 0,
    };
    let value = reader.sum()?;
    match reader.peek() {
        None => {}
        Some(',') => return Err(CalculatorError::Separator { at: reader.at() }),
        found @ Some(_) => {
            return Err(CalculatorError::ExpectedOperator {
                at: reader.at(),
                found: FoundToken(found),
            });
        }
    }
    let written = value.write();
    let answer = Answer {
        expression,
        result: written.text,
        exact: written.exact,
    };
    serde_json::to_string(&answer).map_err(CalculatorError::Encode)
}

struct Reader<'a> {
    chars: &'a [char],
    next: usize,
    depth: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<Number, CalculatorError> {
        let mut left = self.product()?;
        loop {
            let at = match self.peek() {
                Some('+' | '-') => self.at(),
                Some(_) | None => return Ok(left),
            };
            let minus = self.take('-');
            if !minus {
                self.next += 1;
            }
            let right = self.product()?;
            let result = if minus {
                left.minus(&right)
            } else {
                left.plus(&right)
            };
            left = result.map_err(|refusal| CalculatorError::Refused { at, refusal })?;
        }
    }

    fn product(&mut self) -> Result<Number, CalculatorError> {
        let mut left = self.signed()?;
        loop {
            let operator = self.peek();
            let at = self.at();
            let apply = match operator {
                Some('*') => Number::times,
                Some('/') => Number::over,
                Some('%') => Number::remainder,
                Some(_) | None => return Ok(left),
            };
            self.next += 1;
            let right = self.signed()?;
            left =
                apply(&left, &right).map_err(|refusal| CalculatorError::Refused { at, refusal })?;
        }
    }

    /// Reads a signed number or a power. Every recursion of the grammar passes here, so the depth is counted here.
    fn signed(&mut self) -> Result<Number, CalculatorError> {
        if self.depth == DEPTH_MAX {
            return Err(CalculatorError::TooDeep { at: self.at() });
        }
        self.depth += 1;
        let value = if self.take('-') {
            self.signed()?.negated()
        } else if self.take('+') {
            self.signed()?
        } else {
            self.power()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<Number, CalculatorError> {
        let base = self.value()?;
        if self.peek() != Some('^') {
            return Ok(base);
        }
        let at = self.at();
        self.next += 1;
        let exponent = self.signed()?;
        base.power(&exponent)
            .map_err(|refusal| CalculatorError::Refused { at, refusal })
    }

    fn value(&mut self) -> Result<Number, CalculatorError> {
        match self.peek() {
            Some('0'..='9' | '.') => self.number(),
            Some('a'..='z' | 'A'..='Z') => self.function(),
            Some('(') => {
                self.next += 1;
                let value = self.sum()?;
                self.close()?;
                Ok(value)
            }
            found @ (Some(_) | None) => Err(CalculatorError::ExpectedValue {
                at: self.at(),
                found: FoundToken(found),
            }),
        }
    }

    fn number(&mut self) -> Result<Number, CalculatorError> {
        let at = self.at();
        let mut digits = self.digits();
        if digits.len() > 1 && digits.starts_with('0') {
            // Catches 1,000 among arguments, which would otherwise be read as 1 and 0.
            return Err(CalculatorError::LeadingZero { at });
        }
        let mut shift = 0_i64;
        if self.chars.get(self.next) == Some(&'.') {
            self.next += 1;
            let fraction = self.some_digits()?;
            shift -= i64::try_from(fraction.len()).unwrap_or(i64::MAX);
            digits.push_str(&fraction);
        }
        if let Some('e' | 'E') = self.chars.get(self.next) {
            self.next += 1;
            let sign = self.chars.get(self.next).copied();
            let negative = matches!(sign, Some('-' | '−'));
            if negative || sign == Some('+') {
                self.next += 1;
            }
            // A number too long for the type is out of range in any case.
            let exponent = self.some_digits()?.parse::<i64>().unwrap_or(i64::MAX);
            shift = shift.saturating_add(if negative { -exponent } else { exponent });
        }
        Number::from_decimal(&digits, shift)
            .map_err(|refusal| CalculatorError::Refused { at, refusal })
    }

    fn some_digits(&mut self) -> Result<String, CalculatorError> {
        let digits = self.digits();
        if digits.is_empty() {
            let found = FoundToken(self.chars.get(self.next).copied());
            return Err(CalculatorError::ExpectedDigit {
                at: self.next + 1,
                found,
            });
        }
        Ok(digits)
    }

    fn digits(&mut self) -> String {
        self.run(|c| c.is_ascii_digit())
    }

    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.chars.get(self.next..).unwrap_or_default();
        let run: String = rest.iter().copied().take_while(|c| belongs(*c)).collect();
        // Only ASCII runs are read, so bytes are characters.
        self.next += run.len();
        run
    }

    fn function(&mut self) -> Result<Number, CalculatorError> {
        let at = self.at();
        let name = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
        if !FUNCTIONS.split(", ").any(|known| known == name) {
            return Err(CalculatorError::UnknownName { at, name });
        }
        if !self.take('(') {
            return Err(CalculatorError::ExpectedMark {
                at: self.at(),
                wanted: '(',
                found: FoundToken(self.peek()),
            });
        }
        let mut arguments = vec![self.sum()?];
        while self.take(',') {
            arguments.push(self.sum()?);
        }
        self.close()?;
        call(at, name, &arguments)
    }

    fn close(&mut self) -> Result<(), CalculatorError> {
        if self.take(')') {
            return Ok(());
        }
        match self.peek() {
            // Arguments take their own commas, so this one stands inside plain parentheses.
            Some(',') => Err(CalculatorError::Separator { at: self.at() }),
            found @ (Some(_) | None) => Err(CalculatorError::ExpectedMark {
                at: self.at(),
                wanted: ')',
                found: FoundToken(found),
            }),
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.next += 1;
        }
        found
    }

    /// The next character that is not a space, with the typographic signs as their plain ones.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.next).is_some_and(|c| c.is_whitespace()) {
            self.next += 1;
        }
        self.chars.get(self.next).map(|c| match c {
            '×' => '*',
            '÷' => '/',
            '−' => '-',
            other => *other,
        })
    }

    /// The position of the next character; exact after a `peek`.
    fn at(&self) -> usize {
        self.next + 1
    }
}

fn call(at: usize, name: String, arguments: &[Number]) -> Result<Number, CalculatorError> {
    let result = match (name.as_str(), arguments) {
        ("abs", [x]) => Ok(x.absolute()),
        ("floor", [x]) => Ok(x.floor()),
        ("ceil", [x]) => Ok(x.ceil()),
        ("sqrt", [x]) => x.square_root(),
        ("round", [x]) => Ok(x.round_whole()),
        ("round", [x, digits]) => x.round(digits),
        ("min", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), Number::smaller)),
        ("max", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), Number::larger)),
        (_, arguments) => {
            let takes = if name == "round" {
                "1 or 2 arguments"
            } else {
                "1 argument"
            };
            return Err(CalculatorError::Arguments {
                at,
                name,
                takes,
                got: arguments.len(),
            });
        }
    };
    result.map_err(|refusal| CalculatorError::Refused { at, refusal })
}
