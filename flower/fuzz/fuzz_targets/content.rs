//! Gives arbitrary bytes to the decoder `content`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita_flower::DECODERS.iter().find(|(name, _)| *name == "content") {
        decode(bytes);
    } else {
        panic!("there is no decoder `content`");
    }
});
