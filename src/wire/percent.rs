//! File names that are not UTF-8, written as text: each bad byte as `%XX` and a literal `%` as `%25`.

/// Writes any name as text. Reads back with [`percent_decode`]; goes along with [`Encoding::Percent`].
///
/// [`Encoding::Percent`]: super::Encoding::Percent
pub fn percent_encode(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for (i, part) in chunk.valid().split('%').enumerate() {
            text.push_str(if i == 0 { "" } else { "%25" });
            text.push_str(part);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The name that was written so, or nothing where a `%` is not followed by two hex digits.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    let mut name = parts.next()?.to_vec();
    for part in parts {
        let digit = |at: usize| part.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        name.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        name.extend_from_slice(&part[2..]);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_must_be_is_encoded() {
        assert_eq!(percent_encode("src/ä b.rs".as_bytes()), "src/ä b.rs");
        assert_eq!(percent_encode(b"100%.txt"), "100%25.txt");
        assert_eq!(percent_encode(b"caf\xe9/\xff\xfe"), "caf%E9/%FF%FE");
    }

    #[test]
    fn bad_escapes_are_nothing() {
        assert_eq!(percent_decode("a%2"), None);
        assert_eq!(percent_decode("%"), None);
        assert_eq!(percent_decode("%zz"), None);
        assert_eq!(percent_decode("%+1"), None);
        assert_eq!(percent_decode("%é"), None);
        assert_eq!(percent_decode("a%e9b"), Some(b"a\xe9b".to_vec()));
    }

    proptest::proptest! {
        #[test]
        fn every_name_comes_back(name: Vec<u8>) {
            proptest::prop_assert_eq!(percent_decode(&percent_encode(&name)), Some(name));
        }
    }
}
