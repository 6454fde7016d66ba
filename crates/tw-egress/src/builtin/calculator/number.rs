//! The numbers of the calculator: fractions, exact until they grow too long, and decimal only when written.
//!
//! Fractions rather than decimals, so that 10 / 3 * 3 is 10 and rounding happens once, at the end.
//! Every step keeps numerator and denominator bounded, which bounds the time of the next step.

use num_bigint::{BigInt, BigUint};
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, Zero};

/// Digits to which an exact value may grow, and the power of ten past which values are refused.
const DIGITS_MAX: usize = 1_000;

/// Bits of a number of [`DIGITS_MAX`] digits: each digit is log2(10) = 3.3219 bits.
const BITS_MAX: u64 = DIGITS_MAX as u64 * 3_322 / 1_000;

/// Significant digits kept when an exact value would grow too long.
///
/// Far more than are written, so that the error of a long power stays invisible.
const WORKING_DIGITS: usize = 80;

/// Significant digits written when the value does not end: the precision of IEEE 754 decimal128.
const WRITTEN_DIGITS: usize = 34;

/// Zeros after the point up to which a rounded value is written without exponent; as in Python's decimal.
const LEADING_ZEROS_MAX: usize = 5;

/// Largest exponent of a power, and largest second argument of `round`.
const EXPONENT_MAX: i64 = 1_000_000;
const ROUND_DIGITS_MAX: i64 = 1_000;

const RADIX: u32 = 10;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberRefusal {
    #[error("division by zero")]
    DivisionByZero,
    #[error("square root of a negative number")]
    NegativeRoot,
    #[error("the exponent must be a whole number; for a square root use sqrt(x)")]
    ExponentNotWhole,
    #[error("the exponent must be between -{EXPONENT_MAX} and {EXPONENT_MAX}")]
    ExponentRange,
    #[error(
        "the digits of round must be a whole number between -{ROUND_DIGITS_MAX} and {ROUND_DIGITS_MAX}"
    )]
    RoundDigits,
    #[error("the value is beyond 10^{DIGITS_MAX}")]
    TooLarge,
    #[error("the value is not zero but nearer to it than 10^-{DIGITS_MAX}")]
    TooSmall,
}

pub struct WrittenNumber {
    pub text: String,
    /// Whether the text is the value itself, with no rounding anywhere before.
    pub exact: bool,
}

#[derive(Clone)]
pub struct Number {
    value: BigRational,
    rounded: bool,
}

impl Number {
    /// The value of ASCII `digits` times ten to the power `shift`.
    pub fn from_decimal(digits: &str, shift: i64) -> Result<Self, NumberRefusal> {
        let Some(digits) = BigUint::parse_bytes(digits.as_bytes(), RADIX) else {
            debug_assert!(false, "the caller gives digits only");
            return Err(NumberRefusal::TooLarge);
        };
        // The digits themselves shift the value too, so literals may use up to twice the range on the way.
        let limit = 2 * DIGITS_MAX;
        let power = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        if digits.is_zero() {
            return Ok(Self {
                value: BigRational::zero(),
                rounded: false,
            });
        }
        if power > limit {
            return Err(if shift < 0 {
                NumberRefusal::TooSmall
            } else {
                NumberRefusal::TooLarge
            });
        }
        let value = if shift < 0 {
            BigRational::new(digits.into(), ten_to(power))
        } else {
            BigRational::from(BigInt::from(digits) * ten_to(power))
        };
        bounded(value, false)
    }

    pub fn plus(&self, other: &Self) -> Result<Self, NumberRefusal> {
        bounded(&self.value + &other.value, self.rounded || other.rounded)
    }

    pub fn minus(&self, other: &Self) -> Result<Self, NumberRefusal> {
        bounded(&self.value - &other.value, self.rounded || other.rounded)
    }

    pub fn times(&self, other: &Self) -> Result<Self, NumberRefusal> {
        bounded(&self.value * &other.value, self.rounded || other.rounded)
    }

    pub fn over(&self, other: &Self) -> Result<Self, NumberRefusal> {
        if other.value.is_zero() {
            return Err(NumberRefusal::DivisionByZero);
        }
        bounded(&self.value / &other.value, self.rounded || other.rounded)
    }

    /// The remainder of a division by `other`, whose quotient is whole; it has the sign of `self`.
    pub fn remainder(&self, other: &Self) -> Result<Self, NumberRefusal> {
        let whole = self.over(other)?.value.trunc();
        bounded(
            &self.value - &other.value * whole,
            self.rounded || other.rounded,
        )
    }

