//! Lines of bounded length: one message each.

use std::io::{self, BufRead};

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// It was longer than allowed, and was dropped.
    TooLong,
}

/// Reads the next line of at most `max` bytes; none at the end of the input. A last line without an end counts too.
pub fn next(input: &mut impl BufRead, max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let (mut is_too_long, mut is_empty) = (false, true);
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            break;
        }
        is_empty = false;
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        is_too_long |= line.len() + piece.len() > max;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok((!is_empty).then_some(if is_too_long { Line::TooLong } else { Line::Whole(line) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_limit_and_the_next_one_is_intact() {
        let text = b"abc\n\nabcdefgh\r\nxyz\n123456789\nlast";
        for buffer in [1, 2, 3, 5, 100] {
            let mut input = io::BufReader::with_capacity(buffer, &text[..]);
            let mut read = || next(&mut input, 8).unwrap();
            assert_eq!(read(), Some(Line::Whole(b"abc".to_vec())));
            assert_eq!(read(), Some(Line::Whole(Vec::new())));
            assert_eq!(read(), Some(Line::TooLong), "nine bytes with the carriage return");
            assert_eq!(read(), Some(Line::Whole(b"xyz".to_vec())));
            assert_eq!(read(), Some(Line::TooLong));
            assert_eq!(read(), Some(Line::Whole(b"last".to_vec())));
            assert_eq!(read(), None);
            assert_eq!(read(), None);
        }
    }
}
