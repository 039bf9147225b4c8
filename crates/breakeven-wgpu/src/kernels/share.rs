//! How many invocations share a row, and how they join what each has of it.

use crate::wgsl::{GROUP, Shader};

/// Elements that one invocation joins at most in a level of [`Share::tree`].
const MOST_JOINED: u32 = 1 << GROUP.ilog2().div_ceil(2);

/// How many invocations share a row, as texts have it.
pub(super) struct Share {
    pub lanes: String,
    shift: String,
    per_group: String,
    /// Elements that they take at once, a quad each.
    pub span: String,
    /// Columns of [`Share::tree`].
    columns: String,
    /// Loops over those that share a row are left loops.
    is_looping: bool,
}

impl Share {
    /// `lanes` are data, so that rows of any length are of one text.
    pub fn new(shader: &mut Shader, lanes: u32, is_terse: bool) -> Share {
        let argument = |name: &str, value: u32| {
            shader.arg(name, value);
            format!("args.{name}")
        };
        Share::of(lanes, is_terse, argument)
    }

    /// Whole workgroups, for texts that have no other rows.
    pub fn of_group() -> Share {
        Share::of(GROUP, true, |_, value| format!("{value}u"))
    }

    fn of(lanes: u32, is_looping: bool, mut number: impl FnMut(&str, u32) -> String) -> Share {
        Share {
            lanes: number("lanes", lanes),
            shift: number("shift", lanes.ilog2()),
            per_group: number("per_group", GROUP / lanes),
            span: number("span", 4 * lanes),
            columns: number("columns", 1 << lanes.ilog2().div_ceil(2)),
            is_looping,
        }
    }

    /// Which row of the kernel, as `name`, and which of those that share it, as `lane`.
    pub fn place(&self, name: &str) -> String {
        let Share { lanes, shift, per_group, .. } = self;
        format!(
            "let {name} = group * {per_group} + (lid >> {shift});\nlet lane = lid & ({lanes} - 1u);\n\
             let is_row = {name} < args.rows;\n"
        )
    }

    /// Writes `fn tree_{name}(lid: u32, v: kind) -> kind`: `join` over those that share a row, in two levels, so that there are few
    /// barriers and few invocations at work: some join one column each, then one joins the columns.
    pub fn tree(&self, shader: &mut Shader, name: &str, kind: &str, join: &str) {
        let part = format!("part_{name}");
        shader.shared(&part, &format!("array<{kind}, {GROUP}>"));
        let level = |step: &str, end: &str| {
            format!(
                "    if lane < {step} {{\n        var r = {part}[lid];\n{}        {part}[lid] = r;\n    }}\n    workgroupBarrier();\n",
                self.joins(&part, join, step, end)
            )
        };
        let text = format!(
            "fn tree_{name}(lid: u32, v: {kind}) -> {kind} {{\n    {part}[lid] = v;\n    workgroupBarrier();\n    \
             let lane = lid & ({} - 1u);\n{}{}    let all = {part}[lid - lane];\n    workgroupBarrier();\n    return all;\n}}\n",
            self.lanes,
            level(&self.columns, &self.lanes),
            level("1u", &self.columns)
        );
        shader.function(&format!("tree_{name}"), text);
    }

    /// The joins of `r` with what lies each `step` behind it, up to `end`, a power of two of them. A loop to an end that is data is not
    /// unrolled, and would wait for shared memory each time: each block asks for twice as many as the one above it.
    fn joins(&self, part: &str, join: &str, step: &str, end: &str) -> String {
        if self.is_looping {
            return format!(
                "        for (var c = {step}; c < {end}; c += {step}) {{ r = {join}(r, {part}[lid + c]); }}\n"
            );
        }
        let one = |n: u32| format!(" r = {join}(r, {part}[lid + {n}u * {step}]);");
        let block = |first: u32| {
            let joins: String = (first..2 * first).map(one).collect();
            format!("        if {first}u * {step} < {end} {{{joins} }}\n")
        };
        (0..MOST_JOINED.ilog2()).map(|level| block(1 << level)).collect()
    }
}

/// Quads that one invocation takes of a row of `length` elements of each of some operands: where rows are long enough,
/// several loads are under way at once, and few invocations have to wait for each other.
pub(super) fn quads(length: usize, operands: usize) -> usize {
    (length / 32).clamp(1, 4).div_ceil(operands.max(1))
}

/// What [`quads`] gives for long rows.
pub(super) fn most_quads(operands: usize) -> usize {
    quads(usize::MAX, operands)
}

/// Invocations that share a row of `length` elements, of which each takes `quads` quads. Short rows share a workgroup, so
/// that none of its invocations idle.
pub(super) fn lanes(length: usize, quads: usize) -> u32 {
    let wanted = length.div_ceil(4 * quads).next_power_of_two();
    wanted.clamp(8, GROUP as usize) as u32
}
