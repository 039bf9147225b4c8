//! Two programs that measure the same cells in turns: whatever disturbs the machine meets both.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use breakeven_study::Cell;
use breakeven_study::verdict::{Blocks, Sides};

use super::process::{given, listen, reason, rest, start};
use super::task::{Line, Measure, Task};
use super::{Error, Result};

/// A program that carries out tasks.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Where it is.
    pub program: PathBuf,
    /// The arguments that make it take a task.
    pub arguments: Vec<String>,
    /// How much longer its calls are made: see [`super::task::Effort::slowed`].
    pub slowed: f64,
}

/// What two programs gave for a cell.
#[derive(Debug, Clone, Default)]
pub struct Duel {
    /// One ratio for each pair of processes, or for each pair of their blocks.
    pub blocks: Blocks,
    /// Why it has no verdict: a program is wrong, fails, or does not have the cell.
    pub wrong: Option<String>,
}

/// A turn of one program: for each cell the times of its calls, or why there are none.
type Turn = BTreeMap<Cell, std::result::Result<Vec<f64>, String>>;

/// How often two programs take turns, and what whoever waits for that is asked and told.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    /// Pairs of processes; twice and four times as many where they leave a cell unknown.
    pub count: usize,
    /// Pairs without which nothing is said: they are taken however long it takes.
    pub least: usize,
    /// Whether what they show is enough.
    pub is_known: &'a dyn Fn(&Blocks) -> bool,
    /// Whether somebody asked to stop.
    pub stopped: &'a dyn Fn() -> bool,
    /// Is told how many pairs are done.
    pub tell: &'a dyn Fn(usize),
}

/// How long more pairs of processes are begun than a verdict needs: drivers may take seconds to begin one.
pub const LONGEST: Duration = Duration::from_mins(2);
/// How long a process may take to end by itself, which keeps what its driver compiled.
const ENDING: Duration = Duration::from_secs(2);
/// Turns of each of two processes, at least and at most.
const TURNS: [usize; 2] = [2, 50];

/// Pairs of processes for each cell of `task`, which names one size. Where its memory happens to lie makes a process faster or slower, and
/// that is no difference of programs, so each pair is of new ones.
pub fn duel(both: [&Contestant; 2], task: &Measure, pairs: Pairs<'_>) -> Result<BTreeMap<Cell, Duel>> {
    let Pairs { count, least, is_known, stopped, tell } = pairs;
    let (begun, mut found) = (Instant::now(), BTreeMap::<Cell, Duel>::new());
    for pair in 0..4 * count {
        let is_known = |duel: &Duel| duel.wrong.is_some() || is_known(&duel.blocks);
        let is_enough = [count, 2 * count].contains(&pair) && found.values().all(is_known);
        if is_enough || pair >= least && begun.elapsed() > LONGEST {
            break;
        }
        tell(pair);
        match Meeting::begin(both, task, (pair % 2, stopped)).and_then(Meeting::all) {
            Ok(met) => met.into_iter().for_each(|(cell, met)| found.entry(cell).or_default().add(met)),
            Err(error) if found.is_empty() || stopped() => return Err(error),
            Err(error) => {
                let why = format!("pair {} of processes: {error}", pair + 1);
                for duel in found.values_mut() {
                    duel.wrong = Some(why.clone());
                }
                break;
            }
        }
    }
    Ok(found)
}

/// Two processes, one of which waits while the other one works.
struct Meeting<'a> {
    sides: [Talk; 2],
    /// Which of them was begun first.
    first: usize,
    stopped: &'a dyn Fn() -> bool,
    /// How long beginning both took.
    beginning: Duration,
}

impl Drop for Meeting<'_> {
    /// No more turns for either, before one of them is waited for.
    fn drop(&mut self) {
        self.sides.iter_mut().for_each(|side| side.stdin = None);
    }
}

impl<'a> Meeting<'a> {
    fn begin(
        both: [&Contestant; 2],
        task: &Measure,
        (first, stopped): (usize, &'a dyn Fn() -> bool),
    ) -> Result<Meeting<'a>> {
        let begun = Instant::now();
        let begin = |side: usize| Talk::begin(both[side], task, stopped);
        let [one, other] = [begin(first)?, begin(1 - first)?];
        let sides = if first == 0 { [one, other] } else { [other, one] };
        let mut meeting = Meeting { sides, first, stopped, beginning: Duration::ZERO };
        // The first turn of a process meets caches that the other one's beginning has filled.
        meeting.pair(0)?;
        meeting.beginning = begun.elapsed();
        Ok(meeting)
    }

