//! Recurrent networks.

use breakeven::{Activation, Gru, Lstm, Rnn, Sequence, Tensor};

use super::{check, count, engine};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// One hidden unit and one input, so that a step is a line.
#[test]
fn an_lstm_of_one_unit_is_what_its_equations_say() {
    let e = engine();
    let x = e.tensor(&[1.0, -2.0, 0.5], [3, 1, 1]);
    let (w, r) = (e.tensor(&[0.1, 0.2, 0.3, 0.4], [4, 1]), e.tensor(&[-0.5, 0.6, 0.7, -0.8], [4, 1]));
    let bias = e.tensor(&[0.01, 0.02, 0.03, 0.04], 4);
    let weights = Lstm {
        input: &w,
        recurrent: &r,
        bias: Some(&bias),
        peephole: None,
        cell: None,
        activations: [Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
        couples_forget: false,
    };
    let (mut h, mut c, mut want) = (0.0, 0.0, Vec::new());
    for x in [1.0, -2.0, 0.5] {
        let i = sigmoid(0.1 * x - 0.5 * h + 0.01);
        let o = sigmoid(0.2 * x + 0.6 * h + 0.02);
        let f = sigmoid(0.3 * x + 0.7 * h + 0.03);
        c = f * c + i * (0.4f64 * x - 0.8 * h + 0.04).tanh();
        h = o * c.tanh();
        want.push(h);
    }
    let (all, hidden, cell) = x.lstm(&weights, &Sequence::default()).unwrap();
    check(&all, &[3, 1, 1], &want);
    check(&hidden, &[1, 1], &[h]);
    check(&cell, &[1, 1], &[c]);
}

#[test]
fn a_gru_resets_before_or_after_the_product() {
    let e = engine();
    let x = e.tensor(&[1.0, -2.0], [2, 1, 1]);
    let (w, r) = (e.tensor(&[0.1, 0.2, 0.3], [3, 1]), e.tensor(&[-0.5, 0.6, 0.7], [3, 1]));
    let (wb, rb) = (e.tensor(&[0.01, 0.02, 0.03], 3), e.tensor(&[0.1, 0.2, 0.3], 3));
    for resets_after in [false, true] {
        let mut h = 0.0;
        for x in [1.0, -2.0] {
            let z = sigmoid(0.1 * x - 0.5 * h + 0.11);
            let reset = sigmoid(0.2 * x + 0.6 * h + 0.22);
            let seen = if resets_after { reset * (0.7 * h + 0.3) } else { 0.7 * (reset * h) + 0.3 };
            h = (1.0 - z) * (0.3 * x + 0.03 + seen).tanh() + z * h;
        }
        let activations = [Activation::Sigmoid, Activation::Tanh];
        let weights = Gru { input: &w, recurrent: &r, bias: Some((&wb, &rb)), activations, resets_after };
        check(&x.gru(&weights, &Sequence::default()).unwrap().1, &[1, 1], &[h]);
    }
}

#[test]
fn a_sequence_may_be_read_backwards_and_end_early() {
    let e = engine();
    let x = count(&e, &[3, 2, 1], 1.0, 1.0);
    let one = e.tensor(&[1.0], [1, 1]);
    let sums = Rnn { input: &one, recurrent: &one, bias: None, activation: Activation::Identity };
    let run = |how: &Sequence<'_>| -> (Tensor, Tensor) { x.rnn(&sums, how).unwrap() };
    check(&run(&Sequence::default()).0, &[3, 2, 1], &[1., 2., 4., 6., 9., 12.]);
    check(&run(&Sequence { reverse: true, ..Sequence::default() }).0, &[3, 2, 1], &[9., 12., 8., 10., 5., 6.]);
    let lengths = e.from_vec(vec![3i32, 1], 2);
    let (all, last) = run(&Sequence { lengths: Some(&lengths), ..Sequence::default() });
    check(&all, &[3, 2, 1], &[1., 2., 4., 0., 9., 0.]);
    check(&last, &[2, 1], &[9., 2.]);
    let text = x.rnn(&Rnn { input: &x, ..sums.clone() }, &Sequence::default()).unwrap_err().to_string();
    assert!(text.contains("recurrent.rs") && text.contains("rnn"), "{text}");
}
