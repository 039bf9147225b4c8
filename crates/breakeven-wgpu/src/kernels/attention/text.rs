//! The entry point: scores of a tile of keys, their weights, and the sums of values by them.

use std::fmt::Write;

use super::super::row_wise::decay;
use super::tile::{KEYS, STEP, Tile};
use crate::wgsl::{GROUP, Shader};

/// What weights are relative to: the largest score, or anything finite where all are -inf, so that they are 0.
const BASE: &str = "fn f_base(top: f32) -> f32 { return select(top, 0.0, bitcast<u32>(top) == 0xff800000u); }\n";

/// What sums are multiplied with in the end. They are 0 where no key has a weight.
const SHARE: &str = "fn f_share(sum: f32) -> f32 { return select(1.0 / sum, 0.0, sum == 0.0); }\n";

const DECAYS: &str = "fn f_decays(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(f_decay(v.x), f_decay(v.y), f_decay(v.z), f_decay(v.w));
}
";

/// Writes what weights are made with.
pub(super) fn functions(shader: &mut Shader) {
    decay(shader);
    shader.function("f_decays", DECAYS);
    shader.function("f_base", BASE);
    shader.function("f_share", SHARE);
}

/// An entry point being written.
pub(super) struct Text {
    pub tile: Tile,
    pub has_bias: bool,
    /// Sums over parts of the keys are kept as they are, with what is needed to join them.
    pub is_part: bool,
    pub is_terse: bool,
}

/// Appends a line.
macro_rules! line {
    ($main:ident, $($text:tt)*) => { writeln!($main, $($text)*).expect("strings take text") };
}

impl Text {
    pub fn main(&self) -> String {
        let Tile { rows, across, .. } = self.tile;
        let mut main = format!(
            "let i0 = group % args.row_tiles * {rows}u;\nlet rest = group / args.row_tiles;\n\
             let batch = rest % args.batches;\nlet slice = rest / args.batches;\nlet first = slice * args.part;\n\
             let stop = min(min(first + args.part, args.keys), args.seen + i0 + {last}u);\n\
             let tx = (lid / 32u) % 2u * 8u + lid % 8u;\nlet ty = lid / 64u * 4u + lid % 32u / 8u;\n\
             let q0 = base_q(batch);\nlet k0 = base_k(batch);\nlet v0 = base_v(batch);\n\
             if lid < {rows}u {{ tops[lid] = f_bits(0xff800000u); }}\n",
            last = rows - 1
        );
        if across == 16 {
            main += "let px = tx;\nlet py = ty;\n";
        } else {
            line!(main, "let px = lid % {across}u;\nlet py = lid / {across}u;");
        }
        if self.has_bias {
            main += "let bias0 = base_bias(batch);\n";
        }
        (0..self.tile.score_rows()).for_each(|r| line!(main, "var l{r} = 0.0;"));
        self.sums().for_each(|(r, c)| line!(main, "var o{r}_{c} = vec4<f32>();"));
        self.fetch_factors(&mut main, "var", "first", "0u");
        line!(main, "for (var j0 = first; j0 < stop; j0 += {KEYS}u) {{");
        self.scores(&mut main);
        self.weights(&mut main);
        self.values(&mut main);
        main += "}\n";
        self.end(&mut main);
        main
    }

    /// Rows and quads of columns whose sums one invocation has.
    fn sums(&self) -> impl Iterator<Item = (usize, usize)> {
        let Tile { quads, .. } = self.tile;
        (0..self.tile.sum_rows()).flat_map(move |r| (0..quads).map(move |c| (r, c)))
    }

    /// The query, within the tile, whose scores an invocation has as its row `r`.
    fn score_row(&self, r: usize) -> String {
        if self.tile.score_rows() == 1 { "ty".to_owned() } else { format!("(ty * 4u + {}u)", r / 4 * 64 + r % 4) }
    }

    /// The query, within the tile, whose sums it has as its row `r`.
    fn sum_row(&self, r: usize) -> String {
        let down = self.tile.down();
        if self.tile.sum_rows() == 1 { "py".to_owned() } else { format!("(py * 4u + {}u)", r / 4 * 4 * down + r % 4) }
    }

    /// Quads of `count` that one invocation loads, each with the condition under which there is one.
    fn loads(count: usize) -> impl Iterator<Item = (usize, String, String)> {
        let group = GROUP as usize;
        (0..count.div_ceil(group)).map(move |l| {
            let is_whole = (l + 1) * group <= count;
            let guard = if is_whole { String::new() } else { format!("if lid < {}u ", count - l * group) };
            (l, format!("(lid + {}u)", l * group), guard)
        })
    }

