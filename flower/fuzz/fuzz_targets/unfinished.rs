//! Gives arbitrary bytes to the decoder `unfinished`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita_flower::DECODERS.iter().find(|(name, _)| *name == "unfinished") {
        decode(bytes);
    } else {
        panic!("there is no decoder `unfinished`");
    }
});
