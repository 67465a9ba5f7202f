//! Compresses a file of the page with gzip. zlib is linked anyway, for libgit2.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};

use libz_sys::{
    Z_BEST_COMPRESSION, Z_DEFAULT_STRATEGY, Z_DEFLATED, Z_FINISH, Z_OK, Z_STREAM_END, deflate, deflateBound,
    deflateEnd, deflateInit2_, uInt, uLong, z_stream, zlibVersion,
};

/// The largest window, with the head and the checksum of gzip.
const WINDOW_BITS: c_int = 15 + 16;

/// The default of zlib.
const MEMORY_LEVEL: c_int = 8;

/// The bytes, compressed as small as zlib can.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let length = uInt::try_from(bytes.len()).expect("a file of the page is small");
    let mut stream = Box::new(MaybeUninit::<z_stream>::zeroed());
    let mut out = Vec::new();
    // SAFETY: zlib asks for a zeroed stream, whose null functions mean its own allocator; after `deflateInit2_` it is a
    // valid value, and the box keeps its address. Both pointers are to live memory of the lengths given with them, and
    // zlib promises to need no more than `deflateBound`. The length is set to what was written.
    unsafe {
        let stream_size = size_of::<z_stream>() as c_int;
        let status = deflateInit2_(
            stream.as_mut_ptr(),
            Z_BEST_COMPRESSION,
            Z_DEFLATED,
            WINDOW_BITS,
            MEMORY_LEVEL,
            Z_DEFAULT_STRATEGY,
            zlibVersion(),
            stream_size,
        );
        assert_eq!(status, Z_OK, "zlib has the memory for a stream");
        let stream = &mut *stream.as_mut_ptr();
        let room = deflateBound(stream, uLong::from(length)) as usize;
        out.reserve_exact(room);
        stream.next_in = bytes.as_ptr().cast_mut();
        stream.avail_in = length;
        stream.next_out = out.as_mut_ptr();
        stream.avail_out = uInt::try_from(room).expect("little more than the file");
        assert_eq!(deflate(stream, Z_FINISH), Z_STREAM_END, "there is room for all of it");
        out.set_len(room - stream.avail_out as usize);
        deflateEnd(stream);
    }
    out.shrink_to_fit();
    out
}
