//! Reads an index file from its first entry to its last, without copying it.
//!
//! Reads versions 2, 3 and 4 as git writes them for SHA-1 repositories. For everything else (a split or sparse index, a
//! required extension that is unknown, a path in conflict, an impossible length) the result is `None`; then the git
//! program is used, which reads everything or says what is wrong.

/// The length of an object id.
const OID: usize = 20;
/// The length of an entry before its flags: times, device, inode, mode, owner, size and the object id.
const FIXED: usize = 40 + OID;
/// Flag: two more bytes of flags follow (version 3 and later).
const EXTENDED: u16 = 0x4000;
/// Flags: which side of a conflict the entry is.
const STAGE: u16 = 0x3000;
/// Flags: the length of the name, if it is shorter than this.
const NAME_LENGTH: u16 = 0x0fff;
/// Second flags: made by `git add --intent-to-add`.
const INTENT_TO_ADD: u16 = 0x2000;

/// Reads one entry after the other.
pub struct Entries<'a> {
    bytes: &'a [u8],
    /// The offset of the entry after the current one.
    at: usize,
    /// The number of entries after the current one.
    left: u32,
    compressed: bool,
    current: Option<Entry<'a>>,
    /// The current name in version 4, where names are stored as differences to the name before.
    name: Vec<u8>,
}

/// One entry; its name is [`Entries::name`].
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub mode: u32,
    pub oid: &'a [u8],
    /// It was made by `git add --intent-to-add`, and is not part of the commit.
    pub is_intended: bool,
    plain_name: &'a [u8],
}

/// The cached trees of the index: one node for each directory, the root first.
pub struct CacheTree<'a> {
    /// The number of entries in the directory and its tree, if nothing has changed since the tree was written.
    pub written: Option<(u32, &'a [u8])>,
    name: &'a [u8],
    /// Sorted by name.
    children: Vec<CacheTree<'a>>,
}

impl<'a> Entries<'a> {
    /// Starts at the first entry. Also returns the cached trees.
    pub fn of_file(bytes: &'a [u8]) -> Option<(Entries<'a>, Option<CacheTree<'a>>)> {
        let body = bytes.get(..bytes.len().checked_sub(OID)?)?;
        let rest = body.strip_prefix(b"DIRC")?;
        let (version, rest) = number(rest)?;
        let (count, _) = number(rest)?;
        if !matches!(version, 2..=4) {
            return None;
        }
        let begin = || {
            let (left, compressed) = (count, version == 4);
            let mut entries = Entries { bytes: body, at: 12, left, compressed, current: None, name: Vec::new() };
            entries.advance().then_some(entries)
        };
        // The extensions tell whether there are entries elsewhere.
        let mut end = begin()?;
        end.skip(count)?;
        let tree = extensions(body.get(end.at..)?)?;
        Some((begin()?, tree))
    }

    /// The current entry; none after the last one.
    pub fn entry(&self) -> Option<Entry<'a>> {
        self.current
    }

    /// The name of the current entry.
    pub fn name(&self) -> &[u8] {
        match self.current {
            Some(entry) if !self.compressed => entry.plain_name,
            _ => &self.name,
        }
    }

    /// Moves to the next entry, or past the last one. False if the file is damaged.
    #[must_use]
    pub fn advance(&mut self) -> bool {
        self.current = None;
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        self.current = self.read();
        self.current.is_some()
    }

    /// Skips this many entries.
    pub fn skip(&mut self, count: u32) -> Option<()> {
        for _ in 0..count {
            self.current?;
            self.advance().then_some(())?;
        }
        Some(())
    }

    fn read(&mut self) -> Option<Entry<'a>> {
        let entry = self.bytes.get(self.at..)?;
        let mode = u32::from_be_bytes(entry.get(24..28)?.try_into().ok()?);
        let oid = entry.get(40..FIXED)?;
        let flags = short(entry, FIXED)?;
        if flags & STAGE != 0 {
            return None;
        }
        let is_extended = flags & EXTENDED != 0;
        let more = if is_extended { short(entry, FIXED + 2)? } else { 0 };
        let before_name = FIXED + if is_extended { 4 } else { 2 };
        let rest = &entry[before_name..];
        let plain_name = if self.compressed {
            let used = self.uncompress(rest)?;
            self.at += before_name + used;
            &[]
        } else {
            let length = match flags & NAME_LENGTH {
                NAME_LENGTH => rest.iter().position(|&b| b == 0)?,
                length => usize::from(length),
            };
            let name = rest.get(..length)?;
            // Padded with at least one NUL to a multiple of eight bytes.
            self.at += (before_name + length + 8) & !7;
            name
        };
        Some(Entry { mode, oid, is_intended: more & INTENT_TO_ADD != 0, plain_name })
    }

    /// Version 4: the number of bytes to drop from the name before, then the bytes to append. Returns the length of both.
    fn uncompress(&mut self, rest: &[u8]) -> Option<usize> {
        let mut used = 0;
        let mut dropped: usize = 0;
        loop {
            let byte = *rest.get(used)?;
            used += 1;
            dropped = dropped.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                break;
            }
            dropped += 1;
        }
        let kept = self.name.len().checked_sub(dropped)?;
        let added = rest[used..].iter().position(|&b| b == 0)?;
        self.name.truncate(kept);
        self.name.extend_from_slice(&rest[used..used + added]);
        Some(used + added + 1)
    }
}

impl<'a> CacheTree<'a> {
    /// The node of a directory in this one.
    pub fn child(&self, name: &[u8]) -> Option<&CacheTree<'a>> {
        let at = self.children.binary_search_by(|child| child.name.cmp(name)).ok()?;
        Some(&self.children[at])
    }

    /// Reads one node and everything below it. Also returns the rest.
    fn read(bytes: &'a [u8], depth: usize) -> Option<(CacheTree<'a>, &'a [u8])> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (name, rest) = until(bytes, 0)?;
        let (count, rest) = until(rest, b' ')?;
        let (directories, mut rest) = until(rest, b'\n')?;
        let count: i64 = std::str::from_utf8(count).ok()?.parse().ok()?;
        let directories: usize = std::str::from_utf8(directories).ok()?.parse().ok()?;
        let mut written = None;
        // A negative count means that the directory has changed since.
        if let Ok(count) = u32::try_from(count) {
            written = Some((count, rest.get(..OID)?));
            rest = &rest[OID..];
        }
        let mut children = Vec::new();
        for _ in 0..directories {
            let child;
            (child, rest) = CacheTree::read(rest, depth + 1)?;
            children.push(child);
        }
        children.sort_unstable_by(|a, b| a.name.cmp(b.name));
        Some((CacheTree { written, name, children }, rest))
    }
}

/// The depth of the deepest path of 4096 bytes.
const DEPTH_MAX: usize = 2048;

/// Reads the extensions. `None` if a required one is unknown.
fn extensions(mut bytes: &[u8]) -> Option<Option<CacheTree<'_>>> {
    let mut tree = None;
    while !bytes.is_empty() {
        let name = bytes.get(..4)?;
        let (length, rest) = number(&bytes[4..])?;
        let body = rest.get(..usize::try_from(length).ok()?)?;
        if name == b"TREE" {
            tree = CacheTree::read(body, 0).map(|(tree, _)| tree);
        } else if !name[0].is_ascii_uppercase() {
            return None;
        }
        bytes = &rest[body.len()..];
    }
    Some(tree)
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&b| b == end)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}
