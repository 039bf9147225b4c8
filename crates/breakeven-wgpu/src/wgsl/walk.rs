//! Index arithmetic: from the number of an element to its place in each operand.

use std::fmt::Write;

use breakeven_ir::{Layout, Shape};

use super::Shader;

/// Extents that several operands are walked over together, with as few axes as they allow, and the strides of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Extents, outermost first; none is 1.
    pub dims: Vec<usize>,
    /// For each operand, its stride along each of `dims`.
    pub strides: Vec<Vec<isize>>,
}

impl Walk {
    /// The axes of `layouts` in order, merged where every operand allows it.
    pub fn new(shape: &[usize], layouts: &[&[isize]]) -> Walk {
        let mut walk = Walk { dims: Vec::new(), strides: vec![Vec::new(); layouts.len()] };
        for (axis, &extent) in shape.iter().enumerate().filter(|(_, n)| **n != 1) {
            walk.push(extent, layouts.iter().map(|s| s[axis]));
        }
        walk
    }

    /// The axes of whole layouts over `shape`, those along which operand `first` takes the longest steps outermost: for
    /// work that may be done in any order.
    pub fn along(shape: &Shape, layouts: &[&Layout], first: usize) -> Walk {
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(layouts[first].strides[axis].unsigned_abs()));
        let dims: Vec<usize> = order.iter().map(|&a| shape[a]).collect();
        let strides: Vec<Vec<isize>> = layouts.iter().map(|l| order.iter().map(|&a| l.strides[a]).collect()).collect();
        let views: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
        Walk::new(&dims, &views)
    }

    fn push(&mut self, extent: usize, steps: impl Iterator<Item = isize> + Clone) {
        let fits = |(own, step): (&Vec<isize>, isize)| own.last() == Some(&(step * extent as isize));
        if self.strides.iter().zip(steps.clone()).all(fits)
            && let Some(last) = self.dims.last_mut()
        {
            *last *= extent;
            self.strides.iter_mut().zip(steps).for_each(|(own, step)| *own.last_mut().expect("one per axis") = step);
        } else {
            self.dims.push(extent);
            self.strides.iter_mut().zip(steps).for_each(|(own, step)| own.push(step));
        }
    }

    /// True when operand `t` lies row-major without gaps in the order of the walk.
    pub fn is_dense(&self, t: usize) -> bool {
        let mut step = 1;
        self.dims.iter().zip(&self.strides[t]).rev().all(|(&n, &s)| {
            let fits = s == step;
            step *= n as isize;
            fits
        })
    }

    /// Extent of the innermost axis; 1 for a single element.
    pub fn inner(&self) -> usize {
        self.dims.last().copied().unwrap_or(1)
    }

    /// Writes `fn name(e: u32) -> u32`: where operand `t`, whose first element lies at `offset`, has element number `e`.
    /// `walk` names the extents among the arguments.
    pub fn function(&self, shader: &mut Shader, name: &str, walk: &str, t: usize, offset: u64) {
        shader.arg(&format!("{name}_o"), offset as u32);
        let mut text = format!("fn {name}(e: u32) -> u32 {{\n    var p = args.{name}_o;\n    var r = e;\n");
        for (axis, (&extent, &stride)) in self.dims.iter().zip(&self.strides[t]).enumerate().rev() {
            shader.arg(&format!("{walk}_d{axis}"), extent as u32);
            shader.arg(&format!("{name}_s{axis}"), stride as u32);
            if axis == 0 {
                writeln!(text, "    p += r * args.{name}_s0;").expect("strings take text");
            } else {
                writeln!(
                    text,
                    "    p += (r % args.{walk}_d{axis}) * args.{name}_s{axis};\n    r = r / args.{walk}_d{axis};"
                )
                .expect("strings take text");
            }
        }
        text += "    return p;\n}\n";
        shader.function(name, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge_where_all_operands_allow_it() {
        let shape = Shape::from([2, 3, 4]);
        let (dense, bias) = (Layout::dense(shape.clone()), Layout::dense([4]).broadcast(&shape).unwrap());
        assert_eq!(Walk::along(&shape, &[&dense, &dense], 0).dims, [24]);
        let walk = Walk::along(&shape, &[&dense, &bias], 0);
        assert_eq!((walk.dims.as_slice(), walk.strides[1].as_slice()), ([6, 4].as_slice(), [0, 1].as_slice()));
        assert!(walk.is_dense(0) && !walk.is_dense(1));
    }

    #[test]
    fn a_permuted_output_is_walked_in_its_own_order() {
        let shape = Shape::from([3, 5]);
        let out = Layout::dense([5, 3]).permute(&[1, 0]);
        let walk = Walk::along(&shape, &[&Layout::dense(shape.clone()), &out], 1);
        assert_eq!(walk.dims, [5, 3]);
        assert!(walk.is_dense(1));
    }
}
