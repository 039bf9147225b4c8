//! What the tests share: an interpreter of plans, an evaluator of graphs, and graphs.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod evaluate;
pub mod interpret;
pub mod machine;
pub mod minilm;
pub mod random;

use breakeven_ir::{Caps, Graph, Kernel, NodeId, Op, Params, Row, Unsupported, View};
use breakeven_plan::{DeviceProfile, DeviceView, Home, Machine, Plan, Policy, never_lowers, plan};

/// A machine with nothing but a CPU that can do everything.
pub fn plan_on_cpu(graph: &Graph, home: &Home, policy: &Policy) -> Plan {
    let (caps, profile) = (Caps::host(), DeviceProfile::default());
    let cpu = DeviceView {
        name: "cpu".into(),
        caps: &caps,
        profile: &profile,
        supports: &anything,
        lowers: &never_lowers,
        automatic: true,
    };
    plan(graph, home, policy, &Machine { devices: vec![cpu] }).expect("a CPU runs everything")
}

/// Supports every kernel.
#[allow(clippy::unnecessary_wraps, reason = "its type is that of any device's answer")]
pub fn anything(_: &Kernel) -> Result<(), Unsupported> {
    Ok(())
}

pub fn map(name: &str) -> Op {
    Op::Map(Row::named(name).expect("a row of the table"), Params::new())
}

/// Adds nodes without the noise of results.
pub struct Write(pub Graph);

impl Write {
    pub fn op(&mut self, op: Op, inputs: &[NodeId]) -> NodeId {
        self.0.add(op, inputs).expect("a right call")
    }

    pub fn map(&mut self, name: &str, inputs: &[NodeId]) -> NodeId {
        self.op(map(name), inputs)
    }

    pub fn reshape(&mut self, x: NodeId, shape: &[usize]) -> NodeId {
        self.op(Op::View(View::Reshape(shape.into())), &[x])
    }

    pub fn permute(&mut self, x: NodeId, axes: &[usize]) -> NodeId {
        self.op(Op::View(View::Permute(axes.into())), &[x])
    }

    pub fn broadcast(&mut self, x: NodeId, shape: &[usize]) -> NodeId {
        self.op(Op::View(View::Broadcast(shape.into())), &[x])
    }

    pub fn slice(&mut self, x: NodeId, axis: usize, start: usize, count: usize, step: isize) -> NodeId {
        self.op(Op::View(View::Slice { axis, start, count, step }), &[x])
    }

    pub fn window(&mut self, x: NodeId, axis: usize, size: usize, apart: [usize; 2]) -> NodeId {
        let [step, dilation] = apart;
        self.op(Op::View(View::Window { axis, size, step, dilation }), &[x])
    }

    pub fn fill(&mut self, value: f64, shape: &[usize]) -> NodeId {
        let one = self.0.fill(breakeven_ir::DType::F32, value);
        self.broadcast(one, shape)
    }

    pub fn input(&mut self, shape: &[usize]) -> NodeId {
        self.0.input(breakeven_ir::Spec::new(breakeven_ir::DType::F32, shape))
    }
}
