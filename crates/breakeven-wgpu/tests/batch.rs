//! Launches that share a dispatch, against the launches one after the other on the host.

mod common;

use std::time::Duration;

use breakeven_device::{Binding, Deadline, Device, HostBytes, Lane, ReadCell, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Layout, Map, Operand, Row, Shape};
use breakeven_wgpu::WgpuDevice;
use common::{Random, alloc, devices};

fn row(name: &str) -> Expr {
    Expr::row(Row::named(name).unwrap(), DType::F32)
}

/// A map of views; each operand is its slot and its layout, output last.
fn map(expr: Expr, params: Vec<f64>, operands: &[(usize, Layout)]) -> Launch {
    let (out, inputs) = operands.split_last().unwrap();
    let operand = |dtype: DType, layout: &Layout| Operand::new(dtype, layout.clone());
    let inputs_of = expr.args().iter().zip(inputs).map(|(&d, (_, l))| operand(d, l)).collect();
    let kernel = Kernel::Map(Map { out: operand(expr.dtype(), &out.1), inputs: inputs_of, params, expr });
    Launch { kernel, inputs: inputs.iter().map(|i| i.0).collect(), outputs: vec![out.0], workspace: None }
}

fn relu(from: usize, to: usize, n: usize, start: usize) -> Launch {
    map(row("relu"), vec![], &[(from, line(n)), (to, part(start, n))])
}

fn line(n: usize) -> Layout {
    Layout::dense([n])
}

fn part(start: usize, n: usize) -> Layout {
    Layout { offset: start, ..line(n) }
}

/// Bytes of every buffer in use.
const BYTES: usize = 1 << 15;

/// Carries out `launches`, where slot `i` stands for buffer `buffers[i]`, and compares all of memory with what the
/// reference makes of one launch after the other. The number of dispatches.
fn check(device: &WgpuDevice, launches: &[Launch], buffers: &[usize]) -> u64 {
    let count = buffers.iter().max().unwrap() + 1;
    let mut random = Random::new(7);
    let start: Vec<Vec<u8>> =
        (0..count).map(|_| random.storage(&Operand::new(DType::F32, line(BYTES / 4 - 4)))).collect();
    let (got, dispatches) = run(device, launches, buffers, &start);
    for (buffer, want) in reference(launches, buffers, start).iter().enumerate() {
        let wrong = want.iter().zip(&got[buffer]).position(|(w, g)| w != g);
        assert_eq!(wrong, None, "{device:?}: byte of buffer {buffer} after {launches:?}");
    }
    dispatches
}

fn run(device: &WgpuDevice, launches: &[Launch], buffers: &[usize], start: &[Vec<u8>]) -> (Vec<Vec<u8>>, u64) {
    let slot_of = |buffer: usize| buffers.iter().position(|&b| b == buffer).unwrap();
    let mut steps: Vec<SegmentStep> =
        (0..start.len()).map(|upload| SegmentStep::Upload { upload, slot: slot_of(upload) }).collect();
    steps.extend(launches.iter().map(|launch| SegmentStep::Launch(Box::new(launch.clone()))));
    let bytes = BYTES as u64;
    steps.extend((0..start.len()).map(|read| SegmentStep::Download { slot: slot_of(read), bytes, read }));
    let work = device.prepare(&Segment { steps }).unwrap();
    let memory: Vec<_> = start.iter().map(|_| alloc(device, bytes)).collect();
    let reads: Vec<ReadCell> = start.iter().map(|_| ReadCell::new()).collect();
    let binding = Binding {
        buffers: buffers.iter().map(|&b| memory[b].clone()).collect(),
        uploads: start.iter().map(|b| HostBytes::from_vec(b.clone())).collect(),
        reads: reads.clone(),
        ..Binding::default()
    };
    let before = device.counters().dispatches;
    let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
    device.wait(ticket, Deadline::after(Duration::from_mins(5))).unwrap();
    let got = reads.iter().map(|r| r.take().unwrap().to_vec()).collect();
    (got, device.counters().dispatches - before)
}

