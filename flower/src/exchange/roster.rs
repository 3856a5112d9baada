//! Finds out which node of the engine is which silo, and again when a silo comes back as another.

use std::time::{Duration, Instant};

use partita_inference::Message;

use super::{Flower, PAUSE};
use crate::error::{Error, Result};
use crate::object::ObjectId;
use crate::record::unpack;
use crate::silo::HELLO;

impl Flower {
    /// Says hello to every node that is not known to be one of the silos, until all are found.
    pub(super) fn find_silos(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut asked: Vec<(u64, ObjectId, Instant)> = Vec::new();
        loop {
            let nodes = self.task.nodes()?;
            // A silo whose node is gone may come back as another.
            for known in &mut self.nodes {
                if !nodes.contains(known) {
                    *known = 0;
                }
            }
            if self.nodes.iter().all(|node| *node != 0) {
                return Ok(());
            }
            asked.retain(|(_, _, since)| since.elapsed() < Duration::from_secs(20));
            for node in &nodes {
                if !self.nodes.contains(node) && !asked.iter().any(|(known, _, _)| known == node) {
                    let hello = Message::new(HELLO);
                    let id = self.send(&hello, *node, ("", 0, 1), Duration::from_secs(60));
                    if let Ok(id) = id {
                        asked.push((*node, id, Instant::now()));
                    }
                }
            }
            let ids: Vec<ObjectId> = asked.iter().map(|(_, id, _)| id.clone()).collect();
            if !ids.is_empty() {
                for arrived in self.task.pull(&ids, self.limits())? {
                    let Ok((objects, root)) = arrived.content else { continue };
                    let node = arrived.metadata.src_node_id;
                    let Ok((message, envelope)) = unpack(&objects, &root) else { continue };
                    if let Some(place) = self.options.silos.iter().position(|name| *name == envelope.silo) {
                        self.nodes[place] = node;
                        self.rows[place] = message.get_word("rows").unwrap_or(0);
                    }
                }
            }
            if started.elapsed().as_secs() > self.options.patience.appear_seconds {
                let missing = self.options.silos.iter().zip(&self.nodes).filter(|(_, node)| **node == 0);
                let missing = missing.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                return Err(Error::Missing {
                    missing,
                    found: nodes.len(),
                    seconds: self.options.patience.appear_seconds,
                });
            }
            std::thread::sleep(PAUSE);
        }
    }
}
