//! What runs found out and later runs need not: initialisers, folded constants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakeven::{DeviceId, Engine, Program, Spec, Tensor};

use crate::value::Item;

/// Sets of input shapes whose constants are kept, and engines; the oldest are forgotten.
const KEPT: usize = 16;

/// Outputs by the id of their node.
type Outputs = HashMap<u32, Vec<Item>>;

/// What is known on each engine that ran the model.
#[derive(Debug, Default)]
pub(crate) struct Stores(Mutex<Vec<(Engine, Arc<Store>)>>);

impl Stores {
    /// The store of `engine`.
    pub fn of(&self, engine: &Engine) -> Arc<Store> {
        let mut stores = lock(&self.0);
        if let Some((_, store)) = stores.iter().find(|(known, _)| known.is_same(engine)) {
            return store.clone();
        }
        if stores.len() >= KEPT {
            stores.remove(0);
        }
        let store = Arc::new(Store::default());
        stores.push((engine.clone(), store.clone()));
        store
    }
}

/// What is known on one engine.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// What depends on the model alone.
    fixed: Mutex<Outputs>,
    /// What depends on the shapes of inputs too.
    shaped: Mutex<Vec<(Vec<Spec>, Arc<Known>)>>,
    /// Whole runs.
    programs: Mutex<Vec<Kept>>,
}

/// A run that was written down as a whole, and when it holds.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Dtypes and shapes of the inputs.
    pub specs: Vec<Spec>,
    /// The device that everything is forced to.
    pub device: Option<DeviceId>,
    /// The bytes of inputs that decided the way through the graph.
    pub deciding: Vec<(usize, Vec<u8>)>,
    pub program: Program,
}

impl Kept {
    fn holds_for(&self, inputs: &[&Tensor]) -> bool {
        let is_same = |(index, bytes): &(usize, Vec<u8>)| inputs[*index].to_bytes().is_ok_and(|now| now == *bytes);
        self.deciding.iter().all(is_same)
    }
}

impl Store {
    /// What a node gives in every run, made at first.
    pub fn fixed(&self, id: u32, make: impl FnOnce() -> Vec<Item>) -> Vec<Item> {
        lock(&self.fixed).entry(id).or_insert_with(make).clone()
    }

    /// What a node gives in every run, if that is known.
    pub fn find(&self, id: u32) -> Option<Vec<Item>> {
        lock(&self.fixed).get(&id).cloned()
    }

    /// A node gives this in every run.
    pub fn keep(&self, id: u32, items: &[Item]) {
        lock(&self.fixed).insert(id, items.to_vec());
    }

    /// The program for these inputs.
    pub fn program(&self, specs: &[Spec], device: Option<DeviceId>, inputs: &[&Tensor]) -> Option<Program> {
        let fits = |kept: &&Kept| kept.specs == specs && kept.device == device;
        let all: Vec<Kept> = lock(&self.programs).iter().filter(fits).cloned().collect();
        all.into_iter().find(|kept| kept.holds_for(inputs)).map(|kept| kept.program)
    }

    /// How many programs there are.
    #[cfg(test)]
    pub fn programs(&self) -> usize {
        lock(&self.programs).len()
    }

    /// Later runs may use this program.
    pub fn keep_program(&self, kept: Kept) {
        let mut programs = lock(&self.programs);
        if programs.len() >= KEPT {
            programs.remove(0);
        }
        programs.push(kept);
    }

    /// What is known for inputs of these specs.
    pub fn shaped(&self, specs: &[Spec]) -> Arc<Known> {
        let mut shaped = lock(&self.shaped);
        if let Some((_, known)) = shaped.iter().find(|(s, _)| s == specs) {
            return known.clone();
        }
        if shaped.len() >= KEPT {
            shaped.remove(0);
        }
        let known = Arc::new(Known::default());
        shaped.push((specs.to_vec(), known.clone()));
        known
    }
}

/// What is known for inputs of certain shapes.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Outputs>);

impl Known {
    /// What a node gives, if that is known.
    pub fn find(&self, id: u32) -> Option<Vec<Item>> {
        lock(&self.0).get(&id).cloned()
    }

    /// A node gives this for inputs of these shapes.
    pub fn keep(&self, id: u32, items: &[Item]) {
        lock(&self.0).insert(id, items.to_vec());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
