//! Gives arbitrary bytes to the decoder `pulled`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita_flower::DECODERS.iter().find(|(name, _)| *name == "pulled") {
        decode(bytes);
    } else {
        panic!("there is no decoder `pulled`");
    }
});