    pub fn power(&self, exponent: &Self) -> Result<Self, NumberRefusal> {
        let exponent = exponent.whole().ok_or(NumberRefusal::ExponentNotWhole)?;
        let exponent = i64::try_from(exponent).map_err(|_| NumberRefusal::ExponentRange)?;
        if exponent.abs() > EXPONENT_MAX {
            return Err(NumberRefusal::ExponentRange);
        }
        let one = Self {
            value: BigRational::one(),
            rounded: self.rounded,
        };
        let base = if exponent < 0 {
            one.over(self)?
        } else {
            self.clone()
        };
        let steps = exponent.unsigned_abs();
        // From the highest bit down, so that no step is further from 1 than the result.
        let mut result = one;
        for bit in (0..u64::BITS - steps.leading_zeros()).rev() {
            result = result.times(&result)?;
            if steps >> bit & 1 == 1 {
                result = result.times(&base)?;
            }
        }
        Ok(result)
    }

    pub fn square_root(&self) -> Result<Self, NumberRefusal> {
        if self.value.is_negative() {
            return Err(NumberRefusal::NegativeRoot);
        }
        let (top, bottom) = (self.value.numer(), self.value.denom());
        let (top_root, bottom_root) = (top.sqrt(), bottom.sqrt());
        if &top_root * &top_root == *top && &bottom_root * &bottom_root == *bottom {
            return bounded(BigRational::new(top_root, bottom_root), self.rounded);
        }
        // Enough places that the root has the working digits even when the value is below 1.
        let places = WORKING_DIGITS + log_ten(bottom).saturating_sub(log_ten(top)) / 2 + 1;
        let root = (top * ten_to(2 * places) / bottom).sqrt();
        // The digits go on for ever, so a last 1 keeps a later rounding from seeing a tie that is none.
        let value = BigRational::new(root * RADIX + 1, ten_to(places + 1));
        bounded(value, true)
    }

    pub fn negated(self) -> Self {
        Self {
            value: -self.value,
            rounded: self.rounded,
        }
    }

    pub fn absolute(&self) -> Self {
        Self {
            value: self.value.abs(),
            rounded: self.rounded,
        }
    }

    pub fn floor(&self) -> Self {
        Self {
            value: self.value.floor(),
            rounded: self.rounded,
        }
    }

    pub fn ceil(&self) -> Self {
        Self {
            value: self.value.ceil(),
            rounded: self.rounded,
        }
    }

    pub fn round_whole(&self) -> Self {
        Self {
            value: BigRational::from(half_away(&self.value)),
            rounded: self.rounded,
        }
    }

    /// Rounds to `digits` after the point; below zero, to tens, hundreds and so on.
    pub fn round(&self, digits: &Self) -> Result<Self, NumberRefusal> {
        let digits = digits
            .whole()
            .and_then(|digits| i64::try_from(digits).ok())
            .ok_or(NumberRefusal::RoundDigits)?;
        if digits.abs() > ROUND_DIGITS_MAX {
            return Err(NumberRefusal::RoundDigits);
        }
        let scale = power_of_ten(digits);
        bounded(
            BigRational::from(half_away(&(&self.value * &scale))) / scale,
            self.rounded,
        )
    }

    pub fn smaller(self, other: &Self) -> Self {
        let rounded = self.rounded || other.rounded;
        Self {
            value: self.value.min(other.value.clone()),
            rounded,
        }
    }

    pub fn larger(self, other: &Self) -> Self {
        let rounded = self.rounded || other.rounded;
        Self {
            value: self.value.max(other.value.clone()),
            rounded,
        }
    }

    /// The value in decimal: all of it when it ends and was never rounded, else [`WRITTEN_DIGITS`] digits.
    pub fn write(&self) -> WrittenNumber {
        if !self.rounded
            && let Some((digits, scale)) = terminating(&self.value)
        {
            return WrittenNumber {
                text: plain(&digits, scale),
                exact: true,
            };
        }
        if self.value.is_zero() {
            return WrittenNumber {
                text: "0".to_owned(),
                exact: false,
            };
        }
        let (digits, scale) = significant(&self.value, WRITTEN_DIGITS);
        WrittenNumber {
            text: shortest(&digits, scale),
            exact: false,
        }
    }

