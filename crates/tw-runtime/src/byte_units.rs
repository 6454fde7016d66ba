//! Bytes as permits of a semaphore, which counts in 32 bits.

/// Bytes of one permit.
const UNIT_BYTES: u64 = 1024;

/// Permits that so many bytes take, rounded up.
pub(crate) fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}
