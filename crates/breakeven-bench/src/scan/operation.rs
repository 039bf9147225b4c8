//! The operations of the study: what is computed from which operands at a size.

use breakeven::{Conv, Tensor};

/// One operation that can be measured at many sizes.
pub struct Operation {
    /// As users know it.
    pub name: &'static str,
    /// Shapes of its operands at a size, which is a number of elements, rows or the like.
    pub operands: fn(usize) -> Vec<Vec<usize>>,
    /// What is computed.
    pub write: fn(&[Tensor]) -> Tensor,
    /// Sizes that the reports which this project began with printed, or that suit it.
    pub sizes: &'static [usize],
    /// What a size counts, in a word or two: "elements", "the side of both matrices".
    pub counts: &'static str,
    /// In how many calls it is computed, each of which takes an even part of all operands, is waited for and gives that part of the result.
    pub calls: usize,
    /// Where it comes from.
    pub suite: Suite,
    /// Whether its result can take the place of its first operand, so that it can be repeated on its own result.
    pub chains: bool,
}

/// Where operations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// The reports that this project began with.
    Seeds,
    /// Layers of models.
    Models,
}

use Suite::{Models, Seeds};

/// What a size of most operations counts.
pub const ELEMENTS: &str = "elements";

const LINES: &[usize] = &[1_000, 10_000, 100_000, 1_000_000];

const fn unary(name: &'static str, write: fn(&[Tensor]) -> Tensor) -> Operation {
    Operation {
        name,
        operands: |n| vec![vec![n]],
        write,
        sizes: LINES,
        counts: ELEMENTS,
        calls: 1,
        suite: Seeds,
        chains: true,
    }
}

const fn binary(name: &'static str, write: fn(&[Tensor]) -> Tensor) -> Operation {
    Operation {
        name,
        operands: |n| vec![vec![n], vec![n]],
        write,
        sizes: LINES,
        counts: ELEMENTS,
        calls: 1,
        suite: Seeds,
        chains: true,
    }
}

const fn folded(name: &'static str, write: fn(&[Tensor]) -> Tensor) -> Operation {
    Operation {
        name,
        operands: |n| vec![vec![n]],
        write,
        sizes: LINES,
        counts: ELEMENTS,
        calls: 1,
        suite: Seeds,
        chains: false,
    }
}

/// Additions of parts, as many and as large as the report of `SuperVM`'s bucket cache has them: of its seven compositions it prints the time of each task
/// (<https://github.com/XujueKing/SuperVM/blob/main/docs/GPU-BUCKET-CACHE-PHASE2-RESULTS.md>). A size counts all elements.
const fn batch(name: &'static str, sizes: &'static [usize], write: fn(&[Tensor]) -> Tensor) -> Operation {
    Operation { sizes, chains: false, ..binary(name, write) }
}

/// Elements of twenty small additions together, and of the large one that is held against them.
const MANY: &[usize] = &[5_120, 20_000, 200_000, 2_000_000];

/// All of them, in the order of reports.
pub static OPERATIONS: &[Operation] = &[
    Operation {
        sizes: &[1_000, 5_120, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000],
        ..binary("add", |x| &x[0] + &x[1])
    },
    binary("mul", |x| &x[0] * &x[1]),
    Operation { operands: |n| vec![vec![n], vec![n]], ..folded("dot", |x| x[0].dot(&x[1])) },
    unary("relu", |x| x[0].relu()),
    unary("leaky_relu", |x| x[0].leaky_relu(0.01)),
    unary("elu", |x| x[0].elu(1.0)),
    unary("clip", |x| x[0].clip(-0.2, 0.3)),
    unary("sigmoid", |x| x[0].sigmoid()),
    unary("tanh", |x| x[0].tanh()),
    unary("silu", |x| x[0].silu()),
    unary("gelu", |x| x[0].gelu()),
    // Repeated on its own result it leaves every type's range after five links.
    Operation { chains: false, ..unary("exp", |x| x[0].exp()) },
    unary("softmax", |x| x[0].softmax(-1)),
    unary("log_softmax", |x| x[0].log_softmax(-1)),
    folded("sum", |x| x[0].sum(0)),
    folded("mean", |x| x[0].mean(0)),
    folded("max", |x| x[0].max(0)),
    Operation {
        name: "matmul",
        operands: |n| vec![vec![n, n], vec![n, n]],
        write: |x| x[0].matmul(&x[1]),
        sizes: &[32, 64, 100, 128, 256, 500, 512, 1_000, 1_024, 2_048],
        counts: "the side of both matrices",
        calls: 1,
        suite: Seeds,
        chains: true,
    },
    Operation {
        name: "conv2d",
        operands: |n| vec![vec![1, 3, n, n], vec![16, 3, 3, 3]],
        write: |x| x[0].conv(&x[1], None, &Conv::default()),
        sizes: &[32, 64, 128, 256, 512],
        counts: "the side of the image",
        calls: 1,
        suite: Seeds,
        chains: false,
    },
    // As AiDotNet's table has it, at 64 x 64.
    Operation {
        name: "conv2d_16_to_32",
        operands: |n| vec![vec![1, 16, n, n], vec![32, 16, 3, 3]],
        write: |x| x[0].conv(&x[1], None, &Conv::default()),
        sizes: &[32, 64, 128, 256],
        counts: "the side of the image",
        calls: 1,
        suite: Seeds,
        chains: false,
    },
    // As Volta's report has them: 20 calls on 256 elements, and one on all of these.
    Operation { chains: false, sizes: MANY, calls: 20, ..unary("many_small_relus", |x| x[0].relu()) },
    Operation { chains: false, sizes: MANY, ..unary("single_large_relu", |x| x[0].relu()) },
    Operation { chains: false, sizes: MANY, ..binary("many_small_adds", |x| in_parts(x, &[1; 20])) },
    // As `many_small_adds`, which is one graph and one call, but twenty of them.
    Operation { chains: false, sizes: MANY, calls: 20, ..binary("many_small_calls", |x| &x[0] + &x[1]) },
    Operation { chains: false, sizes: MANY, ..binary("single_large_add", |x| &x[0] + &x[1]) },
    batch("batch_uniform_32k", &[128_000], |x| in_parts(x, &[32; 4])),
    batch("batch_uniform_64k", &[256_000], |x| in_parts(x, &[64; 4])),
    batch("batch_similar", &[103_000], |x| in_parts(x, &[20, 25, 30, 28])),
    batch("batch_alternating", &[120_000], |x| in_parts(x, &[20, 40, 20, 40])),
    batch("batch_diverse", &[360_000], |x| in_parts(x, &[10, 50, 100, 200])),
    batch("batch_large", &[4_000_000], |x| in_parts(x, &[500; 8])),
    batch("batch_large_alternating", &[2_304_000], |x| in_parts(x, &[256, 512, 256, 512, 256, 512])),
    Operation {
        name: "encoder_layer",
        operands: encoder_operands,
        write: encoder_layer,
        sizes: &[1, 4, 16, 64, 256],
        counts: "texts of 16 tokens",
        calls: 1,
        suite: Models,
        chains: true,
    },
    Operation {
        name: "mlp",
        operands: |n| vec![vec![n, WIDTH], vec![4 * WIDTH, WIDTH], vec![WIDTH, 4 * WIDTH]],
        write: |x| x[0].linear(&x[1], None).gelu().linear(&x[2], None).layer_norm(None, None, 1e-5),
        sizes: &[1, 16, 64, 256, 1_024, 4_096],
        counts: "rows of 384 elements",
        calls: 1,
        suite: Models,
        chains: true,
    },
];

