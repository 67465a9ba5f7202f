//! What a check has found, from a reply that did not arrive completely.
//!
//! A server writes the conflicts first. So a reply that is cut off, too long or too slow may still say enough to stop a
//! change.

use crate::wire::Conflict;

/// The conflicts at the beginning of a reply to a check, or to the claim of a push; only those that are complete.
pub fn known_conflicts(body: &[u8]) -> Vec<Conflict> {
    let body = body.strip_prefix(b"{\"check\":").unwrap_or(body);
    let mut known = Vec::new();
    let Some(mut rest) = body.strip_prefix(b"{\"conflicts\":[") else { return known };
    loop {
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Conflict>();
        let Some(Ok(conflict)) = values.next() else { return known };
        known.push(conflict);
        match rest[values.byte_offset()..].split_first() {
            Some((b',', more)) => rest = more,
            _ => return known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"filePath":"file:a","key":"a","reservedBy":"ana","reservedByName":null,"mode":"exclusive","reason":"a \"}],{","expiresAt":"2026-01-31T09:31:00.250Z","heldBy":{"sessionId":"ana","reservedAt":"2026-01-31T09:30:00.250Z"}}"#;

    #[test]
    fn complete_conflicts_of_a_cut_reply_are_known() {
        let whole = format!(r#"{{"conflicts":[{ONE},{ONE}],"clear":["b"],"held":[]}}"#);
        let claimed = format!(r#"{{"check":{whole},"sessionId":null}}"#);
        for (reply, start) in [(&whole, 14), (&claimed, 23)] {
            for cut in 0..reply.len() {
                let complete = (cut >= start + ONE.len()) as usize + (cut > start + 2 * ONE.len()) as usize;
                assert_eq!(known_conflicts(&reply.as_bytes()[..cut]).len(), complete, "{cut}");
            }
        }
    }

    #[test]
    fn nothing_is_known_from_anything_else() {
        for body in ["", "{", r#"{"conflicts":[]"#, r#"{"conflicts":[{}"#, r#"{"error":"no"}"#, "[[[", "<html>"] {
            assert_eq!(known_conflicts(body.as_bytes()), [], "{body}");
        }
    }
}
