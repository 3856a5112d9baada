//! Gives arbitrary bytes to the decoder `pulled`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[4];
    assert_eq!(name, "pulled");
    decode(bytes);
});
