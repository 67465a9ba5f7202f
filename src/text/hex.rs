//! Bytes in hexadecimal.

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of pairs of digits; none for any other text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let is_all = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if is_all { digits.chunks(2).map(pair).collect() } else { None }
}
