//! Holds formulas, files, agreements and designs to what R makes of them, and bad inputs to messages that help.

mod designs;
mod files;
mod golden;
mod grammar;
mod silos;
mod terms;
