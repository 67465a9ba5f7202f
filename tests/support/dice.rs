//! Random numbers that can be repeated.

/// The same numbers for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The number in this environment variable, or the default: longer runs of a test are requested this way.
pub fn number_from_env<T: std::str::FromStr>(variable: &str, otherwise: T) -> T {
    let odd = |text: String| panic!("{variable} must be a number, and is {text:?}");
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| odd(text)))
}
