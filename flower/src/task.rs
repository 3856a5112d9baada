//! Holds a task of the engine: takes it, keeps it alive, sends and receives its messages, and ends it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::carrier::{Api, Carrier};
use crate::connection::Connection;
use crate::error::Result;
use crate::heart::Heart;
use crate::object::Limits;
use crate::transit::Arrived;
use crate::wire::{
    AcquireTaskRequest, AcquireTaskResponse, Empty, GetNodesResponse, Node, NodeInfo, PullTaskInputResponse,
    PushLogsRequest, PushTaskOutputRequest, SendTaskHeartbeatResponse,
};

/// The node of the coordinator, by the engine's convention.
pub(crate) const COORDINATOR: u64 = 1;

/// The interval of heartbeats: the engine gives a task up after 30 seconds without one.
const BEAT: Duration = Duration::from_secs(10);

/// A task that this process holds.
#[derive(Debug)]
pub(crate) struct Task {
    carrier: Carrier,
    pub(crate) task_id: u64,
    pub(crate) run_id: u64,
    heart: Option<Heart>,
}

/// The record of a task whose process ended: enough to give it back.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Leftover {
    #[prost(string, tag = "1")]
    token: String,
    #[prost(uint64, tag = "2")]
    task_id: u64,
    #[prost(uint64, tag = "3")]
    run_id: u64,
}

/// What brought a request.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// A SuperNode's task.
    Task(Box<Task>),
    /// A look of a silo that is a node of the SuperLink.
    Node(&'a Carrier),
}

impl Source<'_> {
    /// What carries the answer.
    pub(crate) fn carrier(&self) -> &Carrier {
        match self {
            Self::Task(task) => task.carrier(),
            Self::Node(carrier) => carrier,
        }
    }

    /// The record of the task, if there is one.
    pub(crate) fn leftover(&self) -> Option<Leftover> {
        match self {
            Self::Task(task) => Some(task.leftover()),
            Self::Node(_) => None,
        }
    }

    /// Ends the task, if there is one.
    pub(crate) fn end(self, problem: Option<&str>) -> Result<()> {
        match self {
            Self::Task(task) => task.end(problem),
            Self::Node(_) => Ok(()),
        }
    }
}

/// The token is not shown.
impl std::fmt::Debug for Leftover {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Leftover");
        shown.field("task_id", &self.task_id).field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl Task {
    /// Takes the oldest task of this type, if there is one.
    pub(crate) fn acquire(connection: &Connection, kind: &str, node: u64) -> Result<Option<Self>> {
        let request = AcquireTaskRequest { supported_task_types: vec![kind.to_owned()] };
        let answer: AcquireTaskResponse = connection.call("taking a task", "runtime/acquire-task", &request)?;
        let Some(task) = answer.task else { return Ok(None) };
        let connection = connection.with_token(answer.token);
        let input: PullTaskInputResponse = connection.call("starting a task", "runtime/pull-task-input", &Empty {})?;
        let run_id = input.run.map_or(task.run_id, |run| run.run_id);
        let own = connection.for_user(None);
        let heart = Heart::start(BEAT, move || {
            let answer: Result<SendTaskHeartbeatResponse> =
                own.call("keeping a task alive", "runtime/send-task-heartbeat", &Empty {});
            answer.is_ok_and(|answer| answer.success)
        })?;
        let carrier = Carrier { connection, node, api: Api::Runtime };
        Ok(Some(Self { carrier, task_id: task.task_id, run_id, heart: Some(heart) }))
    }

    /// Whether the engine has stopped the task, or has been unreachable for long.
    pub(crate) fn is_stopped(&self) -> bool {
        self.heart.as_ref().is_none_or(Heart::is_stopped)
    }

    /// The nodes that are connected.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeInfo>> {
        let answer: GetNodesResponse = self.carrier.connection.call("listing nodes", "runtime/get-nodes", &Empty {})?;
        Ok(answer.nodes)
    }

    /// What carries its messages.
    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// The message of the task, as [`Carrier::pull`] gives it; a task that was stopped has lost its sender.
    pub(crate) fn pull(&self, limits: Limits, is_given_up: &mut dyn FnMut() -> bool) -> Result<Option<Arrived>> {
        self.carrier.pull(limits, &mut || self.is_stopped() || is_given_up())
    }

    /// The record with which to give this task back if its process ends.
    pub(crate) fn leftover(&self) -> Leftover {
        let token = self.carrier.connection.token.clone().unwrap_or_default();
        Leftover { token, task_id: self.task_id, run_id: self.run_id }
    }

    /// The task of a process that ended, which is not kept alive.
    pub(crate) fn of_leftover(leftover: Leftover, connection: &Connection) -> Self {
        let Leftover { token, task_id, run_id } = leftover;
        let connection = connection.with_token(token).with_patience(Duration::from_secs(5));
        Self { carrier: Carrier { connection, node: 0, api: Api::Runtime }, task_id, run_id, heart: None }
    }

    /// Writes a line into the engine's log of the run.
    pub(crate) fn log(&self, line: &str) -> Result<()> {
        let request = PushLogsRequest {
            node: Some(Node { node_id: self.carrier.node }),
            run_id: self.run_id,
            logs: vec![format!("{line}\n")],
        };
        let _: Empty = self.carrier.connection.call("writing a log", "runtime/push-logs", &request)?;
        Ok(())
    }

    /// Ends the task; `problem` is the reason of a failure.
    pub(crate) fn end(mut self, problem: Option<&str>) -> Result<()> {
        self.heart = None;
        let sub_status = if problem.is_some() { "failed" } else { "completed" };
        let details = problem.unwrap_or_default().to_owned();
        let request = PushTaskOutputRequest { sub_status: sub_status.into(), details };
        // Ending a task does not wait long for an engine that is unreachable.
        let connection = self.carrier.connection.with_patience(Duration::from_secs(5));
        let _: Empty = connection.call("ending a task", "runtime/push-task-output", &request)?;
        Ok(())
    }
}

/// Seconds since 1970, the engine's clock.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn the_token_of_a_task_is_in_no_text_for_people() {
        let connection = Connection::new(&Engine::insecure("127.0.0.1:1")).unwrap().with_token("t0k3n".into());
        let carrier = Carrier { connection, node: 3, api: Api::Runtime };
        let task = Task { carrier, task_id: 1, run_id: 2, heart: None };
        for text in [format!("{task:?}"), format!("{:?}", task.leftover()), format!("{:?}", task.carrier)] {
            assert!(text.len() > 20 && !text.contains("t0k3n"), "{text}");
        }
    }
}
