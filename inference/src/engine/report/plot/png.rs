//! Encodes a picture in red, green and blue as PNG: three chunks, each with its length and its checksum.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// The bytes of a PNG file with 8 bits a channel.
///
/// `pixels` are red, green and blue of each pixel, row by row.
///
/// # References
/// W3C (2003), Portable Network Graphics (PNG) specification, second edition, sections 5 and 9.
pub(super) fn encode(width: u32, height: u32, pixels: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // Eight bits a channel, true colour, and the only methods there are of compression, filtering and no interlacing.
    header.extend([8, 2, 0, 0, 0]);
    let mut lines = ZlibEncoder::new(Vec::new(), Compression::default());
    for line in pixels.chunks_exact(3 * width as usize) {
        lines.write_all(&[0])?;
        lines.write_all(line)?;
    }
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut bytes, *b"IHDR", &header)?;
    chunk(&mut bytes, *b"IDAT", &lines.finish()?)?;
    chunk(&mut bytes, *b"IEND", &[])?;
    Ok(bytes)
}

/// Appends the length of `data`, the name and the data themselves, and the checksum of both.
fn chunk(bytes: &mut Vec<u8>, name: [u8; 4], data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(|_| io::Error::other("more than 4 GiB of compressed pixels"))?;
    let mut sum = Crc::new();
    sum.update(&name);
    sum.update(data);
    bytes.extend(length.to_be_bytes());
    bytes.extend(name);
    bytes.extend(data);
    bytes.extend(sum.sum().to_be_bytes());
    Ok(())
}
