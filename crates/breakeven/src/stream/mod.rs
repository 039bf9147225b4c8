//! Batches one after the other: while the device computes one and writes it back, the host brings the next and uses the one before.

mod depth;
mod sender;

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use breakeven_cpu::WAKE_NS;
use breakeven_device::Deadline;
use breakeven_plan::DeviceId;

use crate::attempts::Attempts;
use crate::patience::Patience;
use crate::pending::{Pending, PlannedRead};
use crate::{Engine, Result, Tensor};
use depth::Depth;
use sender::{Sender, Sending};

impl Engine {
    /// What `work` makes of each batch, in order. While one result is used, the batches after it are already sent to the device
    /// that computes them, which fetches, computes and writes back without waiting for the host in between.
    ///
    /// `work` writes down what is to be computed, as anywhere else; batches of one shape are planned once. A result is in the
    /// host's memory when it comes: from 64 KiB on a GPU lends the memory that it wrote, which is given back with the tensor. A
    /// batch that fails is an error in its place, and the others go on; a device that is lost is planned around.
    ///
    /// ```
    /// # fn main() -> breakeven::Result<()> {
    /// # let engine = breakeven::Engine::builder().gpus(false).no_cache().build()?;
    /// let batches = (0..3).map(|i| vec![i as f32; 4]);
    /// let squares = engine.stream(batches, |batch| Ok(engine.from_vec(batch, 4).square()));
    /// let sums: Vec<f32> = squares.map(|square| Ok(square?.to_vec::<f32>()?.iter().sum())).collect::<breakeven::Result<_>>()?;
    /// assert_eq!(sums, [0.0, 4.0, 16.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream<I, W>(&self, batches: I, work: W) -> Stream<I::IntoIter, W>
    where
        I: IntoIterator,
        W: FnMut(I::Item) -> Result<Tensor>,
    {
        Stream {
            sender: None,
            engine: self.clone(),
            batches: batches.into_iter(),
            work,
            depth: Depth::measured(),
            came: None,
            each: None,
            sent: VecDeque::new(),
        }
    }
}

/// The results of [`Engine::stream`], in the order of the batches.
pub struct Stream<I, W> {
    /// Once a batch is worth another thread. It goes first: an engine that goes with the rest waits for its threads.
    sender: Option<Sender>,
    engine: Engine,
    batches: I,
    work: W,
    depth: Depth,
    /// When the last result came, if another thread had sent it.
    came: Option<Instant>,
    /// How long the caller waits for one.
    each: Option<Duration>,
    sent: VecDeque<Result<Sent>>,
}

/// A batch on its way.
struct Sent {
    result: Tensor,
    way: Way,
}

/// How far it is.
enum Way {
    /// It was there already, or could not be started: who reads it then meets the reason.
    None,
    Begun(Pending),
    /// Another thread begins it.
    Sending(Sending),
}

/// A batch is worth another thread from so many times what waking threads takes.
const WORTH: f64 = 4.0;

impl<I, W> Stream<I, W> {
    /// So many batches on their way at once; 1 sends the next only when one is read. Each holds its operands and its result.
    ///
    /// Where it is not said, there are 3 at first. A stream of large batches to another device than the CPU tries 4 and then 2, 14
    /// batches each, and stays at the least of the three that takes at most 3% longer than the best, from one result to the next.
    #[must_use]
    pub fn depth(mut self, batches: usize) -> Stream<I, W> {
        self.depth = Depth::Settled(batches.max(1));
        self
    }

    /// How many batches may be on their way at once now: what [`Stream::depth`] said, or what was measured so far.
    #[must_use]
    pub fn current_depth(&self) -> usize {
        self.depth.now()
    }

    /// How long the reading of one batch may take, instead of the engine's own deadline.
    #[must_use]
    pub fn deadline(mut self, each: Duration) -> Stream<I, W> {
        self.each = Some(each);
        self
    }
}

impl<I, W> Iterator for Stream<I, W>
where
    I: Iterator,
    W: FnMut(I::Item) -> Result<Tensor>,
{
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Result<Tensor>> {
        while self.sent.len() < self.depth.now() {
            let Some(batch) = self.batches.next() else { break };
            let sent = (self.work)(batch).map(|result| self.send(result));
            self.sent.push_back(sent);
        }
        let sent = self.sent.pop_front()?;
        let by_another = matches!(&sent, Ok(Sent { way: Way::Sending(_), .. }));
        let result = sent.and_then(|sent| self.receive(sent));
        self.note(by_another.then(Instant::now));
        Some(result)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.batches.size_hint();
        (least + self.sent.len(), most.map(|most| most + self.sent.len()))
    }
}

impl<I, W> Stream<I, W> {
    /// A result came. What the caller does between two of them counts, too: who is slower than the device needs no deep queue.
    fn note(&mut self, came: Option<Instant>) {
        let before = std::mem::replace(&mut self.came, came);
        if let Some((came, before)) = came.zip(before) {
            self.depth.observe(came.duration_since(before));
        }
    }

    fn send(&mut self, result: Tensor) -> Sent {
        // What could not be started is met again by the read, which plans anew without a device that failed.
        let way = match self.engine.plan_read(&result).unwrap_or_default() {
            Some(planned) => self.begin(planned),
            None => Way::None,
        };
        Sent { result, way }
    }

    fn begin(&mut self, planned: PlannedRead) -> Way {
        let patience = self.patience();
        if self.depth.now() > 1 && self.is_worth_a_thread(&planned) {
            self.sender = self.sender.take().or_else(|| Sender::new(&self.engine));
        } else if self.sender.is_none() {
            return planned.start(patience).map_or(Way::None, Way::Begun);
        }
        match &self.sender {
            // In order: a small batch after large ones is not begun before them.
            Some(sender) => Way::Sending(sender.send(planned, patience)),
            None => planned.start(patience).map_or(Way::None, Way::Begun),
        }
    }

    /// Whether a device's memory is filled for it long enough. The CPU computes within the call that begins it, with all threads: beside that, what the
    /// caller computes would have one.
    fn is_worth_a_thread(&self, planned: &PlannedRead) -> bool {
        let seconds = planned.seconds_elsewhere();
        let devices = self.engine.0.devices.snapshot();
        let wake_ns = devices.entry(DeviceId::HOST).profile.tuning.get(WAKE_NS);
        seconds.zip(wake_ns).is_some_and(|(seconds, wake_ns)| seconds * 1e9 > WORTH * wake_ns)
    }

    fn receive(&self, Sent { result, way }: Sent) -> Result<Tensor> {
        let patience = self.patience();
        let pending = match way {
            Way::None => None,
            Way::Begun(pending) => Some(pending),
            Way::Sending(sending) => sending.wait(patience),
        };
        let mut attempts = Attempts::at(&[&result], patience);
        if let Some(pending) = pending {
            pending.wait(&mut attempts)?;
        }
        self.engine.read_after(&result, &mut attempts)?;
        Ok(result)
    }

    fn patience(&self) -> Patience {
        self.each.map_or_else(|| self.engine.patience(), |each| Patience::Callers(Deadline::after(each)))
    }
}

impl<I, W> fmt::Debug for Stream<I, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {} on their way)", self.sent.len(), self.depth.now())
    }
}
