//! Random numbers, and a few dozen keys that overlap a lot, for the simulation.

use git_dibs::key::{Claim, Key, KeyRules, Kind, Overlap};

/// splitmix64: small, fast, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn percent(&mut self, likely: usize) -> bool {
        self.below(100) < likely
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// The keys of one simulation, by number, and how each pair overlaps.
pub struct KeySet {
    /// Each key in all its spellings.
    pub keys: Vec<Vec<Key>>,
    pub overlaps: Vec<Vec<Option<Overlap>>>,
    /// A session that holds the first key holds all of the second.
    pub covers: Vec<Vec<bool>>,
    /// For a pattern, the file of exactly that name.
    pub literal: Vec<Option<usize>>,
    /// The feature that a reservation of the key pauses.
    pub pauses: Vec<Option<&'static str>>,
}

pub const FEATURES: [&str; 2] = ["F", "G"];

/// Few enough to run out of them.
pub const PORTS: std::ops::RangeInclusive<u16> = 100..=105;

const NAMES: [&str; 9] = [
    "db:schema:slot",
    "flag:a",
    "flag:a/*",
    "flag:a/b",
    "flag:a/b/*",
    "flag:a/b/c",
    "contract:a/b",
    "deploy://a/b",
    "event:a.b",
];

const PATTERNS: [&str; 22] = [
    "**",
    "@/**",
    "@/*",
    "*/@",
    "**/@",
    "@/{b,c}",
    "{@,c}/*",
    "@/[bc]",
    "@/b*",
    "@*",
    "**/*.rs",
    "@/**/@",
    "*.rs",
    "?",
    "@/@/**",
    "@/@/*",
    "@/*/@",
    "{@,@/b}/c.rs",
    "@/?.rs",
    "[!a]/**",
    "@/",
    "{a,b}/{b,c}/**",
];

impl KeySet {
    pub fn new(random: &mut Random, fold_case: bool) -> KeySet {
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        let mut texts: Vec<String> = FEATURES.iter().map(|feature| format!("feature:{feature}:pause")).collect();
        texts.extend(PORTS.map(|port| format!("port:{port}")));
        let names = 2 + random.below(4);
        texts.extend((0..names).map(|_| (*random.pick(&NAMES)).to_owned()));
        let patterns = 2 + random.below(10);
        for _ in 0..patterns {
            let mut text = (*random.pick(&PATTERNS)).to_owned();
            while let Some(at) = text.find('@') {
                text.replace_range(at..=at, ["a", "b", "c"][random.below(3)]);
            }
            texts.push(text);
        }
        let paths = 4 + random.below(16);
        for _ in 0..paths {
            let depth = 1 + random.below(3);
            let parts: Vec<&str> = (0..depth).map(|_| *random.pick(&["a", "b", "c", "a.rs", "c.rs"])).collect();
            texts.push(parts.join("/"));
        }
        let mut keys: Vec<Vec<Key>> = Vec::new();
        let mut literal = Vec::new();
        for text in texts {
            let key = Key::parse(&text, &rules).unwrap();
            if number_of(&keys, &key).is_some() {
                continue;
            }
            let of_that_name = (key.kind() == Kind::Glob).then(|| Key::literal(text.as_bytes(), &rules).ok()).flatten();
            let spellings = if fold_case && matches!(key.kind(), Kind::Path | Kind::Glob) {
                vec![Key::parse(&text.to_uppercase(), &rules).unwrap(), key]
            } else {
                vec![key]
            };
            keys.push(spellings);
            literal.push(None);
            if let Some(file) = of_that_name {
                let at = keys.len() - 1;
                literal[at] = Some(number_of(&keys, &file).unwrap_or_else(|| {
                    keys.push(vec![file]);
                    literal.push(None);
                    keys.len() - 1
                }));
            }
        }
        let all = || keys.iter().map(|key| &key[0]);
        let overlaps = all().map(|a| all().map(|b| a.overlaps(b)).collect()).collect();
        let covers = all().map(|a| all().map(|b| covers(a, b)).collect()).collect();
        let pause = |key: &Vec<Key>| FEATURES.into_iter().find(|f| key[0].shown() == format!("feature:{f}:pause"));
        let pauses = keys.iter().map(pause).collect();
        KeySet { overlaps, covers, literal, pauses, keys }
    }

    pub fn number(&self, key: &Key) -> usize {
        number_of(&self.keys, key).expect("every key of the simulation has a number")
    }

    pub fn key(&self, number: usize) -> &Key {
        &self.keys[number][0]
    }

    pub fn meet(&self, one: usize, other: usize) -> bool {
        self.overlaps[one][other].is_some()
    }
}

fn number_of(keys: &[Vec<Key>], key: &Key) -> Option<usize> {
    keys.iter().position(|known| known[0] == *key)
}

fn covers(held: &Key, key: &Key) -> bool {
    match (held.claim(), key.claim()) {
        _ if held == key => true,
        (Claim::Glob(glob), Claim::Path(path)) => glob.matches(path),
        (Claim::Below(above), Claim::Name(name)) => name.starts_with(&[above, b"/"].concat()),
        _ => false,
    }
}