/// Width of `MiniLM`'s layers, of its heads, and tokens of one text.
const WIDTH: usize = 384;
const HEAD: usize = 32;
const LENGTH: usize = 16;

/// Texts of 16 tokens, and the weights of a layer: queries, keys and values, what follows attention, and two of a perceptron.
fn encoder_operands(texts: usize) -> Vec<Vec<usize>> {
    let mut shapes = vec![vec![texts * LENGTH, WIDTH]];
    shapes.extend(std::iter::repeat_n(vec![WIDTH, WIDTH], 4));
    shapes.extend([vec![4 * WIDTH, WIDTH], vec![WIDTH, 4 * WIDTH]]);
    shapes
}

/// One of `MiniLM`'s layers, without its biases.
fn encoder_layer(x: &[Tensor]) -> Tensor {
    let texts = x[0].shape()[0] / LENGTH;
    let heads = |t: Tensor| t.reshape([texts, LENGTH, WIDTH / HEAD, HEAD]).transpose(1, 2);
    let [q, k, v] = [1, 2, 3].map(|weight| heads(x[0].linear(&x[weight], None)));
    let attended = q.attention(&k, &v, None).transpose(1, 2).reshape([texts * LENGTH, WIDTH]);
    let seen = (&x[0] + attended.linear(&x[4], None)).layer_norm(None, None, 1e-12);
    let fed = seen.linear(&x[5], None).gelu().linear(&x[6], None);
    (seen + fed).layer_norm(None, None, 1e-12)
}

/// The sum of two operands as additions of their parts, which relate to each other as `parts` do.
fn in_parts(x: &[Tensor], parts: &[usize]) -> Tensor {
    let (n, all) = (x[0].shape()[0], parts.iter().sum::<usize>());
    let ends: Vec<usize> = (0..=parts.len()).map(|i| n * parts[..i].iter().sum::<usize>() / all).collect();
    let one = |ends: &[usize]| x[0].slice(0, ends[0]..ends[1]) + x[1].slice(0, ends[0]..ends[1]);
    let sums: Vec<Tensor> = ends.windows(2).map(one).collect();
    breakeven::concat(&sums.iter().collect::<Vec<_>>(), 0)
}

impl Operation {
    /// Elements of its first operand at a size: the one that grows, where others are weights.
    pub fn elements(&self, size: usize) -> u64 {
        (self.operands)(size)[0].iter().map(|&n| n as u64).product()
    }

    /// The shape of its first operand in words: "1000x1000".
    pub fn shape(&self, size: usize) -> String {
        (self.operands)(size)[0].iter().map(usize::to_string).collect::<Vec<_>>().join("x")
    }

    /// The largest size, of at most `most`, at which its first operand has no more than so many elements.
    pub fn size_of(&self, elements: u64, most: usize) -> usize {
        let (mut fits, mut exceeds) = (1, most + 1);
        while fits + 1 < exceeds {
            let middle = usize::midpoint(fits, exceeds);
            if self.elements(middle) <= elements { fits = middle } else { exceeds = middle }
        }
        fits
    }
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_from_elements() {
        let size_of = |name: &str, elements| find(name).unwrap().size_of(elements, 1_000_000);
        assert_eq!(size_of("relu", 5_000), 5_000);
        assert_eq!((size_of("matmul", 10_000), size_of("matmul", 10_200)), (100, 100));
        assert_eq!(size_of("relu", 2_000_000), 1_000_000);
    }

    #[test]
    fn names_are_those_of_one_operation() {
        for operation in OPERATIONS {
            assert!(std::ptr::eq(find(operation.name).unwrap(), operation), "{}", operation.name);
            assert!(operation.sizes.is_sorted(), "{}", operation.name);
            assert!(
                operation.calls == 1 || (operation.operands)(7).iter().all(|shape| shape.len() == 1),
                "parts of lines"
            );
        }
    }
}
