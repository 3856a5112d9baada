//! Holds a masked step that is asked for again under new keys to one step.

use partita_models::{MixedLogistic, RepeatedBinary, six_cities};

use super::*;

/// A silo of a mixed model, whose steps move its own parameters, without noise behind masks.
fn mixed(place: usize) -> MaskedSilo {
    let (device, names) = (Device::flex(), NAMES.map(str::to_owned));
    let rows = RepeatedBinary::six_cities(&six_cities()[150 * place..][..8], &device).unwrap();
    let own = silo_program(&MixedLogistic::new(4), &names, place as u32, &rows, &device, &sfvi()).unwrap().0;
    without_noise(own, place)
}

/// The same, started again from its saved state at its fourth request, a masked sum.
struct StartedAgain {
    own: MaskedSilo,
    folder: tempfile::TempDir,
    asked: usize,
}

impl SiloProgram for StartedAgain {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        self.asked += 1;
        if self.asked == 4 {
            let told = |kind| Message::new(kind).setting("folder", &self.folder.path().to_string_lossy());
            self.own.answer(&told("silo.save"))?;
            self.own = mixed(1);
            self.own.answer(&told("silo.restore"))?;
        }
        self.own.answer(request)
    }
}

#[test]
fn a_step_asked_for_again_under_new_keys_is_taken_once() {
    let found = |is_cut: bool| {
        let programs = (0..3).map(|place| match place {
            1 if is_cut => {
                let folder = tempfile::tempdir().unwrap();
                Box::new(StartedAgain { own: mixed(1), folder, asked: 0 }) as Box<dyn SiloProgram>
            }
            _ => Box::new(mixed(place)),
        });
        let mut own = in_process(programs.collect());
        let names = NAMES.map(str::to_owned);
        let mut method = coordinator(&MixedLogistic::new(4), &names, &[8; 3], &Device::flex(), &sfvi()).unwrap();
        let how = RunOptions { steps: 30, ..RunOptions::default() };
        let record = run(&mut *method, &mut SecureSums::new(&mut own), &how, &mut Silent).unwrap();
        (method.posterior().parameters.to_vec(), record.counters.rounds)
    };
    let ((parameters, rounds), (expected, of_whole)) = (found(true), found(false));
    assert_eq!((parameters, rounds), (expected, of_whole));
}