fn reference(launches: &[Launch], buffers: &[usize], mut memory: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for launch in launches {
        let inputs: Vec<Vec<u8>> = launch.inputs.iter().map(|&slot| memory[buffers[slot]].clone()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        launch.kernel.reference(&inputs, &mut [&mut memory[buffers[launch.outputs[0]]]]);
    }
    memory
}

fn own_buffers(slots: usize) -> Vec<usize> {
    (0..slots).collect()
}

#[test]
fn twenty_parts_of_one_output_are_as_few_dispatches_as_the_limits_allow() {
    for device in devices() {
        for n in [256, 100, 4] {
            let launches: Vec<Launch> = (0..20).map(|i| relu(i, 20, n, n * i)).collect();
            let most = (device.caps().max_bindings - 1).min(20);
            assert_eq!(check(&device, &launches, &own_buffers(21)), 20u64.div_ceil(most as u64), "{device:?}");
        }
    }
}

#[test]
fn one_buffer_is_bound_once_whoever_reads_it() {
    for device in devices() {
        let launches: Vec<Launch> = (0..300).map(|i| relu(0, 1, 8, 8 * i)).collect();
        assert_eq!(check(&device, &launches, &own_buffers(2)), 1);
        let bias = |i: usize| map(row("add"), vec![], &[(i, line(9)), (6, line(9)), (7, part(12 * i, 9))]);
        assert_eq!(check(&device, &(0..6).map(bias).collect::<Vec<_>>(), &own_buffers(8)), 1);
    }
}

/// Lengths from 1 on, so that parts start anywhere: those at multiples of four are computed in another way.
#[test]
fn ragged_parts_are_one_dispatch_for_each_way_to_reach_them() {
    for device in devices() {
        let start = |i: usize| i * (i + 1) / 2;
        let launches: Vec<Launch> = (0..40).map(|i| relu(0, 1, i + 1, start(i))).collect();
        // Three ways: by quads, by elements, and the single element, which has no axis.
        assert_eq!(check(&device, &launches, &own_buffers(2)), 3, "{device:?}");
    }
}

#[test]
fn views_share_a_dispatch_with_their_like() {
    for device in devices() {
        let shape = Shape::from([3, 6]);
        let step = |i: usize, j: isize| Layout {
            offset: 40 + i,
            strides: [7 + i as isize, j].into_iter().collect(),
            ..Layout::dense(shape.clone())
        };
        let out = |i: usize| Layout::dense([3, 42]).slice(1, 6 * i, 6, 1);
        let views = [step(0, 1), step(1, -1), step(2, 2), step(3, -2), step(4, 0), step(5, 3), step(6, -3)];
        let launches: Vec<Launch> =
            views.into_iter().enumerate().map(|(i, view)| map(row("neg"), vec![], &[(0, view), (1, out(i))])).collect();
        assert_eq!(check(&device, &launches, &own_buffers(2)), 1, "{device:?}");
    }
}

/// Members have as many groups as the largest of them, of which those past their own end have nothing to do.
#[test]
fn launches_about_as_large_share_a_dispatch() {
    for device in devices() {
        let launches = [relu(0, 1, 100, 0), relu(0, 1, 2600, 100), relu(0, 1, 4000, 2700), relu(0, 1, 77, 6800)];
        assert_eq!(check(&device, &launches, &own_buffers(2)), 2, "{device:?}");
    }
}

#[test]
fn parameters_belong_to_the_member() {
    for device in devices() {
        let leaky = |i: usize| {
            let slope = vec![0.25 * i as f64];
            map(row("leaky_relu"), slope, &[(0, part(16 * i, 13)), (1, part(16 * i, 13))])
        };
        assert_eq!(check(&device, &(0..5).map(leaky).collect::<Vec<_>>(), &own_buffers(2)), 1);
    }
}

#[test]
fn outputs_of_their_own_and_work_in_place_share_a_dispatch() {
    for device in devices() {
        let in_place: Vec<Launch> = (0..6).map(|i| relu(i, i, 30 + i, 0)).collect();
        assert_eq!(check(&device, &in_place, &own_buffers(6)), 1);
        let mut apart: Vec<Launch> = (0..4).map(|i| relu(i, i + 4, 33, 0)).collect();
        assert_eq!(check(&device, &apart, &own_buffers(8)), 1);
        apart.push(map(row("neg"), vec![], &[(4, line(33)), (0, line(33))]));
        assert_eq!(check(&device, &apart, &own_buffers(8)), 2);
    }
}

#[test]
fn what_depends_on_a_launch_comes_after_it() {
    for device in devices() {
        let chain: Vec<Launch> = (0..5).map(|i| relu(i, i + 1, 50, 0)).collect();
        assert_eq!(check(&device, &chain, &own_buffers(6)), 5);
        // Written, then overwritten, in whole or by one element.
        assert_eq!(check(&device, &[relu(0, 2, 64, 0), relu(1, 2, 64, 0)], &own_buffers(3)), 2);
        assert_eq!(check(&device, &[relu(0, 2, 64, 0), relu(1, 2, 64, 60)], &own_buffers(3)), 2);
        // Read, then overwritten.
        assert_eq!(check(&device, &[relu(0, 2, 64, 0), relu(1, 0, 64, 32)], &own_buffers(3)), 2);
        // Written, then read.
        assert_eq!(check(&device, &[relu(0, 1, 64, 8), relu(1, 2, 64, 0)], &own_buffers(3)), 2);
    }
}

#[test]
fn a_launch_moves_before_others_only_past_what_it_does_not_touch() {
    for device in devices() {
        let neg = |from, to, start| map(row("neg"), vec![], &[(from, line(40)), (to, part(start, 40))]);
        let free = [relu(0, 3, 40, 0), neg(1, 3, 40), relu(2, 3, 40, 80), neg(0, 3, 120)];
        assert_eq!(check(&device, &free, &own_buffers(4)), 2);
        let read_between = [relu(0, 3, 40, 0), neg(1, 2, 0), relu(2, 3, 40, 80)];
        assert_eq!(check(&device, &read_between, &own_buffers(4)), 3);
        let overwritten = [relu(0, 3, 40, 0), neg(2, 3, 40), relu(1, 2, 40, 0)];
        assert_eq!(check(&device, &overwritten, &own_buffers(4)), 3);
        // The last goes to the second, which is still after the first.
        let half_way = [relu(0, 3, 40, 0), neg(1, 2, 0), relu(2, 3, 40, 80), neg(3, 0, 0)];
        assert_eq!(check(&device, &half_way, &own_buffers(4)), 3);
    }
}

#[test]
fn slots_that_stand_for_one_buffer_are_one_slot() {
    for device in devices() {
        let launches = [relu(0, 2, 64, 0), relu(1, 3, 64, 0)];
        assert_eq!(check(&device, &launches, &[0, 1, 2, 3]), 1);
        assert_eq!(check(&device, &launches, &[0, 1, 2, 2]), 2);
        assert_eq!(check(&device, &launches, &[0, 1, 1, 2]), 2);
        assert_eq!(check(&device, &launches, &[0, 0, 0, 1]), 2);
        assert_eq!(check(&device, &launches, &[0, 0, 1, 2]), 1);
        let parts = [relu(0, 2, 64, 0), relu(1, 3, 64, 64)];
        assert_eq!(check(&device, &parts, &[0, 1, 2, 2]), 1);
    }
}

/// Bytes are written as words: neighbours that share one may not be written side by side.
#[test]
fn bytes_share_a_dispatch_when_they_share_no_word() {
    for device in devices() {
        let less = |i: usize, start: usize| {
            let x = |slot: usize| (slot, part(16 * i, 13));
            map(row("less"), vec![], &[x(0), x(1), (2, part(start, 13))])
        };
        assert_eq!(check(&device, &(0..6).map(|i| less(i, 16 * i)).collect::<Vec<_>>(), &own_buffers(3)), 1);
        let short =
            |n: usize, start: usize| map(row("less"), vec![], &[(0, line(n)), (1, line(n)), (2, part(start, n))]);
        assert_eq!(check(&device, &[short(5, 0), short(8, 4)], &own_buffers(3)), 2);
        assert_eq!(check(&device, &[short(4, 0), short(8, 4)], &own_buffers(3)), 1);
    }
}

#[test]
fn every_row_at_random_views_is_the_same_in_company() {
    for device in devices() {
        for (seed, name) in ["add", "relu", "maximum", "abs", "sub"].into_iter().enumerate() {
            let mut random = Random::new(seed as u64 + 1);
            for dims in [&[5, 7][..], &[2, 3, 8], &[64], &[4, 4, 2, 3]] {
                let shape = Shape::new(dims).unwrap();
                let expr = row(name);
                let mut launches = Vec::new();
                for i in 0..12 {
                    let mut operands: Vec<(usize, Layout)> =
                        expr.args().iter().map(|_| (random.below(3), random.layout(&shape, true))).collect();
                    let mut out = random.layout(&shape, false);
                    out.offset += random.below(4) * 150 * i;
                    operands.push((3, out));
                    launches.push(map(expr.clone(), vec![], &operands));
                }
                check(&device, &launches, &own_buffers(4));
            }
        }
    }
}
