//! A second implementation of patterns, written from their documentation and independent of the automata: it matches by
//! trying everything, and finds overlaps by a search through two lists of pieces.
//!
//! It knows the patterns that [`super::random`] makes: no `**` that touches a brace.

use std::collections::VecDeque;

use hashbrown::HashSet;

/// A pattern, split into pieces.
pub struct Pattern(Vec<Vec<Piece>>);

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        let own = literal_pieces(&own_text(text));
        Pattern(expanded(text).iter().map(|plain| pieces(plain)).chain([own]).collect())
    }

    /// Whether it matches a valid path.
    pub fn matches(&self, path: &str) -> bool {
        self.0.iter().any(|pieces| matches_pieces(pieces, path.as_bytes()))
    }
}

/// The pattern as a name, which it matches too. Twice `**` is no more than once.
pub fn own_text(pattern: &str) -> String {
    let mut components: Vec<&str> = pattern.split('/').collect();
    components.dedup_by(|a, b| a == b && *a == "**");
    components.join("/")
}

fn literal_pieces(text: &str) -> Vec<Piece> {
    text.bytes().map(|byte| Piece::One(set(|b| b == byte))).collect()
}

/// All the patterns without braces that a pattern with braces stands for.
/// An empty choice is ignored, unless there is no other.
fn expanded(pattern: &str) -> Vec<String> {
    let Some(open) = find_outside_classes(pattern, '{') else { return vec![pattern.to_owned()] };
    let (mut depth, mut choices, mut from, mut close) = (0, Vec::new(), open + 1, pattern.len());
    let mut at = open;
    while at < pattern.len() {
        match pattern.as_bytes()[at] {
            b'[' => at += class_end(&pattern[at..]) - 1,
            b'{' => depth += 1,
            b',' if depth == 1 => {
                choices.push(&pattern[from..at]);
                from = at + 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    choices.push(&pattern[from..at]);
                    close = at;
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut inner: Vec<String> =
        choices.into_iter().flat_map(|c| Some(expanded(c)).filter(|e| *e != [""])).flatten().collect();
    if inner.is_empty() {
        inner.push(String::new());
    }
    let tails = expanded(&pattern[close + 1..]);
    inner.iter().flat_map(|c| tails.iter().map(move |tail| format!("{}{c}{tail}", &pattern[..open]))).collect()
}

fn find_outside_classes(pattern: &str, wanted: char) -> Option<usize> {
    let mut at = 0;
    while at < pattern.len() {
        let byte = pattern.as_bytes()[at];
        if byte == wanted as u8 {
            return Some(at);
        }
        at += if byte == b'[' { class_end(&pattern[at..]) } else { 1 };
    }
    None
}

/// How long a class is; the first character is never its end.
fn class_end(text: &str) -> usize {
    let skip = if text[1..].starts_with(['!', '^']) { 3 } else { 2 };
    skip + text[skip..].find(']').expect("a closed class") + 1
}

pub enum Piece {
    /// One byte out of these.
    One(Set),
    /// Any bytes but slashes.
    Star,
    /// `**` alone.
    Everything,
    /// `**/` at the beginning.
    AnyDirectories,
    /// `/**/`.
    MoreDirectories,
    /// `/**` at the end.
    AllBelow,
}

/// By byte, whether it belongs.
type Set = Box<[bool; 256]>;

fn set(belongs: impl Fn(u8) -> bool) -> Set {
    Box::new(std::array::from_fn(|byte| belongs(byte as u8)))
}

fn pieces(plain: &str) -> Vec<Piece> {
    // Twice `**` is no more than once.
    let mut components: Vec<&str> = plain.split('/').collect();
    components.dedup_by(|a, b| a == b && *a == "**");
    let plain = components.join("/");
    let mut pieces = Vec::new();
    let mut rest = &*plain;
    if rest == "**" {
        return vec![Piece::Everything];
    }
    if let Some(after) = rest.strip_prefix("**/") {
        pieces.push(Piece::AnyDirectories);
        rest = after;
    }
    while !rest.is_empty() {
        let (piece, len) = match rest.as_bytes() {
            b"/**" => (Piece::AllBelow, 3),
            [b'/', b'*', b'*', b'/', ..] => (Piece::MoreDirectories, 4),
            [b'*', ..] => (Piece::Star, 1),
            [b'?', ..] => (Piece::One(set(|b| b != b'/')), 1),
            [b'[', ..] => (Piece::One(class(&rest[..class_end(rest)])), class_end(rest)),
            [byte, ..] => (Piece::One(set(|b| b == *byte)), 1),
            [] => unreachable!("the rest is not empty"),
        };
        pieces.push(piece);
        rest = &rest[len..];
    }
    pieces
}

fn class(text: &str) -> Set {
    let body = &text[1..text.len() - 1];
    let (negated, body) = match body.strip_prefix(['!', '^']) {
        Some(body) => (true, body.as_bytes()),
        None => (false, body.as_bytes()),
    };
    let mut members = [false; 256];
    let mut at = 0;
    while at < body.len() {
        let is_range = at + 2 < body.len() && body[at + 1] == b'-';
        let last = if is_range { body[at + 2] } else { body[at] };
        (body[at]..=last).for_each(|byte| members[usize::from(byte)] = true);
        at += if is_range { 3 } else { 1 };
    }
    Box::new(members.map(|member| member != negated))
}

fn matches_pieces(pieces: &[Piece], text: &[u8]) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return text.is_empty() };
    let after_any_slash =
        |text: &[u8]| (0..text.len()).any(|at| text[at] == b'/' && matches_pieces(rest, &text[at + 1..]));
    match first {
        Piece::One(set) => text.first().is_some_and(|b| set[usize::from(*b)]) && matches_pieces(rest, &text[1..]),
        Piece::Star => {
            matches_pieces(rest, text) || text.first().is_some_and(|b| *b != b'/') && matches_pieces(pieces, &text[1..])
        }
        Piece::Everything => true,
        Piece::AnyDirectories => matches_pieces(rest, text) || after_any_slash(text),
        Piece::MoreDirectories => text.first() == Some(&b'/') && after_any_slash(text),
        Piece::AllBelow => text.first() == Some(&b'/') && rest.is_empty(),
    }
}

/// Some bytes of every kind; no two that a pattern of [`super::random`] tells apart are missing here.
const BYTES: &[u8; 23] = b"abcgitz0._/ ~*?[]{},!^-";

/// Places between the pieces, and the steps from one to the next.
#[derive(Default)]
pub struct Net {
    /// By place and byte of [`BYTES`].
    steps: Vec<[Vec<usize>; BYTES.len()]>,
    /// Places that cost nothing to reach, by place.
    skips: Vec<Vec<usize>>,
    starts: Vec<usize>,
    is_end: Vec<bool>,
}

impl Net {
    /// The net of a pattern: one row of places for each pattern without braces.
    pub fn new(pattern: &str) -> Net {
        let mut net = Net::default();
        for plain in expanded(pattern) {
            let start = net.place();
            net.starts.push(start);
            let end = pieces(&plain).iter().fold(start, |at, piece| net.piece(at, piece));
            net.is_end[end] = true;
        }
        let start = net.place();
        net.starts.push(start);
        let own = literal_pieces(&own_text(pattern));
        let end = own.iter().fold(start, |at, piece| net.piece(at, piece));
        net.is_end[end] = true;
        // Follow what costs nothing now, so that the search need not.
        for place in 0..net.steps.len() {
            for byte in 0..BYTES.len() {
                let mut all = std::mem::take(&mut net.steps[place][byte]);
                net.skip(&mut all);
                net.steps[place][byte] = all;
            }
        }
        let mut starts = std::mem::take(&mut net.starts);
        net.skip(&mut starts);
        Net { starts, ..net }
    }

    fn place(&mut self) -> usize {
        self.steps.push(Default::default());
        self.skips.push(Vec::new());
        self.is_end.push(false);
        self.steps.len() - 1
    }

    fn step(&mut self, from: usize, to: usize, allowed: impl Fn(u8) -> bool) {
        for (index, &byte) in BYTES.iter().enumerate() {
            if allowed(byte) {
                self.steps[from][index].push(to);
            }
        }
    }

    fn piece(&mut self, at: usize, piece: &Piece) -> usize {
        let next = self.place();
        let is_slash = |b| b == b'/';
        match piece {
            Piece::One(set) => self.step(at, next, |b| set[usize::from(b)]),
            Piece::Star => {
                self.step(at, at, |b| b != b'/');
                self.skips[at].push(next);
            }
            Piece::Everything => {
                self.step(at, at, |_| true);
                self.skips[at].push(next);
            }
            Piece::AnyDirectories => {
                let inside = self.place();
                self.skips[at].push(next);
                self.step(at, inside, |_| true);
                self.step(inside, inside, |_| true);
                self.step(inside, next, is_slash);
            }
            Piece::MoreDirectories => {
                let inside = self.place();
                self.step(at, next, is_slash);
                self.step(at, inside, is_slash);
                self.step(inside, inside, |_| true);
                self.step(inside, next, is_slash);
            }
            Piece::AllBelow => {
                let inside = self.place();
                self.step(at, inside, is_slash);
                self.step(inside, inside, |_| true);
                self.skips[inside].push(next);
            }
        }
        next
    }

    fn skip(&self, places: &mut Vec<usize>) {
        let mut at = 0;
        while at < places.len() {
            for &place in &self.skips[places[at]] {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            at += 1;
        }
    }
}

/// Components as the search tells them apart: "", ".", "..", ".g", ".gi", ".git" and all others, and whether they are
/// forbidden.
const FORBIDDEN: [bool; 7] = [true, true, true, false, false, true, false];

fn longer(component: usize, byte: u8) -> usize {
    match (component, byte) {
        (_, b'/') => 0,
        (0, b'.') => 1,
        (1, b'.') => 2,
        (1, b'g') => 3,
        (3, b'i') => 4,
        (4, b't') => 5,
        _ => 6,
    }
}

/// How long the shortest valid path is that both nets lead through.
pub fn shortest_overlap(a: &Net, b: &Net) -> Option<usize> {
    let mut seen: HashSet<(usize, usize, usize)> = HashSet::new();
    let mut open: VecDeque<(usize, usize, usize, usize)> = VecDeque::new();
    let starts = a.starts.iter().flat_map(|&a| b.starts.iter().map(move |&b| (a, b)));
    open.extend(starts.map(|(a, b)| (a, b, 0, 0)));
    while let Some((in_a, in_b, component, len)) = open.pop_front() {
        let forbidden = FORBIDDEN[component];
        if !forbidden && a.is_end[in_a] && b.is_end[in_b] {
            return Some(len);
        }
        for (index, &byte) in BYTES.iter().enumerate() {
            let (to_a, to_b) = (&a.steps[in_a][index], &b.steps[in_b][index]);
            if to_a.is_empty() || to_b.is_empty() || byte == b'/' && forbidden {
                continue;
            }
            let component = longer(component, byte);
            for &to_a in to_a {
                for &to_b in to_b {
                    if seen.insert((to_a, to_b, component)) {
                        open.push_back((to_a, to_b, component, len + 1));
                    }
                }
            }
        }
    }
    None
}