    /// Loads the step from term `p` on of the queries and of the keys from `j0` on.
    fn fetch_factors(&self, main: &mut String, declare: &str, j0: &str, p: &str) {
        for (name, base, from, rows) in [("q", "q0", "i0", self.tile.rows), ("k", "k0", j0, KEYS)] {
            for (l, n, guard) in Text::loads(rows * STEP / 4) {
                if !declare.is_empty() {
                    line!(main, "var {name}_{l} = vec4<f32>();");
                }
                line!(main, "{guard}{{ {name}_{l} = fetch_{name}({base}, {from} + {n} / 4u, {p} + {n} % 4u * 4u); }}");
            }
        }
    }

    /// Terms across rows in workgroup memory.
    fn put_factors(&self, main: &mut String) {
        for (name, first, rows) in [("q", 0, self.tile.rows), ("k", self.tile.second(), KEYS)] {
            for (l, n, guard) in Text::loads(rows * STEP / 4) {
                line!(main, "{guard}{{\nlet x = {n} / 4u;\nlet at = {first}u + {n} % 4u * {}u + (x >> 2u);", rows);
                for c in 0..4 {
                    line!(main, "tile[at + {}u][x & 3u] = {name}_{l}[{c}];", c * rows / 4);
                }
                *main += "}\n";
            }
        }
    }

    /// Writes `term` for each of `STEP` steps.
    fn steps(&self, main: &mut String, term: impl Fn(&mut String, &str)) {
        let written = if self.is_terse { 1 } else { 4 };
        line!(main, "for (var s = 0u; s < {STEP}u; s += {written}u) {{");
        for s in 0..written {
            *main += "{\n";
            term(main, &format!("(s + {s}u)"));
            *main += "}\n";
        }
        *main += "}\n";
    }

    fn scores(&self, main: &mut String) {
        let (rows, second) = (self.tile.rows, self.tile.second());
        (0..self.tile.score_rows()).for_each(|r| line!(main, "var s{r} = vec4<f32>();"));
        line!(main, "for (var p = 0u; p < args.width; p += {STEP}u) {{\nworkgroupBarrier();");
        self.put_factors(main);
        line!(main, "workgroupBarrier();\nif p + {STEP}u < args.width {{");
        self.fetch_factors(main, "", "j0", &format!("p + {STEP}u"));
        *main += "}\n";
        self.steps(main, |main, s| {
            line!(main, "let b = tile[{second}u + {s} * 16u + tx];");
            if self.tile.score_rows() == 1 {
                line!(main, "s0 += tile[{s} * {}u + (ty >> 2u)][ty & 3u] * b;", rows / 4);
                return;
            }
            for h in 0..rows / 64 {
                line!(main, "let a{h} = tile[{s} * {}u + {}u + ty];", rows / 4, h * 16);
            }
            for r in 0..self.tile.score_rows() {
                line!(main, "s{r} += a{}[{}] * b;", r / 4, r % 4);
            }
        });
        *main += "}\n";
    }

    /// Scores become weights relative to the largest so far; what was summed shrinks with it.
    fn weights(&self, main: &mut String) {
        let rows = self.tile.rows;
        self.fetch_values(main, "var", "0u");
        *main += "workgroupBarrier();\n{\nlet key = j0 + tx * 4u;\nlet keys = vec4<u32>(key, key + 1u, key + 2u, key + 3u);\n";
        for r in 0..self.tile.score_rows() {
            line!(main, "{{\nlet row = i0 + {};\nvar x = s{r} * bitcast<f32>(args.scale);", self.score_row(r));
            if self.has_bias {
                *main += "x += fetch_bias(bias0, row, key);\n";
            }
            line!(
                main,
                "let last = vec4<u32>(min(args.keys, args.seen + row));\n\
                 s{r} = select(vec4<f32>(f_bits(0xff800000u)), x, keys < last);\n\
                 tile[(row - i0) * 4u + (tx >> 2u)][tx & 3u] = max(max(s{r}.x, s{r}.y), max(s{r}.z, s{r}.w));\n}}"
            );
        }
        line!(
            main,
            "}}\nworkgroupBarrier();\nif lid < {rows}u {{\n\
             let m = max(max(tile[lid * 4u], tile[lid * 4u + 1u]), max(tile[lid * 4u + 2u], tile[lid * 4u + 3u]));\n\
             let old = tops[lid];\nlet top = max(old, max(max(m.x, m.y), max(m.z, m.w)));\ntops[lid] = top;\n\
             shares[lid] = f_decay(old - f_base(top));\n}}\nworkgroupBarrier();"
        );
        for r in 0..self.tile.score_rows() {
            let row = self.score_row(r);
            line!(
                main,
                "s{r} = f_decays(s{r} - f_base(tops[{row}]));\n\
                 l{r} = l{r} * shares[{row}] + ((s{r}.x + s{r}.y) + (s{r}.z + s{r}.w));"
            );
        }
        for r in 0..self.tile.sum_rows() {
            line!(main, "{{\nlet share = shares[{}];", self.sum_row(r));
            (0..self.tile.quads).for_each(|c| line!(main, "o{r}_{c} *= share;"));
            *main += "}\n";
        }
    }

