//! The numbers of the calculator: fractions, exact until they grow too long, and decimal only when written.
//!
//! Fractions rather than decimals, so that 10 / 3 * 3 is 10 and rounding happens once, at the end.
//! Every step keeps numerator and denominator bounded, which bounds the time of the next step.

use dashu_int::ops::{Abs, BitTest, SquareRoot, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

/// Digits to which an exact value may grow, and the power of ten past which values are refused.
const DIGITS_MAX: usize = 1_000;

/// Bits of a number of [`DIGITS_MAX`] digits: each digit is log2(10) = 3.3219 bits.
const BITS_MAX: usize = DIGITS_MAX * 3_322 / 1_000;

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

const RADIX: UBig = UBig::from_word(10);

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
    value: RBig,
    rounded: bool,
}

impl Number {
    /// The value of ASCII `digits` times ten to the power `shift`.
    pub fn from_decimal(digits: &str, shift: i64) -> Result<Self, NumberRefusal> {
        let Ok(digits) = UBig::from_str_radix(digits, 10) else {
            debug_assert!(false, "the caller gives digits only");
            return Err(NumberRefusal::TooLarge);
        };
        // The digits themselves shift the value too, so literals may use up to twice the range on the way.
        let limit = 2 * DIGITS_MAX;
        let power = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        if digits.is_zero() {
            return Ok(Self {
                value: RBig::ZERO,
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
        let scale = RADIX.pow(power);
        let value = if shift < 0 {
            RBig::from_parts(digits.into(), scale)
        } else {
            RBig::from(digits * scale)
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
            &self.value - &other.value * RBig::from(whole),
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
            value: RBig::ONE,
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
        if self.value < RBig::ZERO {
            return Err(NumberRefusal::NegativeRoot);
        }
        let top = self.value.numerator().clone().unsigned_abs();
        let bottom = self.value.denominator();
        let (top_root, bottom_root) = (top.sqrt(), bottom.sqrt());
        if top_root.sqr() == top && bottom_root.sqr() == *bottom {
            return bounded(RBig::from_parts(top_root.into(), bottom_root), self.rounded);
        }
        // Enough places that the root has the working digits even when the value is below 1.
        let places = WORKING_DIGITS + bottom.ilog(&RADIX).saturating_sub(top.ilog(&RADIX)) / 2 + 1;
        let root = (top * RADIX.pow(2 * places) / bottom).sqrt();
        // The digits go on for ever, so a last 1 keeps a later rounding from seeing a tie that is none.
        let value = RBig::from_parts((root * RADIX + UBig::ONE).into(), RADIX.pow(places + 1));
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
            value: self.value.clone().abs(),
            rounded: self.rounded,
        }
    }

    pub fn floor(&self) -> Self {
        Self {
            value: self.value.floor().into(),
            rounded: self.rounded,
        }
    }

    pub fn ceil(&self) -> Self {
        Self {
            value: self.value.ceil().into(),
            rounded: self.rounded,
        }
    }

    pub fn round_whole(&self) -> Self {
        Self {
            value: half_away(&self.value).into(),
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
            RBig::from(half_away(&(&self.value * &scale))) / scale,
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

    fn whole(&self) -> Option<IBig> {
        (*self.value.denominator() == UBig::ONE).then(|| self.value.numerator().clone())
    }
}

/// Refuses values out of range, and rounds those whose fraction has grown too long to stay cheap.
fn bounded(value: RBig, rounded: bool) -> Result<Number, NumberRefusal> {
    if value.is_zero() {
        return Ok(Number { value, rounded });
    }
    let (top, bottom) = (value.numerator().bit_len(), value.denominator().bit_len());
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
        value: RBig::from(digits) * power_of_ten(-scale),
        rounded: true,
    })
}

/// The nearest `digits` * 10^-`scale` with `count` significant digits, halves to even; `value` is not zero.
fn significant(value: &RBig, count: usize) -> (IBig, i64) {
    let size = value.clone().abs();
    let mut exponent =
        signed(size.numerator().ilog(&RADIX)) - signed(size.denominator().ilog(&RADIX));
    if size < power_of_ten(exponent) {
        exponent -= 1;
    }
    let scale = signed(count) - 1 - exponent;
    (half_even(&(value * power_of_ten(scale))), scale)
}

fn half_even(value: &RBig) -> IBig {
    let below = value.floor();
    let past = value - RBig::from(below.clone());
    let half = RBig::from_parts(IBig::ONE, UBig::from_word(2));
    let odd = below.bit(0);
    if past > half || (past == half && odd) {
        below + IBig::ONE
    } else {
        below
    }
}

fn half_away(value: &RBig) -> IBig {
    let half = RBig::from_parts(IBig::ONE, UBig::from_word(2));
    if *value < RBig::ZERO {
        (value - half).ceil()
    } else {
        (value + half).floor()
    }
}

/// The value as `digits` * 10^-`scale`, when it is one with at most [`DIGITS_MAX`] places.
fn terminating(value: &RBig) -> Option<(IBig, i64)> {
    let mut rest = value.denominator().clone();
    let twos = rest.remove(&UBig::from_word(2)).unwrap_or(0);
    let fives = rest.remove(&UBig::from_word(5)).unwrap_or(0);
    let scale = twos.max(fives);
    if rest != UBig::ONE || scale > DIGITS_MAX {
        return None;
    }
    let digits = (value * RBig::from(RADIX.pow(scale))).trunc();
    Some((digits, signed(scale)))
}

fn power_of_ten(exponent: i64) -> RBig {
    let power = RADIX.pow(usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX));
    if exponent < 0 {
        RBig::from_parts(IBig::ONE, power)
    } else {
        RBig::from(power)
    }
}

/// Converts a count; counts here are bounded by a few thousand.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Writes `digits` * 10^-`scale` with all its places; `scale` is at least 0.
fn plain(digits: &IBig, scale: i64) -> String {
    let sign = if *digits < IBig::ZERO { "-" } else { "" };
    let places = usize::try_from(scale).unwrap_or(0);
    let text = format!(
        "{:0>width$}",
        digits.clone().unsigned_abs().to_string(),
        width = places + 1
    );
    let (whole, fraction) = text.split_at(text.len() - places);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Writes a rounded value, with an exponent where places would claim digits that are not known or be mostly zeros.
fn shortest(digits: &IBig, scale: i64) -> String {
    let text = digits.clone().unsigned_abs().to_string();
    let exponent = signed(text.len()) - 1 - scale;
    if scale >= 0 && exponent >= -1 - signed(LEADING_ZEROS_MAX) {
        return plain(digits, scale);
    }
    let sign = if *digits < IBig::ZERO { "-" } else { "" };
    let (first, rest) = text.split_at(1);
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{exponent}")
}
