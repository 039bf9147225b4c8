//! Resizing.

use breakeven::{Coordinates, Filter, Resize};

use super::{check, count, engine};

#[test]
fn resizing_is_interpolation() {
    let e = engine();
    let x = count(&e, &[1, 4], 1.0, 0.0);
    check(&x.resize(1, &Resize::nearest(4, 8)), &[1, 8], &[0., 0., 1., 1., 2., 2., 3., 3.]);
    check(&x.resize(-1, &Resize::linear(4, 8)), &[1, 8], &[0., 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.]);
    let corners = Resize { coordinates: Coordinates::AlignCorners, ..Resize::linear(4, 7) };
    check(&x.resize(1, &corners), &[1, 7], &[0., 0.5, 1., 1.5, 2., 2.5, 3.]);
    let small = Resize { antialias: true, ..Resize::linear(4, 2) };
    // A triangle of width 2 at 0.5 and 2.5: weights 1/8, 3/8, 3/8, 1/8, what lies outside shows the edge.
    check(&x.resize(1, &small), &[1, 2], &[0.625, 2.375]);
    let cubic = Resize { filter: Filter::Cubic(-0.75), ..Resize::linear(4, 8) };
    // Keys' weights at a quarter: -0.10546875, 0.87890625, 0.26171875, -0.03515625.
    let third = -0.10546875 * 0.0 + 0.87890625 * 1.0 + 0.26171875 * 2.0 - 0.03515625 * 3.0;
    let got = x.resize(1, &cubic).slice(1, 3..4);
    check(&got, &[1, 1], &[third]);
    let crop = Resize { coordinates: Coordinates::Crop(0.0, 2.0), outside: 9.0, ..Resize::linear(4, 3) };
    check(&x.resize(1, &crop), &[1, 3], &[0., 3., 9.]);
}
