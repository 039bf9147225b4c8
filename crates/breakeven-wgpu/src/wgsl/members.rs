//! One module for several members: one text, with arguments and buffers for each. A member is a row of the grid, so that
//! no workgroup has to search for its own.

use super::Shader;

/// Words that arguments in an array are rounded to: WGSL allows elements of 16 bytes and their multiples.
const STEP: usize = 4;

/// Bytes that the arguments of a member take, whose module alone has `words` of them.
pub fn member_bytes(words: usize) -> u64 {
    4 * words.next_multiple_of(STEP) as u64
}

/// The module of shaders that differ in the values of their arguments alone, and the arguments of all, in order.
pub fn finish(mut members: Vec<Shader>, main: &str) -> (String, Vec<u32>) {
    if members.len() == 1 {
        return members.remove(0).finish(main);
    }
    members.iter_mut().for_each(pad);
    let text = members[0].module(&declarations(members.len()), BEGIN, main);
    let names = members[0].args().0;
    assert!(members.iter().all(|m| m.args().0 == names), "members of one form have the same arguments");
    (text, members.iter().flat_map(|m| m.args().1).copied().collect())
}

fn pad(shader: &mut Shader) {
    let words = shader.args().1.len();
    (words..words.next_multiple_of(STEP)).for_each(|place| shader.arg(&format!("pad{place}"), 0));
}

/// Functions read `args` and `member`, which are set before any of them is called.
fn declarations(members: usize) -> String {
    format!(
        "@group(0) @binding(0) var<uniform> members: array<Args, {members}>;\n\
         var<private> args: Args;\nvar<private> member: u32;\n"
    )
}

const BEGIN: &str = "    member = wid.y;\n    args = members[wid.y];\n    let group = wid.x;\n";
