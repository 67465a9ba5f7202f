//! The files of the dashboard and of the page at `/docs`. They are in `web/`, and inside the binary.
//!
//! All files but the pages themselves are in one directory, whose name is the hash of their contents. A browser keeps them
//! for ever, and a new version of the server has another directory. Nothing has to be built: what is in `web/` is what
//! browsers get, compressed when the first browser asks. Only the comments of the scripts are left out; they would be a
//! seventh of the bytes.

mod gzip;

use std::collections::HashMap;
use std::sync::LazyLock;

use aws_lc_rs::digest::{Context, SHA256};
use axum::body::Bytes;

use crate::text::hex;

/// What a page has in the place of the name of the directory.
const DIRECTORY_MARK: &str = "{{directory}}";

/// Digits of the hash in the name of the directory.
const HASH_BYTES: usize = 8;

/// Every file of `web/` that browsers get, with its contents.
macro_rules! web_files {
    ($($name:literal)*) => {
        const FILES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/", $name)))),*];
    };
}

web_files! {
    "index.html" "docs.html" "icon.svg" "base.css" "views.css" "later.css" "docs.css"
    "actions.js" "api.js" "app.js" "derive.js" "dialogs.js" "docs.js" "feed.js" "frame.js" "graph.js" "history.js" "hot.js"
    "htm-preact.js" "keyboard.js" "keys.js" "now.js" "panel.js" "parts.js" "rail.js" "requests.js" "route.js"
    "sessions.js" "signin.js" "state.js" "steady.js" "store.js" "stream.js" "time.js" "timeline.js"
    "waits.js" "worker.js"
}

/// A file as it is sent.
pub struct WebFile {
    pub content_type: &'static str,
    pub plain: Bytes,
    pub gzip: Bytes,
    /// The entity tag of a page, which has no directory of its own.
    pub tag: String,
}

/// All files, ready to be sent.
pub struct Site {
    /// The name of the directory.
    pub directory: String,
    files: HashMap<&'static str, WebFile>,
}

/// Made when it is first needed: a server that no browser uses compresses nothing.
pub static SITE: LazyLock<Site> = LazyLock::new(Site::new);

impl Site {
    fn new() -> Site {
        let directory = directory_name();
        let files = FILES.iter().map(|(name, bytes)| (*name, WebFile::new(name, bytes, &directory))).collect();
        Site { directory, files }
    }