    fn whole(&self) -> Option<BigInt> {
        self.value.is_integer().then(|| self.value.numer().clone())
    }
}

/// Refuses values out of range, and rounds those whose fraction has grown too long to stay cheap.
fn bounded(value: BigRational, rounded: bool) -> Result<Number, NumberRefusal> {
    if value.is_zero() {
        return Ok(Number { value, rounded });
    }
    let (top, bottom) = (value.numer().bits(), value.denom().bits());
    if top > bottom + BITS_MAX {
        return Err(NumberRefusal::TooLarge);
    }
    if bottom > top + BITS_MAX {
        return Err(NumberRefusal::TooSmall);
    }
    // One bit more, because 10^DIGITS_MAX itself is in range.
    if top <= BITS_MAX + 1 && bottom <= BITS_MAX + 1 {
        return Ok(Number { value, rounded });
    }
    let (digits, scale) = significant(&value, WORKING_DIGITS);
    Ok(Number {
        value: BigRational::from(digits) * power_of_ten(-scale),
        rounded: true,
    })
}

/// The nearest `digits` * 10^-`scale` with `count` significant digits, halves to even; `value` is not zero.
fn significant(value: &BigRational, count: usize) -> (BigInt, i64) {
    let size = value.abs();
    let mut exponent = signed(log_ten(size.numer())) - signed(log_ten(size.denom()));
    if size < power_of_ten(exponent) {
        exponent -= 1;
    }
    let scale = signed(count) - 1 - exponent;
    (half_even(&(value * power_of_ten(scale))), scale)
}

fn half_even(value: &BigRational) -> BigInt {
    let below = value.floor().to_integer();
    let past = value - &below;
    let half = half();
    let odd = below.bit(0);
    if past > half || (past == half && odd) {
        below + 1
    } else {
        below
    }
}

fn half_away(value: &BigRational) -> BigInt {
    let whole = if value.is_negative() {
        (value - half()).ceil()
    } else {
        (value + half()).floor()
    };
    whole.to_integer()
}

/// The value as `digits` * 10^-`scale`, when it is one with at most [`DIGITS_MAX`] places.
fn terminating(value: &BigRational) -> Option<(BigInt, i64)> {
    let mut rest = value.denom().clone();
    let twos = rest.trailing_zeros().unwrap_or(0);
    rest >>= twos;
    let mut fives = 0_u64;
    while !rest.is_one() {
        if !(&rest % 5_u32).is_zero() {
            return None;
        }
        rest /= 5_u32;
        fives += 1;
    }
    let scale = usize::try_from(twos.max(fives)).ok()?;
    if scale > DIGITS_MAX {
        return None;
    }
    let digits = (value * ten_to(scale)).to_integer();
    Some((digits, signed(scale)))
}

fn half() -> BigRational {
    BigRational::new(BigInt::one(), BigInt::from(2))
}

fn power_of_ten(exponent: i64) -> BigRational {
    let power = ten_to(usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX));
    if exponent < 0 {
        BigRational::new(BigInt::one(), power)
    } else {
        BigRational::from(power)
    }
}

fn ten_to(power: usize) -> BigInt {
    BigInt::from(RADIX).pow(power)
}

/// The logarithm to the base ten, rounded down; of zero it is zero.
fn log_ten(value: &BigInt) -> usize {
    value.magnitude().to_str_radix(RADIX).len() - 1
}

/// Converts a count; counts here are bounded by a few thousand.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Writes `digits` * 10^-`scale` with all its places; `scale` is at least 0.
fn plain(digits: &BigInt, scale: i64) -> String {
    let sign = if digits.is_negative() { "-" } else { "" };
    let places = usize::try_from(scale).unwrap_or(0);
    let text = format!(
        "{:0>width$}",
        digits.magnitude().to_string(),
        width = places + 1
    );
    let (whole, fraction) = text.split_at(text.len() - places);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Writes a rounded value, with an exponent where places would claim digits that are not known or be mostly zeros.
fn shortest(digits: &BigInt, scale: i64) -> String {
    let text = digits.magnitude().to_string();
    let exponent = signed(text.len()) - 1 - scale;
    if scale >= 0 && exponent >= -1 - signed(LEADING_ZEROS_MAX) {
        return plain(digits, scale);
    }
    let sign = if digits.is_negative() { "-" } else { "" };
    let (first, rest) = text.split_at(1);
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{exponent}")
}
