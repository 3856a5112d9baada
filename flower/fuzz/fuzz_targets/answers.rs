//! Gives arbitrary bytes to the decoder `answers`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[5];
    assert_eq!(name, "answers");
    decode(bytes);
});
