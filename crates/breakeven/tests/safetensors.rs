//! Weights from files: right ones, and every kind of wrong one.

use std::fs;
use std::path::PathBuf;

use breakeven::{DType, Engine, Weights};

const HEADER: &str = r#"{"__metadata__":{"format":"pt"},
"layer.0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
"layer.0.bias":{"dtype":"F32","shape":[3],"data_offsets":[24,36]},
"positions":{"dtype":"I64","shape":[1,2],"data_offsets":[36,52]},
"seen":{"dtype":"BOOL","shape":[2],"data_offsets":[52,54]},
"eighths":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[54,56]},
"deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[56,57]},
"none":{"dtype":"F64","shape":[0],"data_offsets":[57,57]}}"#;

/// A file that is removed again.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("breakeven-{name}-{}.safetensors", std::process::id()));
        fs::write(&path, bytes).expect("a temporary file");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU is there")
}

/// The file that `HEADER` describes, with `pad` spaces after it that move the data.
fn whole(pad: usize, truths: [u8; 2]) -> Vec<u8> {
    let header = format!("{HEADER}{}", " ".repeat(pad));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend((0..9u8).flat_map(|i| f32::from(i).to_le_bytes()));
    file.extend([-1i64, 5].iter().flat_map(|i| i.to_le_bytes()));
    file.extend(truths);
    file.extend([0, 0, 7]);
    file
}

fn open_error(name: &str, bytes: &[u8]) -> String {
    let file = Scratch::new(name, bytes);
    let error = Weights::open(&engine(), &file.0).expect_err(name).to_string();
    let path = file.0.display().to_string();
    error.strip_prefix(&format!("{path}: ")).unwrap_or_else(|| panic!("{error} names {path}")).to_owned()
}

#[test]
fn tensors_come_out_as_they_were_written_however_they_are_aligned() {
    for pad in 0..8 {
        let file = Scratch::new(&format!("aligned-{pad}"), &whole(pad, [1, 0]));
        let weights = Weights::open(&engine(), &file.0).expect("it is whole");
        let tensor = |name: &str| weights.tensor(name).expect(name);
        assert_eq!(tensor("layer.0.weight").to_vec::<f32>().expect("f32"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(tensor("layer.0.weight").shape()[..], [2, 3]);
        assert_eq!((tensor("layer.0.bias") * 2.0).to_vec::<f32>().expect("f32"), [12.0, 14.0, 16.0]);
        assert_eq!(tensor("positions").to_vec::<i64>().expect("i64"), [-1, 5]);
        assert_eq!(tensor("seen").to_vec::<bool>().expect("bool"), [true, false]);
        assert_eq!((tensor("none").dtype(), tensor("none").to_vec::<f64>().expect("f64")), (DType::F64, vec![]));
        assert_eq!(weights.names().count(), 7);
    }
}

#[test]
fn a_tensor_that_cannot_be_had_is_named() {
    let file = Scratch::new("unhad", &whole(0, [1, 2]));
    let weights = Weights::open(&engine(), &file.0).expect("its places are right");
    let check = |name: &str, expected: &str| {
        let error = weights.tensor(name).expect_err(name).to_string();
        assert!(error.contains(&format!("'{name}'")) && error.contains(expected), "{error}");
    };
    check("layer.0.weigth", "the nearest names are 'layer.0.weight', 'layer.0.bias'");
    check("", "the nearest names are");
    check("eighths", "elements of type F8_E4M3");
    check("deep", "rank 9 is over the highest supported rank");
    check("seen", "neither 0 nor 1");
}

#[test]
fn a_truncated_file_is_refused() {
    let large = format!(r#"{{"a":{{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}},{}"#, &HEADER[1..]);
    let large = large.replace("[0,24]", "[4000,4024]").replace("[24,36]", "[4024,4036]");
    let mut large = large.replace("[36,52]", "[4036,4052]").replace("[52,54]", "[4052,4054]");
    large = large.replace("[54,56]", "[4054,4056]").replace("[56,57]", "[4056,4057]").replace("[57,57]", "[4057,4057]");
    let mut bytes = (large.len() as u64).to_le_bytes().to_vec();
    bytes.extend(large.bytes());
    bytes.extend([0; 4057]);
    let file = Scratch::new("large", &bytes);
    Weights::open(&engine(), &file.0).expect("it is whole");
    for length in (0..bytes.len()).step_by(97) {
        let message = open_error("cut", &bytes[..length]);
        assert!(message.contains("truncated") || message.contains("too few"), "cut to {length}: {message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn other_wrong_files_are_refused() {
    assert!(open_error("empty", b"").contains("0 bytes are too few"));
    assert!(open_error("text", b"This is a text file, and not a short one.").contains("no safetensors file"));
    let longer = [whole(0, [0, 0]).as_slice(), b"!"].concat();
    assert_eq!(open_error("longer", &longer), "1 bytes follow after the last tensor");
    let folder = Weights::open(&engine(), std::env::temp_dir()).expect_err("a folder").to_string();
    assert!(folder.contains("is not a file") || folder.contains("cannot be read"), "{folder}");
    let missing = Weights::open(&engine(), "no/such/file").expect_err("nothing").to_string();
    assert!(missing.starts_with("no/such/file: cannot be read"), "{missing}");
}

#[test]
fn tensors_outlive_what_they_came_from() {
    let file = Scratch::new("outlived", &whole(0, [0, 0]));
    let engine = engine();
    let bias = Weights::open(&engine, &file.0).expect("it is whole").tensor("layer.0.bias").expect("it is there");
    drop(file);
    assert_eq!(bias.sum(..).item::<f32>().expect("one number"), 21.0);
}
