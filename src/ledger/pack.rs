//! Git objects, and the pack file with all objects of one flush.
//!
//! The formats are git's own and stable: a pack of version 2 with its index of version 2. We write them ourselves because
//! all objects are in memory: nothing is looked up in the ledger, so a flush costs the same no matter how long the history
//! is, and no deltas are computed that the next repack would compute again.

use std::collections::HashSet;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, digest};
use git2::Oid;

use super::deflate::{Deflate, crc32};

/// The type of an object, with its number in the pack format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
}

/// The id git gives an object.
pub fn id_of(kind: ObjectKind, body: &[u8]) -> Oid {
    let word = match kind {
        ObjectKind::Commit => "commit",
        ObjectKind::Tree => "tree",
        ObjectKind::Blob => "blob",
    };
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(format!("{word} {}\0", body.len()).as_bytes());
    context.update(body);
    Oid::from_bytes(context.finish().as_ref()).expect("SHA-1 has twenty bytes")
}

/// A pack that is being built.
pub struct Pack {
    bytes: Vec<u8>,
    /// Each object with its checksum and its offset in the pack.
    objects: Vec<(Oid, u32, u32)>,
    known: HashSet<Oid>,
    deflate: Deflate,
}

/// The two files of a pack.
pub struct PackFiles {
    /// The file name of both, without `pack-` and extension.
    pub name: String,
    pub pack: Vec<u8>,
    pub index: Vec<u8>,
}

impl Pack {
    pub fn new() -> Pack {
        Pack { bytes: header(0).to_vec(), objects: Vec::new(), known: HashSet::new(), deflate: Deflate::new() }
    }

    /// Adds an object, unless it is there already. Returns its id.
    ///
    /// # Panics
    ///
    /// If the pack reaches two gigabytes; a flush is far smaller.
    pub fn add(&mut self, kind: ObjectKind, body: &[u8]) -> Oid {
        let id = id_of(kind, body);
        if !self.known.insert(id) {
            return id;
        }
        let start = self.bytes.len();
        assert!(start < 1 << 31, "a pack of one flush stays under two gigabytes");
        let mut size = body.len() >> 4;
        let mut byte = (kind as u8) << 4 | (body.len() & 15) as u8;
        while size > 0 {
            self.bytes.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        self.bytes.push(byte);
        self.deflate.append(body, &mut self.bytes);
        self.objects.push((id, crc32(&self.bytes[start..]), start as u32));
        id
    }

    pub fn finish(mut self) -> PackFiles {
        let count = u32::try_from(self.objects.len()).expect("fewer objects than bytes");
        self.bytes[..12].copy_from_slice(&header(count));
        let checksum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &self.bytes);
        self.bytes.extend_from_slice(checksum.as_ref());
        self.objects.sort_unstable_by_key(|(id, ..)| *id);

        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=255_u8 {
            let below = self.objects.partition_point(|(id, ..)| id.as_bytes()[0] <= first);
            index.extend_from_slice(&(below as u32).to_be_bytes());
        }
        self.objects.iter().for_each(|(id, ..)| index.extend_from_slice(id.as_bytes()));
        self.objects.iter().for_each(|(_, crc, _)| index.extend_from_slice(&crc.to_be_bytes()));
        self.objects.iter().for_each(|(.., offset)| index.extend_from_slice(&offset.to_be_bytes()));
        index.extend_from_slice(checksum.as_ref());
        let own = digest(&SHA1_FOR_LEGACY_USE_ONLY, &index);
        index.extend_from_slice(own.as_ref());
        let name = Oid::from_bytes(checksum.as_ref()).expect("SHA-1 has twenty bytes").to_string();
        PackFiles { name, pack: self.bytes, index }
    }
}

fn header(objects: u32) -> [u8; 12] {
    let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
    header[8..].copy_from_slice(&objects.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_accepts_our_packs() {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let mut pack = Pack::new();
        let mut bodies = vec![Vec::new(), b"x".to_vec(), vec![b'y'; 15], vec![b'z'; 16], vec![7; 3 << 20]];
        bodies.extend((0..500).map(|n| format!("{n}").repeat(n).into_bytes()));
        let ids: Vec<Oid> = bodies.iter().map(|body| pack.add(ObjectKind::Blob, body)).collect();
        assert_eq!(pack.add(ObjectKind::Blob, b"x"), ids[1], "the same again is the same object");
        let packed = pack.finish();
        for (ending, bytes) in [("pack", &packed.pack), ("idx", &packed.index)] {
            std::fs::write(dir.path().join(format!("objects/pack/pack-{}.{ending}", packed.name)), bytes).unwrap();
        }
        for (id, body) in ids.iter().zip(&bodies) {
            assert_eq!(repo.find_blob(*id).unwrap().content(), body);
            assert_eq!(git2::Oid::hash_object(git2::ObjectType::Blob, body).unwrap(), *id);
        }
        let git = crate::git::Git::elsewhere(dir.path());
        let index = format!("objects/pack/pack-{}.idx", packed.name);
        git.args(["verify-pack", &index]).output().unwrap();
        crate::git::Git::elsewhere(dir.path()).args(["fsck", "--strict"]).output().unwrap();
    }
}
