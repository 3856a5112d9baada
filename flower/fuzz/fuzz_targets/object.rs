//! Gives arbitrary bytes to the decoder `object`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita_flower::DECODERS.iter().find(|(name, _)| *name == "object") {
        decode(bytes);
    } else {
        panic!("there is no decoder `object`");
    }
});
