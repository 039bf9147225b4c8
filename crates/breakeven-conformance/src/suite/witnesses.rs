//! One kernel of each sort at each type, to ask a device what it supports.

use breakeven_ir::{Combine, DType, Kernel, Layout, Shape};

use super::{attentions, casts, convs, copies, gathers, maps, matmuls, reductions, row_wise, scans, scatters, sorts};

/// Name, type and kernel; those of one name together.
pub fn witnesses() -> Vec<Witness> {
    [elementwise(), along_axes(), by_place()].concat()
}

type Witness = (String, DType, Kernel);

fn elementwise() -> Vec<Witness> {
    let mut all = Vec::new();
    for def in breakeven_ir::MAPS {
        all.extend(def.family.dtypes().into_iter().map(|d| (def.name.to_owned(), d, maps::kernel(def, d, [3, 5]))));
    }
    for from in DType::ALL {
        let others = DType::ALL.into_iter().filter(|&to| to != from);
        all.extend(others.map(|to| (format!("cast from {from} to"), to, casts::kernel(from, to, 15))));
    }
    for (name, out) in [
        ("copy", Layout::dense([3, 5])),
        ("copy into a view", Layout::dense([5, 9]).slice(0, 1, 3, 1).slice(1, 2, 5, 1)),
    ] {
        let copy = |d| copies::copy(d, Layout::dense([5, 3]).permute(&[1, 0]), out.clone());
        all.extend(DType::ALL.map(|d| (name.to_owned(), d, copy(d))));
    }
    all
}

fn along_axes() -> Vec<Witness> {
    let mut all = Vec::new();
    for fold in reductions::FOLDS {
        let (outer, inner) = (Shape::from(3), Shape::from(5));
        let kernel = |d| reductions::kernel(fold, d, &outer, &inner, Layout::dense([3, 5]));
        let defined = DType::ALL.into_iter().filter(|&d| fold.dtype(d).is_some());
        all.extend(defined.map(|d| (fold.name().to_owned(), d, kernel(d))));
    }
    for fold in scans::FOLDS {
        let defined = DType::ALL.into_iter().filter(|&d| fold.dtype(d).is_some());
        let name = format!("running {}", fold.name());
        all.extend(defined.map(|d| (name.clone(), d, Kernel::Scan(scans::plain(fold, d, &Shape::from(3), 5)))));
    }
    for kind in row_wise::KINDS {
        let floats = DType::ALL.into_iter().filter(|d| d.is_float());
        all.extend(floats.map(|d| (kind.name().to_owned(), d, row_wise::plain(kind, d, &Shape::from(3), 5))));
    }
    let sort = |d| Kernel::Sort(sorts::plain(d, &Shape::from(3), [7, 5], false));
    all.extend(DType::ALL.map(|d| ("sort".to_owned(), d, sort(d))));
    let numbers = DType::ALL.into_iter().filter(|&d| d != DType::Bool);
    all.extend(numbers.map(|d| ("matmul".to_owned(), d, matmuls::kernel([d; 3], [3, 5, 7]))));
    let numbers = DType::ALL.into_iter().filter(|&d| d != DType::Bool);
    all.extend(numbers.map(|d| ("conv".to_owned(), d, convs::witness(d))));
    let floats = DType::ALL.into_iter().filter(|d| d.is_float());
    let attention = |d| Kernel::Attention(attentions::plain(d, &[2], [3, 5, 7, 4]));
    all.extend(floats.map(|d| ("attention".to_owned(), d, attention(d))));
    for right in [DType::I8, DType::U8] {
        let kernel = |left| matmuls::kernel([left, right, DType::I32], [3, 5, 7]);
        all.extend([DType::I8, DType::U8].map(|d| (format!("matmul in i32 by {right}"), d, kernel(d))));
    }
    all
}

fn by_place() -> Vec<Witness> {
    let mut all = Vec::new();
    for index in [DType::I64, DType::I32] {
        let kernel = |d| gathers::kernel(d, index);
        all.extend(DType::ALL.map(|d| (format!("gather by {index}"), d, kernel(d))));
    }
    for combine in Combine::ALL {
        let defined = DType::ALL.into_iter().filter(|&d| combine.has(d));
        let kernel = |d| Kernel::Scatter(scatters::plain(combine, d, DType::I32, &Shape::from(3), [5, 4]));
        all.extend(defined.map(|d| (combine.name().to_owned(), d, kernel(d))));
    }
    all
}