    /// A page: it has the name of the directory in it.
    pub fn page(&self, name: &str) -> &WebFile {
        &self.files[name]
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> Option<&WebFile> {
        self.files.get(name).filter(|_| !name.ends_with(".html"))
    }
}

impl WebFile {
    fn new(name: &str, bytes: &'static [u8], directory: &str) -> WebFile {
        let (content_type, plain) = match name.rsplit_once('.') {
            Some((_, "html")) => {
                let text = std::str::from_utf8(bytes).expect("pages are UTF-8");
                ("text/html; charset=utf-8", Bytes::from(text.replace(DIRECTORY_MARK, directory)))
            }
            Some((_, "css")) => ("text/css; charset=utf-8", Bytes::from_static(bytes)),
            Some((_, "svg")) => ("image/svg+xml", Bytes::from_static(bytes)),
            _ => {
                let text = std::str::from_utf8(bytes).expect("scripts are UTF-8");
                ("text/javascript; charset=utf-8", Bytes::from(without_comments(text)))
            }
        };
        let tag = format!("\"{}\"", hex::encode(&aws_lc_rs::digest::digest(&SHA256, &plain).as_ref()[..HASH_BYTES]));
        WebFile { content_type, gzip: gzip::compress(&plain).into(), plain, tag }
    }
}

/// A script without the lines that are comments. They become empty lines, so that errors name the lines of `web/`.
fn without_comments(script: &str) -> String {
    let mut text = String::with_capacity(script.len());
    let mut is_in_comment = false;
    for line in script.lines() {
        let trimmed = line.trim();
        if is_in_comment || trimmed.starts_with("/**") {
            is_in_comment = !trimmed.ends_with("*/");
        } else if !trimmed.starts_with("//") {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

fn directory_name() -> String {
    let mut hash = Context::new(&SHA256);
    for (name, bytes) in FILES {
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hex::encode(&hash.finish().as_ref()[..HASH_BYTES])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Everything that a browser may load, compressed, in bytes.
    const SITE_BYTES_MAX: usize = 120 * 1024;
    /// What the first view loads: the page and everything that it names.
    const FIRST_VIEW_BYTES_MAX: usize = 50 * 1024;

    fn web_dir() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web")
    }

    #[test]
    fn every_file_of_the_directory_is_in_the_binary() {
        let is_served = |name: &String| [".html", ".css", ".js", ".svg"].iter().any(|end| name.ends_with(end));
        let on_disk =
            std::fs::read_dir(web_dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let on_disk: BTreeSet<String> = on_disk.filter(is_served).collect();
        let inside: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(on_disk, inside, "in web/ (left) and in the list (right)");
    }

    #[test]
    fn the_files_are_small() {
        let total: usize = SITE.files.values().map(|file| file.gzip.len()).sum();
        assert!(total <= SITE_BYTES_MAX, "{total} bytes compressed in all");
        let page = SITE.page("index.html");
        let text = std::str::from_utf8(&page.plain).unwrap();
        let named = FILES.iter().filter(|(name, _)| text.contains(&format!("/{name}\"")));
        // These two are loaded at once as well, by the first module.
        let at_once = ["keyboard.js", "worker.js"].map(|name| SITE.files[name].gzip.len()).iter().sum::<usize>();
        let first = named.map(|(name, _)| SITE.files[name].gzip.len()).sum::<usize>() + page.gzip.len() + at_once;
        println!("{first} bytes compressed in the first view, {total} in all");
        assert!(first <= FIRST_VIEW_BYTES_MAX, "{first} bytes compressed in the first view");
    }

    #[test]
    fn comments_are_left_out_and_lines_stay_where_they_are() {
        let script = "// a\nconst x = \"// b\"; // c\n/** d */\nf();\n  /**\n   * e\n   */\n  g();\n";
        assert_eq!(without_comments(script), "\nconst x = \"// b\"; // c\n\nf();\n\n\n\n  g();\n");
        for (name, bytes) in FILES.iter().filter(|(name, _)| name.ends_with(".js")) {
            let script = std::str::from_utf8(bytes).unwrap();
            for line in script.lines().map(str::trim).filter(|line| line.starts_with("/**")) {
                assert!(!line.contains("*/") || line.ends_with("*/"), "{name} has code behind a comment: {line}");
            }
            let served = without_comments(script);
            assert_eq!(served.lines().count(), script.lines().count(), "{name}");
            assert!(served.lines().any(|line| !line.is_empty()), "{name}");
        }
    }

    /// One round of requests: every module that the first one imports, directly or not, is named in the page.
    #[test]
    fn the_page_names_every_module_that_its_first_view_imports() {
        let page = std::str::from_utf8(&SITE.page("index.html").plain).unwrap().to_owned();
        let (mut seen, mut rest) = (BTreeSet::new(), vec!["app.js".to_owned()]);
        while let Some(name) = rest.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            assert!(page.contains(&format!("{}/{name}\"", SITE.directory)), "index.html does not name {name}");
            let file = SITE.file(&name).unwrap_or_else(|| panic!("{name} is imported and does not exist"));
            let text = std::str::from_utf8(&file.plain).unwrap();
            rest.extend(text.lines().filter_map(imported));
        }
    }

    /// The file that a line `import … from "./name.js";` names.
    fn imported(line: &str) -> Option<String> {
        let line = line.trim();
        let is_import = line.starts_with("import ") || line.starts_with("export ") || line.starts_with("} from ");
        let name = line.split_once("from \"./")?.1.split_once('"')?.0;
        is_import.then(|| name.to_owned())
    }

    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
        for name in ["index.html", "docs.html"] {
            let text = std::str::from_utf8(&SITE.page(name).plain).unwrap();
            for bad in ["<style", " style=", "onclick", "onload", "http:", "https:", "<script>", DIRECTORY_MARK] {
                assert!(!text.contains(bad), "{name} has {bad}");
            }
        }
        for (name, bytes) in FILES.iter().filter(|(name, _)| name.ends_with(".css")) {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(!text.contains("@import") && !text.contains("url("), "{name} loads something");
        }
    }

    #[test]
    fn vendored_files_are_the_ones_in_the_manifest() {
        let manifest = std::fs::read(web_dir().join("vendored.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let files = manifest.as_array().unwrap();
        assert!(!files.is_empty());
        for file in files {
            let name = file["file"].as_str().unwrap();
            let bytes = std::fs::read(web_dir().join(name)).unwrap();
            let sum = hex::encode(aws_lc_rs::digest::digest(&SHA256, &bytes).as_ref());
            assert_eq!(file["sha256"], *sum, "{name} was changed");
            let licence = file["licenceFile"].as_str().unwrap();
            assert!(web_dir().join(licence).is_file(), "{licence} is missing");
        }
    }
}
