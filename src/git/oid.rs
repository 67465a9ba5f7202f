//! The name of an object, SHA-1 or SHA-256.

use std::fmt;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// An object id in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid(String);

impl Oid {
    /// Reads 40 or 64 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Oid> {
        let fits = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
        fits.then(|| Oid(String::from_utf8_lossy(text).into_owned()))
    }

    /// All zeros, which means "no object" in a ref update.
    pub fn zero() -> Oid {
        Oid("0".repeat(40))
    }

    /// The object id in its binary form.
    pub(super) fn of_bytes(bytes: &[u8]) -> Oid {
        Oid(bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(HEX[usize::from(digit)]))
            .collect())
    }

    /// Whether it is all zeros, which means "no object" in a ref update.
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
