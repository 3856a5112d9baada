//! Gives arbitrary bytes to the decoder `signed_key`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((_, decode)) = partita::private::DECODERS.iter().find(|(name, _)| *name == "signed_key") {
        decode(bytes);
    } else {
        panic!("there is no decoder `signed_key`");
    }
});
