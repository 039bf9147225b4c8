//! Explanations for people: what a plan does, step by step, and why there.

use std::fmt;

use breakeven_ir::{AttentionKernel, ConvKernel, Kernel, Layout, Precision, Shape};

use crate::{Decision, Flip, Parts, Plan, Split};

/// A kernel in words.
pub fn describe(kernel: &Kernel) -> String {
    let fused = |rows: usize| if rows == 0 { String::new() } else { format!(" with {rows} fused") };
    let shape = |layout: &Layout| layout.shape.to_string();
    match kernel {
        Kernel::Map(k) if k.is_copy() => format!("copy {}", shape(&k.out.layout)),
        Kernel::Map(k) => format!("map of {} over {}", names(&k.expr), shape(&k.out.layout)),
        Kernel::Reduce(k) => {
            let rows = fused(k.pre.rows() + k.post.rows());
            format!("{} over {} of {}{rows}", k.fold.name(), k.inner, k.outer)
        }
        Kernel::Scan(k) => format!("running {} over {} of {}", k.fold.name(), k.length, k.outer),
        Kernel::Sort(k) if k.keep < k.length => format!("first {} in order over {} of {}", k.keep, k.length, k.outer),
        Kernel::Sort(k) => format!("sort over {} of {}", k.length, k.outer),
        Kernel::RowWise(k) => {
            let rows = fused(k.pre.rows() + k.post.rows());
            format!("{} over {} of {}{rows}", k.kind.name(), k.length, k.outer)
        }
        Kernel::MatMul(k) => {
            let batch = if k.batch.rank() == 0 { String::new() } else { format!("{} x ", k.batch) };
            let sums = if k.is_of_bytes() { "matmul_int" } else { "matmul" };
            let at = match k.precision {
                Precision::Highest => String::new(),
                less => format!(" at {less} precision"),
            };
            format!("{sums} {batch}[{}, {}] @ [{}, {}]{}{at}", k.m, k.k, k.k, k.n, fused(k.post.rows()))
        }
        Kernel::Conv(k) => {
            let groups = k.x.layout.shape[1];
            let grouped = if groups == 1 { String::new() } else { format!(" in {groups} groups") };
            let window = Shape::from(&k.weight.layout.shape[ConvKernel::LEAD..]);
            let (channels, rows) = (k.x.layout.shape[2], fused(k.post.rows()));
            format!("conv {window} of {channels} channels{grouped} giving {}{rows}", shape(&k.out.layout))
        }
        Kernel::Attention(k) => attention(k),
        Kernel::Scatter(k) => {
            format!("{} {} into {}", k.combine.name(), shape(&k.updates.layout), shape(&k.out.layout))
        }
        Kernel::Custom(k) => {
            let outs: Vec<String> = k.outs.iter().map(|out| shape(&out.layout)).collect();
            format!("custom {} giving {}", k.op.name(), outs.join(", "))
        }
        Kernel::Gather(k) => format!("gather {} from {}", shape(&k.index.layout), shape(&k.source.layout)),
    }
}

fn attention(k: &AttentionKernel) -> String {
    let causal = if k.seen.is_some() { "causal " } else { "" };
    format!("{causal}attention of {} over {} keys giving {}", k.q.layout.shape, k.keys(), k.out.layout.shape)
}

/// The rows of an expression, the first few by name.
fn names(expr: &breakeven_ir::Expr) -> String {
    const NAMED: usize = 4;
    let name = |(item, _): &(breakeven_ir::Item, _)| match item {
        breakeven_ir::Item::Row(row, _) => Some(row.name),
        breakeven_ir::Item::Cast(_) => Some("cast"),
        _ => None,
    };
    let all: Vec<&str> = expr.items().iter().filter_map(name).collect();
    match all.len() {
        0 => "a number".to_owned(),
        n if n <= NAMED => all.join(", "),
        n => format!("{}, .. ({n} rows)", all[..NAMED].join(", ")),
    }
}

impl Plan {
    /// The decisions as JSON, one object each.
    pub fn explain_json(&self) -> String {
        serde_json::to_string_pretty(&self.decisions).expect("decisions are numbers and names")
    }

    fn name(&self, decision: &Decision) -> &str {
        self.devices.get(decision.device.0).map_or("?", String::as_str)
    }

    fn write_decision(&self, f: &mut fmt::Formatter<'_>, decision: &Decision) -> fmt::Result {
        let widest = self.devices.iter().map(String::len).max().unwrap_or(0);
        write!(f, "{:widest$}  {:<11} {}", self.name(decision), decision.reason.code(), decision.what)?;
        if let Some(products) = &decision.products {
            write!(f, " ({products})")?;
        }
        if let Some(Split { launches, because }) = &decision.split {
            write!(f, " in {launches} launches, since {because}")?;
        }
        if let Some(parts) = &decision.predicted {
            write!(f, ": {}", Spelled(parts))?;
        }
        if let Some((other, parts)) = &decision.runner_up {
            write!(f, "; {} would take {}", self.devices[other.0], time(parts.seconds()))?;
            if let Some(margin) = decision.margin() {
                write!(f, " ({:+.0}%)", margin * 100.0)?;
            }
        }
        for (device, why) in &decision.excluded {
            write!(f, "; not {}: {why}", self.devices[device.0])?;
        }
        decision.flip.map_or(Ok(()), |flip| self.write_flip(f, flip))?;
        writeln!(f)
    }

    fn write_flip(&self, f: &mut fmt::Formatter<'_>, flip: Flip) -> fmt::Result {
        let device = &self.devices[flip.device.0];
        match (flip.at_times, flip.if_resident) {
            (Some(times), true) => write!(f, "; {device} {}, or if its data were there", Times(times)),
            (Some(times), false) => write!(f, "; {device} {}", Times(times)),
            (None, true) => write!(f, "; {device} if its data were there"),
            (None, false) => Ok(()),
        }
    }
}

/// What it runs, where, and why there; one line for each kernel.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let launches: usize = self.counts.launches.iter().sum();
        let (copies, moved) = (self.counts.layout_copies, self.counts.moved_bytes);
        write!(f, "{launches} launches, {copies} layout copies, {moved} bytes moved")?;
        writeln!(f, ", {} predicted", time(self.predicted.seconds))?;
        self.decisions.iter().try_for_each(|decision| self.write_decision(f, decision))?;
        self.remarks.iter().try_for_each(|remark| writeln!(f, "note: {remark}"))
    }
}

/// From or below which share of the work.
struct Times(f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            times if times < 1.0 => write!(f, "below 1/{:.1} of the work", 1.0 / times),
            times => write!(f, "from {times:.1} times the work"),
        }
    }
}

/// Parts that are not nothing.
struct Spelled<'a>(&'a Parts);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { copy, dispatch, kernel, sync } = *self.0;
        write!(f, "{}", time(self.0.seconds()))?;
        let named = [("copy", copy), ("dispatch", dispatch), ("kernel", kernel), ("sync", sync)];
        let told: Vec<String> =
            named.iter().filter(|(_, s)| *s > 0.0).map(|(name, s)| format!("{name} {}", time(*s))).collect();
        if told.len() > 1 { write!(f, " ({})", told.join(", ")) } else { Ok(()) }
    }
}

/// Seconds as people read them.
fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}
