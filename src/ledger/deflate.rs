//! zlib compression for git objects. zlib is linked anyway, for libgit2; only what a pack needs is called.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};

use libz_sys::{
    Z_FINISH, Z_OK, Z_STREAM_END, deflate, deflateBound, deflateEnd, deflateInit_, deflateReset, uInt, uLong, z_stream,
    zlibVersion,
};

/// Fast rather than small: the next repack stores most objects as deltas anyway.
const LEVEL: c_int = 3;

/// A reusable compressor; setting zlib up costs more than compressing a small object.
pub struct Deflate(Box<z_stream>);

// SAFETY: a stream has one owner, and zlib keeps no state per thread.
unsafe impl Send for Deflate {}

impl Deflate {
    pub fn new() -> Deflate {
        let mut stream = Box::new(MaybeUninit::<z_stream>::zeroed());
        // SAFETY: zlib asks for a zeroed stream, whose null functions mean its own allocator. The box keeps the address
        // that zlib remembers.
        let status = unsafe { deflateInit_(stream.as_mut_ptr(), LEVEL, zlibVersion(), size_of::<z_stream>() as c_int) };
        assert_eq!(status, Z_OK, "zlib has the memory for a stream");
        // SAFETY: the call above filled it in. The functions it holds are set by now, so it is a valid value.
        Deflate(unsafe { stream.assume_init() })
    }

    /// Appends the compressed `piece` to `out`.
    pub fn append(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let length = uInt::try_from(piece.len()).expect("an object of a flush stays under four gigabytes");
        let stream = &mut *self.0;
        // SAFETY: the stream was set up in `new`. Both pointers are to live memory of the lengths given with them, and
        // zlib promises to need no more than `deflateBound`.
        let compressed_len = unsafe {
            assert_eq!(deflateReset(stream), Z_OK, "the stream is whole");
            let room = deflateBound(stream, uLong::from(length)) as usize;
            out.reserve(room);
            stream.next_in = piece.as_ptr().cast_mut();
            stream.avail_in = length;
            stream.next_out = out.as_mut_ptr().add(out.len());
            stream.avail_out = uInt::try_from(room).expect("little more than the object");
            assert_eq!(deflate(stream, Z_FINISH), Z_STREAM_END, "there is room for all of it");
            room - stream.avail_out as usize
        };
        // SAFETY: that many bytes after the length were just written, within the reserved capacity.
        unsafe { out.set_len(out.len() + compressed_len) };
    }
}

impl Drop for Deflate {
    fn drop(&mut self) {
        // SAFETY: set up in `new` and not ended before.
        unsafe { deflateEnd(&mut *self.0) };
    }
}

/// The checksum that a pack index has for each object.
pub fn crc32(bytes: &[u8]) -> u32 {
    let length = uInt::try_from(bytes.len()).expect("an object of a flush stays under four gigabytes");
    // SAFETY: the pointer is to live memory of that length.
    unsafe { libz_sys::crc32(0, bytes.as_ptr(), length) as u32 }
}
