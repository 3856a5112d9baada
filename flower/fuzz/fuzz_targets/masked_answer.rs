//! Gives arbitrary bytes to the decoder `masked_answer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita::private::DECODERS.iter().find(|(name, _)| *name == "masked_answer") {
        decode(bytes);
    } else {
        panic!("there is no decoder `masked_answer`");
    }
});
