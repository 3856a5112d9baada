//! Gives arbitrary bytes to the decoder `sealed`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita_flower::DECODERS.iter().find(|(name, _)| *name == "sealed") {
        decode(bytes);
    } else {
        panic!("there is no decoder `sealed`");
    }
});
