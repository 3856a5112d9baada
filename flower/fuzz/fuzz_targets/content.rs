//! Gives arbitrary bytes to the decoder `content`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[3];
    assert_eq!(name, "content");
    decode(bytes);
});
