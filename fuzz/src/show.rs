//! Prints the model that `onnx_graph` makes of a file, or writes it: `show FILE [MODEL.onnx]`.

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().expect("show FILE [MODEL.onnx]");
    let bytes = std::fs::read(file).expect("the file can be read");
    match arguments.next() {
        Some(model) => std::fs::write(model, breakeven_fuzz::graph::model(&bytes)).expect("the model can be written"),
        None => println!("{:#?}", breakeven_fuzz::graph::proto(&bytes)),
    }
}
