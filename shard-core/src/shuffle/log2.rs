//! Logarithms in whole numbers, so that every target computes the same ones.

/// Binary digits after the point of [`log2`].
pub(crate) const FRACTION_BITS: u32 = 48;

/// The binary logarithm of `number`, which is not zero, times 2^[`FRACTION_BITS`], rounded down; the last few digits may
/// be too small by one. It never falls while `number` grows. Some 50 multiplications.
///
/// Digit by digit: squaring a number doubles its logarithm, and the digit before the point is read off its size.
pub(crate) const fn log2(number: u64) -> u64 {
    let whole = 63 - number.leading_zeros();
    // In `1..2`, with 63 digits after the point.
    let mut mantissa = number << number.leading_zeros();
    let mut log = whole as u64;
    let mut digit = 0;
    while digit < FRACTION_BITS {
        let square = mantissa as u128 * mantissa as u128;
        let doubled = (square >> 127) as u64;
        mantissa = (square >> (63 + doubled)) as u64;
        log = log << 1 | doubled;
        digit += 1;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn powers_of_two_are_exact_and_others_are_close() {
        for power in 0..64 {
            assert_eq!(log2(1 << power), power << FRACTION_BITS);
        }
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            let number = prng.next_u64() >> prng.below(63) | 1;
            let expected = (number as f64).log2();
            let got = log2(number) as f64 / (1_u64 << FRACTION_BITS) as f64;
            assert!((got - expected).abs() < 1e-13 * 64.0, "{number}: {got} for {expected}");
        }
    }

    #[test]
    fn it_never_falls() {
        let mut prng = Prng::new(2);
        for _ in 0..10_000 {
            let number = prng.next_u64() >> prng.below(63) | 1;
            assert!(log2(number) <= log2(number.saturating_add(1)), "{number}");
        }
    }
}
