//! Chance that can be repeated.

/// Random enough, and the same every time.
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

/// The number in this variable of the environment, where there is one: how long forms of tests are asked for.
pub fn asked<T: std::str::FromStr>(variable: &str, otherwise: T) -> T {
    let odd = |text: String| panic!("{variable} must be a number, and is {text:?}");
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| odd(text)))
}
