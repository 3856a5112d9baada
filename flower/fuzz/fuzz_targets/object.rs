//! Gives arbitrary bytes to the decoder `object`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[0];
    assert_eq!(name, "object");
    decode(bytes);
});
