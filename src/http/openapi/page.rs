//! The page at `/docs`: three files inside the binary, so that it works without access to other servers.

/// One file of the page.
pub struct PageFile {
    /// The name under `/docs/`.
    pub name: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

pub static PAGE: PageFile =
    PageFile { name: "", content_type: "text/html; charset=utf-8", text: include_str!("page/page.html") };

/// The files that the page loads.
pub static PAGE_FILES: [PageFile; 2] = [
    PageFile { name: "page.js", content_type: "text/javascript; charset=utf-8", text: include_str!("page/page.js") },
    PageFile { name: "page.css", content_type: "text/css; charset=utf-8", text: include_str!("page/page.css") },
];
