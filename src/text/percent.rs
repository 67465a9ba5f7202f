//! Percent coding of file names: a name that is not UTF-8 written as text, and read back.
//!
//! This is not the coding of URLs: text stays readable, only what cannot stand in a JSON string or in a line is
//! encoded.

use std::borrow::Cow;

/// Writes a control byte, a byte that is not part of UTF-8 text, and `%` itself as `%XX`.
pub fn encode(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || c.is_ascii_control() { text.push_str(escape(c as u8)) } else { text.push(c) }
        }
        chunk.invalid().iter().for_each(|&byte| text.push_str(escape(byte)));
    }
    text
}

/// Undoes [`encode`]; `None` where a `%` is not followed by two hexadecimal digits.
pub fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let is_whole = text.split('%').skip(1).all(is_escape);
    is_whole.then(|| percent_encoding::percent_decode_str(text).into())
}

/// `%XX`.
pub fn escape(byte: u8) -> &'static str {
    percent_encoding::percent_encode_byte(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_must_be_is_encoded() {
        assert_eq!(encode("src/ä b.rs".as_bytes()), "src/ä b.rs");
        assert_eq!(encode(b"100%.txt"), "100%25.txt");
        assert_eq!(encode(b"caf\xe9/\xff\xfe"), "caf%E9/%FF%FE");
        assert_eq!(encode(b"a\xffb%\n\x7f"), "a%FFb%25%0A%7F");
    }

    #[test]
    fn a_bad_escape_is_not_decoded() {
        for bad in ["a%2", "%", "%zz", "%+1", "%é", "a%", "%4", "%%41"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode("a%e9b%fF").unwrap(), &b"a\xe9b\xff"[..]);
        assert!(matches!(decode("plain"), Some(Cow::Borrowed(b"plain"))));
    }

    proptest::proptest! {
        #[test]
        fn every_name_is_decoded_as_it_was(name: Vec<u8>) {
            let text = encode(&name);
            proptest::prop_assert_eq!(decode(&text).unwrap(), name);
        }
    }
}
