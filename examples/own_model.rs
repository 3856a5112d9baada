//! Gives a model of a user's own the commands of `partita`: fit, check and calibrate find it by its name.
//!
//! ```sh
//! printf 'y\n1.5\n2.25\n0.75\n' > north.csv && printf 'y\n2.5\n1.25\n' > south.csv
//! cargo run --release --features cli --example own_model -- fit --model mean --silo north.csv --silo south.csv
//! ```
//!
//! What you should see: the mean behind the five numbers of both files, 1.65 with a standard deviation of 0.45, and the
//! verdict. `fit --model list` names this model beside those of `partita`.

use std::process::ExitCode;

use partita::burn::{self, module::Module, tensor::Tensor};
use partita::commands::{Models, run};
use partita::{Model, Normal, Result, Scope, Table};

/// Numbers of unit variance around one mean.
#[derive(Module, Debug)]
struct Mean {}

impl Model for Mean {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 10.0))
    }

    fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
        })
    }
}

fn main() -> ExitCode {
    let models = Models::usual().with(
        "mean",
        "a table with a column y",
        |_: &[(String, Tensor<1>)]| Mean {},
        |path, device| {
            let [y] = Table::from_path(path)?.numbers(["y"])?;
            let rows = y.len();
            Ok(device.tensor(y, [rows]))
        },
    );
    run(&models)
}
