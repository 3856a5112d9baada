//! Gives arbitrary bytes to the decoder `array`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (name, decode) = partita_flower::DECODERS[1];
    assert_eq!(name, "array");
    decode(bytes);
});
