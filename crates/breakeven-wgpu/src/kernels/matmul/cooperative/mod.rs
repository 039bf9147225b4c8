//! Products of f16 by the units that multiply whole matrices (tensor cores): tiles of operands pass through workgroup memory,
//! each subgroup keeps the f32 sums of its part of a tile in cooperative matrices.

mod side;
mod tile;

use std::fmt::Write;

use breakeven_ir::{Body, DType, MatMul};

use super::super::Dispatch;
use super::super::rows::Rows;
use super::{Plan, finish, place};
use crate::wgsl::{GROUP, Shader, Tensor, Walk, bind, function};
use side::Side;
pub(super) use side::is_whole;
pub(super) use tile::Tile;

/// Side of a cooperative matrix: 16 rows, columns and terms.
const SIDE: usize = 16;
/// Numbers that pass from memory to memory at a time.
const QUAD: usize = 4;

/// Appends the product over parts of `part` terms each, as `sums::push` does.
pub(super) fn push(
    plan: &mut Plan,
    (k, tile, inputs): (&MatMul, Tile, &[Tensor]),
    (extras, out): (Vec<Tensor>, Tensor),
    (post, params): (&Body, &[f64]),
    part: usize,
) {
    let parts = k.k.div_ceil(part);
    let rows = if parts == 1 { k.batch.rank() + 1 } else { 1 };
    let shape = out.layout.shape.clone();
    let (outer, inner) = shape.split_at(rows);
    let ends = Rows::new(outer, inner, extras.into_iter().chain([out]).collect());
    let mut shader = Shader::default();
    shader.enable(&["f16", "wgpu_cooperative_matrix"], &[("subgroup_id", "subgroup")]);
    let (down, right) = (k.m.div_ceil(tile.sides[0]), k.n.div_ceil(tile.sides[1]));
    let sizes = [k.m, k.n, k.k, down, right, k.batch.elements(), part];
    for (name, size) in ["m", "length", "k", "row_tiles", "column_tiles", "batches", "part"].iter().zip(sizes) {
        shader.arg(name, size as u32);
    }
    let sides = [0, 1].map(|t| Side::of(k, &inputs[t], t).expect("what does not lie in whole quads was copied"));
    let last = ends.tensors().len() - 1;
    let wants: Vec<_> = sides.iter().map(|side| (&side.tensor, false, true)).chain(ends.wants(last)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    let (from, to) = accesses.split_at(2);
    to.iter().enumerate().for_each(|(t, access)| ends.functions(&mut shader, t, access, t == last));
    let heads = sides.each_ref().map(|side| &side.tensor.layout.strides[..k.batch.rank()]);
    let batch = Walk::new(&k.batch, &heads);
    for (t, side) in sides.iter().enumerate() {
        side.functions(&mut shader, tile, &batch, t, &from[t]);
    }
    let arguments: Vec<DType> =
        [DType::F32].into_iter().chain(ends.tensors()[..last].iter().map(|t| t.stored.dtype)).collect();
    function(&mut shader, "post", &arguments, post, params);
    finish(&mut shader, &ends, DType::F32);
    let staged = 2 * (0..2).map(|t| sides[t].quads(tile, t)).sum::<usize>();
    shader.shared("stage", &format!("array<vec4<f16>, {staged}>"));
    shader.shared("kept", &format!("array<vec4<f32>, {}>", tile.subgroups() * SIDE * SIDE / QUAD));
    let groups = (down * right * k.batch.elements() * parts) as u64;
    shader.arg("groups", groups as u32);
    let (text, args) = shader.finish(&main(tile, &sides));
    plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
}

fn main(tile: Tile, sides: &[Side; 2]) -> String {
    let ([rows, columns], across) = (tile.part(), tile.grid[1]);
    let mut main = place(tile.sides);
    writeln!(main, "let part0 = subgroup / {across}u * {rows}u;\nlet part1 = subgroup % {across}u * {columns}u;")
        .expect("strings take text");
    for (r, c) in tile.matrices() {
        writeln!(main, "var c{r}_{c} = coop_mat16x16<f32, C>();").expect("strings take text");
    }
    sum(&mut main, tile, sides);
    keep(&mut main, tile);
    main
}

/// Writes the loop over the steps of the sum, two at a time, so that each half of workgroup memory has its place in the text.
/// Terms past the end are zeros.
fn sum(main: &mut String, tile: Tile, sides: &[Side; 2]) {
    let step = tile.step;
    *main += "let a0 = base0(batch);\nlet b0 = base1(batch);\n{\n";
    fetch(main, tile, sides, "first");
    put(main, tile, sides, 0);
    writeln!(main, "}}\nworkgroupBarrier();\nfor (var p = first; p < stop; p += {}u) {{", 2 * step)
        .expect("strings take text");
    for half in 0..2 {
        writeln!(main, "{{\nlet next = p + {}u;", (half + 1) * step).expect("strings take text");
        fetch(main, tile, sides, "next");
        (0..step).step_by(SIDE).for_each(|along| terms(main, tile, sides, (half, along)));
        put(main, tile, sides, 1 - half);
        *main += "workgroupBarrier();\n}\n";
    }
    *main += "}\n";
}

/// Where a half of workgroup memory begins that holds steps of operand `t`.
fn start(tile: Tile, sides: &[Side; 2], t: usize, half: usize) -> usize {
    let quads = [0, 1].map(|t| sides[t].quads(tile, t));
    2 * quads[0] * t + half * quads[t]
}

/// Writes the loads of the step from term `at` on, as `v0_0`, `v1_0`, and so on.
fn fetch(main: &mut String, tile: Tile, sides: &[Side; 2], at: &str) {
    for (t, (base, from)) in [("a0", "i0"), ("b0", "j0")].into_iter().enumerate() {
        for l in 0..sides[t].loads(tile, t) {
            writeln!(main, "let v{t}_{l} = fetch{t}({base}, {from}, {at}, stop, lid + {}u);", l * GROUP as usize)
                .expect("strings take text");
        }
    }
}

/// Writes the stores of what was loaded to a half of workgroup memory.
fn put(main: &mut String, tile: Tile, sides: &[Side; 2], half: usize) {
    for t in 0..2 {
        let start = start(tile, sides, t, half);
        for l in 0..sides[t].loads(tile, t) {
            writeln!(main, "stage[{start}u + place{t}(lid + {}u)] = v{t}_{l};", l * GROUP as usize)
                .expect("strings take text");
        }
    }
}

/// Writes the products of 16 terms of the step that a half of workgroup memory holds.
fn terms(main: &mut String, tile: Tile, sides: &[Side; 2], (half, along): (usize, usize)) {
    let [rows, columns] = tile.part().map(|side| side / SIDE);
    let starts = [0, 1].map(|t| start(tile, sides, t, half));
    *main += "{\n";
    for r in 0..rows {
        let load = sides[0].load(tile, 0, (starts[0], "part0"), (r * SIDE, along));
        writeln!(main, "let a{r} = {load};").expect("strings take text");
    }
    for c in 0..columns {
        let load = sides[1].load(tile, 1, (starts[1], "part1"), (c * SIDE, along));
        writeln!(main, "let b{c} = {load};").expect("strings take text");
        for r in 0..rows {
            writeln!(main, "c{r}_{c} = coopMultiplyAdd(a{r}, b{c}, c{r}_{c});").expect("strings take text");
        }
    }
    *main += "}\n";
}

/// Writes the epilogue: one matrix of each subgroup at a time goes through workgroup memory, from where all invocations take
/// quads.
fn keep(main: &mut String, tile: Tile) {
    let [rows, columns] = tile.part();
    let (quads, across) = (SIDE / QUAD, tile.grid[1]);
    writeln!(main, "let mine = subgroup * {}u;", SIDE * quads).expect("strings take text");
    for (r, c) in tile.matrices() {
        // The compiler of shaders takes a name for the place of a store, and no expression.
        write!(
            main,
            "coopStoreT(c{r}_{c}, &kept[mine], {quads}u);\nworkgroupBarrier();\n\
             for (var e = lid; e < {}u; e += {GROUP}u) {{\nlet s = e / {}u;\n\
             let row = i0 + s / {across}u * {rows}u + {}u + e / {quads}u % {SIDE}u;\n\
             let column = j0 + s % {across}u * {columns}u + {}u + e % {quads}u * 4u;\n\
             if row < args.m && column < args.length && group < args.groups {{\n\
             finish((slice * args.batches + batch) * args.m + row, column, kept[e]);\n}}\n}}\nworkgroupBarrier();\n",
            tile.subgroups() * SIDE * quads,
            SIDE * quads,
            r * SIDE,
            c * SIDE
        )
        .expect("strings take text");
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{Expr, Kernel, Layout, Operand, Precision, Shape};
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    use super::super::super::{Shaping, launch_of, plan};
    use super::tile::TILES;
    use super::*;

    fn shaping() -> Shaping {
        Shaping {
            bindings: 8,
            binding_bytes: 1 << 31,
            max_index: 1 << 31,
            args_bytes: 1 << 16,
            row_groups: 65_535,
            is_terse: false,
            is_cooperative: true,
        }
    }

    /// A product of f16; operands lie turned or not.
    fn product([m, k, n]: [usize; 3], [left, right]: [bool; 2]) -> MatMul {
        let lies = |turned: bool, rows: usize, columns: usize| {
            if turned { Layout::dense([columns, rows]).permute(&[1, 0]) } else { Layout::dense([rows, columns]) }
        };
        MatMul {
            batch: Shape::scalar(),
            m,
            n,
            k,
            a: Operand::new(DType::F16, lies(left, m, k)),
            b: Operand::new(DType::F16, lies(right, k, n)),
            precision: Precision::High,
            post: Expr::identity(DType::F16),
            params: vec![],
            inputs: vec![],
            out: Operand::new(DType::F16, Layout::dense([m, n])),
        }
    }

    fn is_valid(text: &str) {
        let module =
            naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{}\n{text}", e.emit_to_string(text)));
        Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    }

    #[test]
    fn every_tile_and_lie_of_operands_is_valid_wgsl() {
        for sizes in
            [[4096, 4096, 4096], [4096, 512, 1024], [1024, 512, 1024], [72, 40, 136], [136, 4096, 40], [65, 4097, 63]]
        {
            for turned in [[false; 2], [true, false], [false, true], [true; 2]] {
                let kernel = Kernel::MatMul(product(sizes, turned));
                let plan = plan(&launch_of(&kernel), &shaping()).expect("it can be multiplied");
                let products = plan.dispatches.iter().filter(|dispatch| dispatch.text.contains("coopMultiplyAdd"));
                assert_eq!(products.count(), 1, "{sizes:?}");
                plan.dispatches.iter().for_each(|dispatch| is_valid(&dispatch.text));
            }
        }
    }

    #[test]
    fn other_products_are_left_to_others() {
        let shaping = shaping();
        let is_ours = |k: &MatMul| super::super::is_cooperative(k, &shaping);
        let good = product([64, 64, 64], [false; 2]);
        assert!(is_ours(&good));
        assert!(
            !is_ours(&MatMul { precision: Precision::Highest, ..good.clone() }),
            "no more is given away than was said"
        );
        assert!(!is_ours(&product([32, 64, 64], [false; 2])), "a tile would be half empty");
        let small = Shaping { binding_bytes: 1 << 12, ..shaping };
        assert!(!super::super::is_cooperative(&product([65, 64, 65], [false; 2]), &small), "no copy could be bound");
        let near = Shaping { binding_bytes: (1 << 31) - 16, ..shaping };
        let large = product([16_384; 3], [false; 2]);
        assert!(super::super::is_cooperative(&large, &near), "what lies in whole quads takes no room");
        let without = Shaping { is_cooperative: false, ..shaping };
        assert!(!super::super::is_cooperative(&good, &without));
    }

    #[test]
    fn what_does_not_lie_in_whole_quads_is_copied_first() {
        let dispatches = |product: MatMul| {
            let plan = plan(&launch_of(&Kernel::MatMul(product)), &shaping()).expect("it can be multiplied");
            (plan.dispatches.len(), plan.scratch)
        };
        let good = product([64, 64, 64], [false; 2]);
        assert_eq!(dispatches(good.clone()), (1, 0));
        assert_eq!(dispatches(product([64, 62, 64], [false; 2])), (2, 64 * 64 * 2), "rows of the left operand");
        assert_eq!(
            dispatches(product([62, 64, 64], [true, false])),
            (2, 64 * 64 * 2),
            "its columns, where it is turned"
        );
        let mut shifted = good.clone();
        shifted.b.layout.offset = 2;
        assert_eq!(dispatches(shifted), (2, 64 * 64 * 2), "a right operand that begins within a quad");
        let mut shared = MatMul { batch: Shape::from(5), ..product([64, 62, 64], [false; 2]) };
        let of_batch = |lead: isize, [rows, columns]: [usize; 2]| Layout {
            strides: [lead, columns as isize, 1].into_iter().collect(),
            ..Layout::dense([5, rows, columns])
        };
        shared.a.layout = of_batch(0, [64, 62]);
        shared.b.layout = of_batch(62 * 64, [62, 64]);
        shared.out.layout = Layout::dense([5, 64, 64]);
        assert_eq!(dispatches(shared), (2, 64 * 64 * 2), "one left operand for the whole batch");
    }

    #[test]
    fn each_step_is_brought_by_all_invocations_and_fits_the_memory() {
        for tile in TILES {
            assert_eq!(tile.subgroups() * 32, GROUP as usize);
            for turned in [[false; 2], [true, false], [false, true], [true; 2]] {
                let k = product([512, 64, 512], turned);
                let sides = [&k.a, &k.b].map(|o| Tensor::slot(o, 0));
                let sides = [0, 1].map(|t| Side::of(&k, &sides[t], t).expect("whole quads"));
                for (t, side) in sides.iter().enumerate() {
                    let quads = tile.sides[t] * tile.step / QUAD;
                    assert_eq!(side.loads(tile, t) * GROUP as usize, quads, "{tile:?}");
                }
                assert!(tile.bytes(&sides) <= crate::adapter::CORES_MEMORY as usize, "{tile:?}");
            }
        }
    }
}
