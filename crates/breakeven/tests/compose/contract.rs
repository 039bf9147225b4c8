//! Einstein sums.

use breakeven::einsum;

use super::{check, count, engine};

#[test]
fn sums_over_labels_are_what_they_say() {
    let e = engine();
    let a = count(&e, &[2, 3], 1.0, 0.0);
    let b = count(&e, &[3, 2], 1.0, 1.0);
    check(&einsum("ij,jk->ik", &[&a, &b]), &[2, 2], &[13., 16., 40., 52.]);
    check(&einsum("ij,jk", &[&a, &b]), &[2, 2], &[13., 16., 40., 52.]);
    check(&einsum("ij->ji", &[&a]), &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    check(&einsum("ij->", &[&a]), &[], &[15.]);
    check(&einsum("ij->j", &[&a]), &[3], &[3., 5., 7.]);
    let square = count(&e, &[3, 3], 1.0, 0.0);
    check(&einsum("ii->i", &[&square]), &[3], &[0., 4., 8.]);
    check(&einsum("ii", &[&square]), &[], &[12.]);
    check(
        &einsum("i,j->ij", &[&a.slice(0, 0..1).reshape(3), &b.slice(1, 0..1).reshape(3)]),
        &[3, 3],
        &[0., 0., 0., 1., 3., 5., 2., 6., 10.],
    );
    let batch = count(&e, &[2, 2, 3], 1.0, 0.0);
    check(&einsum("...ij,jk->...k", &[&batch, &b]), &[2, 2], &[53., 68., 161., 212.]);
    check(&einsum("ij,jk,kl->il", &[&a, &b, &a]), &[2, 3], &[48., 77., 106., 156., 248., 340.]);
}

#[test]
fn a_wrong_equation_says_what_is_wrong() {
    let e = engine();
    let a = count(&e, &[2, 3], 1.0, 0.0);
    for (equation, word) in
        [("ij,jk", "names 2 tensors"), ("ijk", "rank 2"), ("ij->ik", "must name"), ("i?->i", "label")]
    {
        let text = einsum(equation, &[&a]).check().unwrap_err().to_string();
        assert!(text.contains(word), "{equation}: {text}");
    }
    check(&a.slice(0, 0..1).reshape(3).dot(&a.slice(0, 1..2).reshape(3)), &[], &[14.]);
    check(
        &a.slice(0, 0..1).reshape(3).outer(&a.slice(0, 1..2).reshape(3)),
        &[3, 3],
        &[0., 0., 0., 3., 4., 5., 6., 8., 10.],
    );
}