    /// Loads every fourth row of the values of a tile, from row `nth` on: with a quad of keys in each invocation, as many of
    /// their weights come from each.
    fn fetch_values(&self, main: &mut String, declare: &str, nth: &str) {
        let wide = self.tile.columns() / 4;
        for (l, n, guard) in Text::loads(STEP * wide) {
            if !declare.is_empty() {
                line!(main, "var v_{l} = vec4<f32>();");
            }
            line!(main, "{guard}{{ v_{l} = fetch_v(v0, j0 + {n} / {wide}u * 4u + {nth}, {n} % {wide}u * 4u); }}");
        }
    }

    fn values(&self, main: &mut String) {
        if self.is_terse {
            *main += "for (var nth = 0u; nth < 4u; nth += 1u) {\n";
            self.fourth(main, "nth");
            *main += "}\n";
        } else {
            (0..4).for_each(|nth| self.fourth(main, &format!("{nth}u")));
        }
    }

    /// Adds every fourth row of the values of a tile, from row `nth` on, and loads what comes next.
    fn fourth(&self, main: &mut String, nth: &str) {
        let (rows, second) = (self.tile.rows, self.tile.second());
        let wide = self.tile.columns() / 4;
        *main += "workgroupBarrier();\n";
        for (l, n, guard) in Text::loads(STEP * wide) {
            line!(main, "{guard}{{ tile[{second}u + {n}] = v_{l}; }}");
        }
        if self.tile.score_rows() == 1 {
            line!(main, "tile[tx * {}u + (ty >> 2u)][ty & 3u] = s0[{nth}];", rows / 4);
        }
        for h in 0..rows / 64 {
            let of = |r: usize| format!("s{}[{nth}]", 4 * h + r);
            let quad = format!("vec4<f32>({}, {}, {}, {})", of(0), of(1), of(2), of(3));
            line!(main, "tile[tx * {}u + {}u + ty] = {quad};", rows / 4, h * 16);
        }
        line!(main, "workgroupBarrier();\nif {nth} == 3u {{");
        self.fetch_factors(main, "", &format!("(j0 + {KEYS}u)"), "0u");
        *main += "} else {\n";
        self.fetch_values(main, "", &format!("{nth} + 1u"));
        *main += "}\n";
        self.steps(main, |main, s| self.value_terms(main, s));
    }

    /// Writes the products of weights and values of step `s`.
    fn value_terms(&self, main: &mut String, s: &str) {
        let Tile { rows, across, quads, .. } = self.tile;
        let (wide, down, second) = (across * quads, self.tile.down(), self.tile.second());
        for c in 0..quads {
            line!(main, "let b{c} = tile[{second}u + {s} * {wide}u + {}u + px];", c * across);
        }
        if self.tile.sum_rows() == 1 {
            line!(main, "let a = tile[{s} * {}u + (py >> 2u)][py & 3u];", rows / 4);
        }
        for h in 0..self.tile.sum_rows() / 4 {
            line!(main, "let a{h} = tile[{s} * {}u + {}u + py];", rows / 4, h * down);
        }
        for (r, c) in self.sums() {
            let a = if self.tile.sum_rows() == 1 { "a".to_owned() } else { format!("a{}[{}]", r / 4, r % 4) };
            line!(main, "o{r}_{c} += {a} * b{c};");
        }
    }

    /// Sums divided by those of the weights, or both as they are.
    fn end(&self, main: &mut String) {
        let Tile { rows, across, .. } = self.tile;
        *main += "workgroupBarrier();\n";
        for r in 0..self.tile.score_rows() {
            line!(main, "tile[{} * 4u + (tx >> 2u)][tx & 3u] = l{r};", self.score_row(r));
        }
        *main += "let before = (slice * args.batches + batch) * args.queries;\nworkgroupBarrier();\n";
        line!(
            main,
            "if lid < {rows}u {{\nlet m = (tile[lid * 4u] + tile[lid * 4u + 1u]) + (tile[lid * 4u + 2u] + tile[lid * 4u + 3u]);\n\
             let sum = (m.x + m.y) + (m.z + m.w);\nshares[lid] = {};",
            if self.is_part { "1.0" } else { "f_share(sum)" }
        );
        if self.is_part {
            *main += "if i0 + lid < args.queries && group < args.groups {\n\
                keep_tops(args.tops + (before + i0 + lid) * 4u, bitcast<vec4<u32>>(vec4<f32>(tops[lid], sum, 0.0, 0.0)), 4u);\n}\n";
        }
        *main += "}\nworkgroupBarrier();\n";
        for (r, c) in self.sums() {
            line!(
                main,
                "{{ let row = {}; let column = px * 4u + {}u;\nif i0 + row < args.queries && column < args.length && group < args.groups {{ \
                 finish(before + i0 + row, column, o{r}_{c} * shares[row]); }} }}",
                self.sum_row(r),
                4 * c * across
            );
        }
    }
}
