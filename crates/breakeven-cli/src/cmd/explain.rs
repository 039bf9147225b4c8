//! `breakeven explain`: each step of a model's plan, its device, and why there.

use breakeven::Tensor;

use crate::model::{Given, Session};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  breakeven explain model.onnx --random --dim batch=8")]
pub struct Explain {
    #[command(flatten)]
    given: Given,
}

impl Explain {
    /// Plan it and print the plan; nothing runs but what decides shapes or the way through the graph.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let session = Session::open(&self.given)?;
        let outputs = session.write_down(&session.fresh_inputs()?)?;
        let placed = session.placed(&outputs);
        let tensors: Vec<&Tensor> = placed.iter().collect();
        let plan = session.engine.explain(&tensors).map_err(|e| session.refused(e))?;
        if as_json {
            println!("{}", plan.explain_json());
        } else {
            print!("{plan}");
        }
        Ok(())
    }
}
