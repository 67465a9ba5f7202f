//! Random patterns, paths and texts from a seed, so that a failure can be repeated.

/// A small generator of numbers (SplitMix64); good enough to choose with.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A valid path over few letters, so that patterns often match it.
    pub fn path(&mut self) -> String {
        let components: Vec<String> = (0..=self.below(3)).map(|_| self.component()).collect();
        components.join("/")
    }

    fn component(&mut self) -> String {
        const PARTS: [&str; 12] = ["a", "b", "c", "ab", "a.b", ".a", ".b", "a.", "abc", "ba", ".gi", ".gita"];
        (0..=self.below(2)).map(|_| self.pick(&PARTS)).collect()
    }

    /// A pattern that [`super::naive`] understands.
    pub fn pattern(&mut self) -> String {
        loop {
            let components: Vec<String> = (0..=self.below(4)).map(|_| self.pattern_component()).collect();
            let mut pattern = components.join("/");
            if self.below(12) == 0 {
                pattern = format!("{{{},{}}}", self.pattern_without_stars(), self.pattern_without_stars());
            }
            if pattern.contains(['*', '?', '[', '{']) {
                return pattern;
            }
        }
    }

    fn pattern_component(&mut self) -> String {
        if self.below(4) == 0 {
            return "**".to_owned();
        }
        const PARTS: [&str; 22] = [
            "*",
            "*",
            "*",
            "?",
            "?",
            "[ab]",
            "[!a/]",
            "[^b]",
            "[a-c]",
            "{a,b}",
            "{a,bc}",
            "{ab,*a}",
            "{a/b,c}",
            "{.a,b{a,b}}",
            "{,a}",
            "a",
            "b",
            "c",
            ".",
            "ab",
            ".gi",
            "[a.]",
        ];
        loop {
            let text: String = (0..=self.below(3)).map(|_| self.pick(&PARTS)).collect();
            // Two stars side by side may read as `**`, and these three are refused or folded away.
            if !text.contains("**") && ![".", "..", ".git"].contains(&&*text) {
                return text;
            }
        }
    }

    fn pattern_without_stars(&mut self) -> String {
        const PARTS: [&str; 8] = ["a", "b", "a/b", "a*", "?/b", "b/*c", "c/**/a", "[ab]"];
        self.pick(&PARTS).to_owned()
    }

    /// A pattern with everything globset knows, in any order; often malformed.
    pub fn wild_pattern(&mut self) -> String {
        const PARTS: [&str; 40] = [
            "*", "**", "**", "/**/", "**/", "/**", "?", "[", "]", "{", "}", "{a,b}", ",", "{", "}", "/", "/", "[a-c]",
            "[!a]", "[^A-C]", "[]a]", "[a-]", "[-a]", "[A-z]", "[!]b]", "a", "b", "A", "B", "C", ".", "-", "!", "^",
            "{**/a,b}", "{a,**}", "{a/**,b}", "é", "É", "{É,a}",
        ];
        (0..=self.below(6)).map(|_| self.pick(&PARTS)).collect()
    }

    /// A valid path with more kinds of characters than [`Random::path`].
    pub fn wild_path(&mut self) -> String {
        const PARTS: [&str; 16] = ["a", "b", "c", "A", "B", "C", "-", "!", "]", "^", "[", ",", "{", "é", "\\", "a.b"];
        let mut component = || -> String { (0..=self.below(2)).map(|_| self.pick(&PARTS)).collect() };
        let mut path = component();
        for _ in 0..path.len() % 3 {
            path = format!("{path}/{}", component());
        }
        path
    }

    /// Text that is often a key.
    pub fn key_text(&mut self) -> String {
        const NAMES: [&str; 10] = [
            "flag:a/*",
            "flag:a/b",
            "flag:a/b/*",
            "flag:a",
            "db:schema:a",
            "event:a.b",
            "flag://a/*",
            "flag://a/b",
            "contract:a/b",
            "contract:A/b",
        ];
        match self.below(6) {
            0 => self.pick(&NAMES).to_owned(),
            1 => self.wild_pattern(),
            2 => self.text(),
            3 => self.path(),
            4 => format!("{}/", self.path()),
            _ => self.pattern(),
        }
    }

    /// Any text at all, made of what matters to keys.
    pub fn text(&mut self) -> String {
        const PARTS: [&str; 66] = [
            "a",
            "b",
            "A",
            "src",
            "src/",
            "/",
            "/",
            "/",
            ".",
            "..",
            "./",
            "//",
            "*",
            "**",
            "**/",
            "?",
            "[",
            "]",
            "[a",
            "[!",
            "-",
            "z]",
            "{",
            "}",
            ",",
            "{a,",
            "file:",
            "db:",
            "api:",
            "GET ",
            "event:",
            "flag:",
            "/*",
            "env:",
            "contract:",
            "feature:",
            ":pause",
            ":",
            "http",
            "://",
            "C:",
            "foo:",
            "%",
            "%25",
            "%2",
            "%FF",
            "%0a",
            "\\",
            " ",
            "\t",
            "\n",
            "\0",
            "\u{7f}",
            ".git",
            ".GIT",
            "git~1",
            "é",
            "e\u{301}",
            "É",
            "ß",
            "\u{200c}",
            "\u{feff}",
            "日本",
            "~",
            "$",
            "K",
        ];
        (0..self.below(9)).map(|_| self.pick(&PARTS)).collect()
    }

    /// A name as git may have it.
    pub fn name(&mut self) -> Vec<u8> {
        let mut name = self.text().into_bytes();
        for _ in 0..self.below(3) {
            let at = self.below(name.len() + 1);
            name.insert(at, self.below(256) as u8);
        }
        name
    }
}
