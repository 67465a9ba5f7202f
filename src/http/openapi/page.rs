//! The page at `/docs`: three files in the binary, so that it works where nothing else can be reached.

/// One file.
pub struct Part {
    /// Its name under `/docs/`.
    pub name: &'static str,
    /// What a browser should take it for.
    pub content_type: &'static str,
    /// All of it.
    pub text: &'static str,
}

/// The page itself.
pub static PAGE: Part =
    Part { name: "", content_type: "text/html; charset=utf-8", text: include_str!("page/page.html") };

/// What it loads.
pub static PARTS: [Part; 2] = [
    Part { name: "page.js", content_type: "text/javascript; charset=utf-8", text: include_str!("page/page.js") },
    Part { name: "page.css", content_type: "text/css; charset=utf-8", text: include_str!("page/page.css") },
];
