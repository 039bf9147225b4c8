//! Maps whose inputs lie across their output: square tiles pass through workgroup memory, so that neighbouring invocations
//! read neighbours and write neighbours.

use std::fmt::Write;

use crate::wgsl::{Access, Shader, Tensor, Walk, type_name};

/// Side of a tile; a workgroup of 256 invocations takes it in four steps.
const SIDE: usize = 32;
/// Words of a tile's line in workgroup memory: odd, so that a column falls on as many banks as a line does.
const LINE: usize = SIDE + 1;
/// Extents from which on tiles are filled well enough.
const LEAST: usize = 16;
/// Inputs whose tiles fit the 16 KiB of workgroup memory that every device has.
const MOST: usize = 3;

/// How a map is cut into tiles: along the innermost axis of the walk, and along `across`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    across: usize,
    /// Inputs that lie along `across`.
    inputs: Vec<usize>,
}

impl Tiling {
    /// For a dense output in the order of `walk`, whose last operand it is; none where no input lies across it, or tiles
    /// would be small.
    pub fn new(walk: &Walk) -> Option<Tiling> {
        let last = walk.dims.len().checked_sub(1)?;
        let lies = |t: usize| {
            let strides = &walk.strides[t];
            let across = (0..last).find(|&axis| strides[axis].abs() == 1 && walk.dims[axis] >= LEAST)?;
            (strides[last].abs() > 1).then_some((across, t))
        };
        let found: Vec<(usize, usize)> = (0..walk.strides.len() - 1).filter_map(lies).collect();
        let across = found.first()?.0;
        let inputs: Vec<usize> = found.iter().filter(|(axis, _)| *axis == across).map(|(_, t)| *t).collect();
        (walk.inner() >= LEAST && inputs.len() <= MOST).then_some(Tiling { across, inputs })
    }

    /// Workgroups that compute all elements of `walk`.
    pub fn groups(&self, walk: &Walk) -> u64 {
        let [inner, across, outer] = self.extents(walk);
        (outer * inner.div_ceil(SIDE) * across.div_ceil(SIDE)) as u64
    }

    /// Along the innermost axis, across, and of all other axes together.
    fn extents(&self, walk: &Walk) -> [usize; 3] {
        let (inner, across) = (walk.inner(), walk.dims[self.across]);
        [inner, across, walk.dims.iter().product::<usize>() / inner / across]
    }

    /// Writes the body of the entry point, which calls `element`.
    pub fn write(&self, shader: &mut Shader, walk: &Walk, tensors: &[Tensor], accesses: &[Access]) -> String {
        let last = tensors.len() - 1;
        for (t, access) in accesses[..last].iter().enumerate() {
            walk.function(shader, &format!("at{t}"), "w", t, access.offset);
            access.load(shader, &format!("load{t}"));
        }
        shader.arg("o", accesses[last].offset as u32);
        accesses[last].store(shader, "store");
        let mut main = self.place(shader, walk);
        for &t in &self.inputs {
            let kind = type_name(tensors[t].stored.dtype);
            shader.shared(&format!("tile{t}"), &format!("array<{kind}, {}>", SIDE * LINE));
        }
        self.load(&mut main);
        main += "workgroupBarrier();\n";
        self.store(&mut main, last);
        main
    }

    /// Which tile a workgroup has, and where its first element lies in the order of the walk.
    fn place(&self, shader: &mut Shader, walk: &Walk) -> String {
        let [inner, across, outer] = self.extents(walk);
        let step: usize = walk.dims[self.across + 1..].iter().product();
        for (name, value) in [
            ("inner", inner),
            ("across", across),
            ("outer", outer),
            ("step", step),
            ("between", step / inner),
            ("wide", inner.div_ceil(SIDE)),
            ("high", across.div_ceil(SIDE)),
        ] {
            shader.arg(name, value as u32);
        }
        format!(
            "let tile = group % (args.wide * args.high);\nlet o = group / (args.wide * args.high);\n\
             let j0 = (tile % args.wide) * {SIDE}u;\nlet q0 = (tile / args.wide) * {SIDE}u;\n\
             let base = (o / args.between) * args.across * args.step + (o % args.between) * args.inner;\n\
             let lx = lid % {SIDE}u;\nlet ly = lid / {SIDE}u;\n"
        )
    }

    /// Neighbouring invocations take neighbours across.
    fn load(&self, main: &mut String) {
        for first in (0..SIDE).step_by(8) {
            write!(
                main,
                "{{\nlet q = q0 + lx;\nlet y = ly + {first}u;\nlet j = j0 + y;\n\
                 if o < args.outer && q < args.across && j < args.inner {{\nlet e = base + q * args.step + j;\n"
            )
            .expect("strings take text");
            for t in &self.inputs {
                writeln!(main, "tile{t}[lx * {LINE}u + y] = load{t}(at{t}(e));").expect("strings take text");
            }
            *main += "}\n}\n";
        }
    }

    /// Neighbouring invocations take neighbours of the output.
    fn store(&self, main: &mut String, inputs: usize) {
        let value = |t: usize| {
            if self.inputs.contains(&t) { format!("tile{t}[y * {LINE}u + lx]") } else { format!("load{t}(at{t}(e))") }
        };
        let values: Vec<String> = (0..inputs).map(value).collect();
        for first in (0..SIDE).step_by(8) {
            writeln!(
                main,
                "{{\nlet y = ly + {first}u;\nlet q = q0 + y;\nlet j = j0 + lx;\n\
                 if o < args.outer && q < args.across && j < args.inner {{\nlet e = base + q * args.step + j;\n\
                 store(args.o + e, element({}));\n}}\n}}",
                values.join(", ")
            )
            .expect("strings take text");
        }
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{Layout, Shape};

    use super::*;

    #[test]
    fn tiles_are_for_inputs_that_lie_across() {
        let shape = Shape::from([3, 64, 5, 40]);
        let dense = Layout::dense(shape.clone());
        let across = Layout::dense([3, 40, 5, 64]).permute(&[0, 3, 2, 1]);
        let walk = Walk::along(&shape, &[&dense, &across, &dense], 2);
        let tiling = Tiling::new(&walk).expect("operand 1 lies across");
        assert_eq!((tiling.inputs.as_slice(), walk.dims[tiling.across]), ([1].as_slice(), 64));
        assert_eq!(tiling.groups(&walk), 3 * 5 * 2 * 2);
        assert_eq!(Tiling::new(&Walk::along(&shape, &[&dense, &dense], 1)), None);
    }
}
