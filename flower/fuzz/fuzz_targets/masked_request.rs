//! Gives arbitrary bytes to the decoder `masked_request`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita::private::DECODERS.iter().find(|(name, _)| *name == "masked_request") {
        decode(bytes);
    } else {
        panic!("there is no decoder `masked_request`");
    }
});
