//! Text of keys: the form that is compared, and quoting for messages.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// How much of a refused text a message repeats.
const QUOTED_MAX_CHARS: usize = 120;

/// The form in which names are compared: Unicode NFC and, where `fold_case`, without case.
/// `None` when that is the name itself, which is the usual case and costs nothing.
pub(super) fn compared(name: &[u8], fold_case: bool) -> Option<Vec<u8>> {
    if name.is_ascii() {
        let same = !fold_case || !name.iter().fold(false, |found, b| found | b.is_ascii_uppercase());
        return if same { None } else { Some(name.to_ascii_lowercase()) };
    }
    // Bytes that are not UTF-8 stay, and the text around them is treated as usual, so that a directory compares the same
    // whether or not the file name below it is UTF-8.
    let mut form = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        form.extend_from_slice(compared_text(chunk.valid(), fold_case).as_bytes());
        form.extend_from_slice(chunk.invalid());
    }
    if form == name { None } else { Some(form) }
}

/// [`compared`] for text.
pub(super) fn compared_text(text: &str, fold_case: bool) -> Cow<'_, str> {
    if text.is_ascii() {
        let same = !fold_case || !text.bytes().any(|b| b.is_ascii_uppercase());
        return if same { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
    }
    if fold_case {
        // To upper case first: only then do ß and ss, or the two small sigmas, become equal.
        let folded = text.nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
        return Cow::Owned(folded.nfc().collect());
    }
    if is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// The text for a message: in quotes, escaped, and shortened when it is long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX_CHARS) {
        None => format!("{text:?}"),
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_in_nfc() {
        assert_eq!(compared("cafe\u{301}".as_bytes(), false).unwrap(), "café".as_bytes());
        assert_eq!(compared("café".as_bytes(), false), None);
        assert_eq!(compared(b"Plain.RS", false), None);
        assert_eq!(compared(b"caf\xe9/e\xcc\x81", false).unwrap(), b"caf\xe9/\xc3\xa9");
    }

    #[test]
    fn case_is_folded_beyond_ascii() {
        for (a, b) in
            [("README", "readme"), ("STRASSE", "straße"), ("Σίσυφος", "ΣΊΣΥΦΟΣ"), ("\u{212a}", "k"), ("É", "e\u{301}")]
        {
            assert_eq!(compared_text(a, true), compared_text(b, true), "{a} {b}");
        }
        assert_ne!(compared_text("README", false), compared_text("readme", false));
        assert_eq!(compared(b"A\xffB", true).unwrap(), b"a\xffb");
    }

    #[test]
    fn no_character_folds_into_a_special_character() {
        // A path is split into components before it is folded, which is only correct if nothing folds into a `/`. The
        // same goes for the special characters of patterns.
        for c in ('\u{80}'..=char::MAX).filter(|c| !c.is_ascii()) {
            for fold_case in [false, true] {
                let text = c.to_string();
                let form = compared_text(&text, fold_case);
                assert!(
                    !form.contains(['/', '\\', '*', '?', '[', ']', '{', '}', ',', '.', ':', '!']),
                    "{c:?} becomes {form:?}"
                );
                assert!(!form.bytes().any(|b| b.is_ascii_control()), "{c:?}");
                assert!(!fold_case || !form.bytes().any(|b| b.is_ascii_uppercase()), "{c:?} becomes {form:?}");
            }
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(quoted("a\"b\n"), r#""a\"b\n""#);
        assert_eq!(quoted(&"é".repeat(500)).chars().count(), QUOTED_MAX_CHARS + 3);
    }
}
