//! Claims that operations of Burn on latents that reach no density leave no memory behind, however often they run.

use std::sync::atomic::Ordering::Relaxed;

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Latents, LogDensity, Model, SiteTable};
use partita::{Device, Normal, Result, Scope};

use super::{ALONE, LIVE, PEAK};

/// A mean, and twice the mean for reports: a product that Burn notes and no backward pass of Burn meets.
#[derive(Module, Debug)]
struct Reported {}

impl Model for Reported {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let mean = scope.sample("mean", Normal::new(0.0, 1.0))?;
        scope.deterministic("twice", mean.clone() * 2.0)?;
        Ok(mean)
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
        })
    }
}

/// The most live bytes that so many evaluations on a thread of their own add.
fn grown(evaluations: usize) -> usize {
    let work = move || {
        let device = Device::flex();
        let data = device.tensor(vec![1.0, 2.0], [2]);
        let table = SiteTable::of(&Reported {}, &device, &data).unwrap();
        let density = LogDensity::new(&Reported {}, &device, &table);
        let evaluate = || density.local(Latents { globals: &[0.5], locals: &[vec![]] }, &data).unwrap();
        assert!((evaluate().globals[0] - 2.0).abs() < 1e-12);
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        (0..evaluations).for_each(|_| drop(evaluate()));
        PEAK.load(Relaxed) - before
    };
    std::thread::spawn(work).join().unwrap()
}

#[test]
fn operations_of_burn_that_reach_no_density_leave_no_memory_behind() {
    let _alone = ALONE.lock().unwrap();
    // What Burn keeps where nothing sweeps: after the first evaluation of a thread the next to sweep is the 1,025th.
    let kept = grown(1_000);
    assert!(kept > 1_000 * 64, "{kept} bytes: Burn keeps nothing, and the sweep is not needed");
    let found = grown(100_000);
    assert!(found < 8 * kept, "{found} bytes for 100,000 evaluations, and {kept} for 1,000");
}

#[test]
fn threads_that_end_soon_leave_no_memory_behind() {
    let _alone = ALONE.lock().unwrap();
    let kept = grown(1_000);
    let before = LIVE.load(Relaxed);
    for _ in 0..20 {
        grown(1_000);
    }
    let found = LIVE.load(Relaxed).saturating_sub(before);
    assert!(found < 4 * kept, "{found} bytes of twenty threads, and {kept} of one");
}
