//! Gives arbitrary bytes to the decoder `message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[2];
    assert_eq!(name, "message");
    decode(bytes);
});
