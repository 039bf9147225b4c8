//! A WGSL module being written.

use std::collections::HashSet;
use std::fmt::Write;

use super::functions;

/// Bindings, arguments, functions and the entry point of one dispatch. Arguments are data: only their names are part of
/// the text.
#[derive(Debug, Default)]
pub struct Shader {
    enables: String,
    builtins: String,
    bindings: String,
    shared: String,
    functions: String,
    known: HashSet<String>,
    names: Vec<String>,
    values: Vec<u32>,
}

/// Invocations of a workgroup.
pub const GROUP: u32 = 256;

impl Shader {
    /// Asks for extensions of the language, and for values of theirs by name and the name they get.
    pub fn enable(&mut self, extensions: &[&str], builtins: &[(&str, &str)]) {
        for name in extensions {
            writeln!(self.enables, "enable {name};").expect("strings take text");
        }
        for (from, name) in builtins {
            write!(self.builtins, ", @builtin({from}) {name}: u32").expect("strings take text");
        }
    }

    /// Declares a storage buffer, `b0`, `b1`, .. in order of `index`.
    pub fn binding(&mut self, index: usize, write: bool, element: &str) {
        let access = if write { "read_write" } else { "read" };
        let place = index + 1;
        writeln!(self.bindings, "@group(0) @binding({place}) var<storage, {access}> b{index}: array<{element}>;")
            .expect("strings take text");
    }

    /// Declares a storage buffer of words that invocations change together.
    pub fn atomics(&mut self, index: usize) {
        let place = index + 1;
        writeln!(self.bindings, "@group(0) @binding({place}) var<storage, read_write> b{index}: array<atomic<u32>>;")
            .expect("strings take text");
    }

    /// Declares memory of the workgroup.
    pub fn shared(&mut self, name: &str, kind: &str) {
        writeln!(self.shared, "var<workgroup> {name}: {kind};").expect("strings take text");
    }

    /// An argument, read as `args.name`; a name given twice keeps its first value.
    pub fn arg(&mut self, name: &str, value: u32) {
        if !self.names.iter().any(|n| n == name) {
            self.names.push(name.to_owned());
            self.values.push(value);
        }
    }

    /// Adds a function under its name.
    pub fn function(&mut self, name: &str, text: impl AsRef<str>) {
        if self.known.insert(name.to_owned()) {
            self.functions += text.as_ref();
        }
    }

    /// True when a function of this name was written.
    pub fn has_function(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// Adds a core function and what it calls.
    pub fn need(&mut self, name: &str) {
        if let Some((text, calls)) = functions::core(name) {
            for call in calls {
                self.need(call);
            }
            if text.contains("args.zero") {
                self.arg("zero", 0);
            }
            self.function(name, text);
        }
    }

    /// Adds the core function that the expression `text` calls, if it calls one.
    pub fn need_called(&mut self, text: &str) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.for_each(|word| self.need(word));
    }

    /// The module with its entry point, and the values of its arguments.
    pub fn finish(self, main: &str) -> (String, Vec<u32>) {
        let args = "@group(0) @binding(0) var<uniform> args: Args;\n";
        (self.module(args, "    let group = wid.x + wid.y * nwg.x;\n", main), self.values)
    }

    /// The module: `args` declares the arguments, `begin` defines `group`, which `main` goes on from.
    pub(super) fn module(&self, args: &str, begin: &str, main: &str) -> String {
        let fields: Vec<String> = self.names.iter().map(|n| format!("    {n}: u32,\n")).collect();
        format!(
            "{}struct Args {{\n{}}}\n{args}{}{}{}\
             @compute @workgroup_size({GROUP})\n\
             fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>,\n    \
             @builtin(num_workgroups) nwg: vec3<u32>{}) {{\n{begin}{main}}}\n",
            self.enables,
            fields.concat(),
            self.bindings,
            self.shared,
            self.functions,
            self.builtins
        )
    }

    /// The arguments, by name and value.
    pub(super) fn args(&self) -> (&[String], &[u32]) {
        (&self.names, &self.values)
    }
}