    /// A and B, then B and A, and so on, for as long as beginning them took.
    fn all(mut self) -> Result<BTreeMap<Cell, Duel>> {
        let (begun, mut found) = (Instant::now(), BTreeMap::<Cell, Duel>::new());
        for turn in 0..TURNS[1] {
            if turn >= TURNS[0] && begun.elapsed() > self.beginning {
                break;
            }
            let mut turns = self.pair(turn)?;
            let cells: BTreeSet<Cell> = turns.iter().flat_map(BTreeMap::keys).cloned().collect();
            for cell in cells {
                found.entry(cell.clone()).or_default().take(turns.each_mut().map(|turn| turn.remove(&cell)));
            }
        }
        Ok(found)
    }

    /// One turn of each.
    fn pair(&mut self, turn: usize) -> Result<[Turn; 2]> {
        let first = (self.first + turn) % 2;
        let mut turns = [Turn::new(), Turn::new()];
        for side in [first, 1 - first] {
            turns[side] = self.sides[side].turn(self.stopped)?;
        }
        Ok(turns)
    }
}

impl Duel {
    /// Adds what two more processes showed.
    fn add(&mut self, met: Duel) {
        self.blocks.add_meeting(&met.blocks);
        self.wrong = self.wrong.take().or(met.wrong);
    }

    fn take(&mut self, turns: [Option<std::result::Result<Vec<f64>, String>>; 2]) {
        match turns {
            [Some(Ok(a_ns)), Some(Ok(b_ns))] => self.blocks.add(Sides { a_ns: &a_ns, b_ns: &b_ns }),
            turns => {
                let names = ["the first program", "the second program"];
                let why = |(turn, name): (Option<_>, &str)| match turn {
                    None => Some(format!("{name} does not measure it")),
                    Some(Err(why)) => Some(format!("{name}: {why}")),
                    Some(Ok(_)) => None,
                };
                let all: Vec<String> = turns.into_iter().zip(names).filter_map(why).collect();
                self.wrong = Some(all.join("; "));
            }
        }
    }
}

/// A child that waits between turns.
struct Talk {
    /// The program, as whoever named it did.
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
    silence: Duration,
    /// How long it may take to end by itself: no time where somebody asked to stop.
    patience: Duration,
}

impl Talk {
    fn begin(contestant: &Contestant, task: &Measure, stopped: &dyn Fn() -> bool) -> Result<Talk> {
        let name = contestant.program.display().to_string();
        let mut child = start(&contestant.program, &contestant.arguments)
            .map_err(|error| Error::Refused(format!("{name} cannot be started: {error}")))?;
        let effort = super::task::Effort { slowed: contestant.slowed, ..task.effort };
        let task = Task::Turns(Measure { effort, ..task.clone() });
        let mut stdin = child.stdin.take().expect("it was asked for");
        let (lines, errors) = (listen(child.stdout.take()), listen(child.stderr.take()));
        let written = stdin.write_all(&given(&task));
        let (silence, patience) = (Duration::from_millis(effort.silence_ms), ENDING);
        let mut talk = Talk { name, child, stdin: Some(stdin), lines, errors, silence, patience };
        written.map_err(|_| talk.ended())?;
        talk.hear(stopped)?;
        Ok(talk)
    }

    /// One block of samples of each cell.
    fn turn(&mut self, stopped: &dyn Fn() -> bool) -> Result<Turn> {
        let asked = self.stdin.as_mut().expect("it is there until the end").write_all(b"go\n");
        asked.map_err(|_| self.ended())?;
        self.hear(stopped)
    }

    /// What it says until it waits again.
    fn hear(&mut self, stopped: &dyn Fn() -> bool) -> Result<Turn> {
        let (mut found, mut heard) = (BTreeMap::new(), Instant::now());
        loop {
            if stopped() {
                self.patience = Duration::ZERO;
                return Err(Error::Refused("stopped".to_owned()));
            }
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    heard = Instant::now();
                    match serde_json::from_str(&line) {
                        Ok(Line::Ready) => return Ok(found),
                        Ok(Line::Turn { cell, wall_ns, wrong }) => {
                            let times = wall_ns.into_iter().map(|ns| ns as f64).collect();
                            found.insert(cell, wrong.map_or(Ok(times), Err));
                        }
                        Ok(_) => {}
                        Err(e) => {
                            let name = &self.name;
                            return Err(Error::Refused(format!("{name} said what is not understood ({e}): {line}")));
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() > self.silence => {
                    return Err(Error::Refused(format!("{} said nothing for {:.1?}", self.name, heard.elapsed())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn ended(&mut self) -> Error {
        let how = self.end().map_or_else(|e| e.to_string(), |status| status.to_string());
        let said = rest(&self.errors);
        Error::Refused(format!("{} ended ({how}): {}", self.name, reason(&said).unwrap_or("it said nothing")))
    }
}

impl Talk {
    /// No more turns: it ends by itself, or is ended.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.stdin = None;
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // This very child and no other, if it is still there.
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // Whoever drops it has what it said.
        let _ = self.end();
    }
}
