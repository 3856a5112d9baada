//! Declares the protobuf messages of flwr 1.41 that Partita sends and reads.
//!
//! A test compares every field with the descriptors of the installed engine.

use prost::Message;

/// The sender and the receiver of a message, and its lifetime.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(uint64, tag = "1")]
    pub(crate) run_id: u64,
    #[prost(string, tag = "2")]
    pub(crate) message_id: String,
    #[prost(uint64, tag = "3")]
    pub(crate) src_node_id: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) dst_node_id: u64,
    #[prost(string, tag = "5")]
    pub(crate) reply_to_message_id: String,
    #[prost(string, tag = "6")]
    pub(crate) group_id: String,
    #[prost(double, tag = "7")]
    pub(crate) ttl: f64,
    #[prost(string, tag = "8")]
    pub(crate) message_type: String,
    #[prost(double, tag = "9")]
    pub(crate) created_at: f64,
    #[prost(uint64, optional, tag = "10")]
    pub(crate) src_task_id: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) dst_task_id: Option<u64>,
}

/// The reason for the absence of content.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EngineError {
    #[prost(sint64, tag = "1")]
    pub(crate) code: i64,
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
}

/// A message: its content travels as objects, and is empty here if there is any.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Head {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    pub(crate) content: Option<Empty>,
    #[prost(message, optional, tag = "3")]
    pub(crate) error: Option<EngineError>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectTree {
    #[prost(string, tag = "1")]
    pub(crate) object_id: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) children: Vec<ObjectTree>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeInfo {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
    #[prost(bytes = "vec", tag = "11")]
    pub(crate) public_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Fab {
    #[prost(string, tag = "1")]
    pub(crate) hash_str: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(uint64, tag = "1")]
    pub(crate) task_id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) run_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Run {
    #[prost(uint64, tag = "1")]
    pub(crate) run_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AcquireTaskRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) supported_task_types: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AcquireTaskResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) task: Option<Task>,
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// A request or a reply without fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SendTaskHeartbeatResponse {
    #[prost(bool, tag = "1")]
    pub(crate) success: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullTaskInputResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) run: Option<Run>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushTaskOutputRequest {
    #[prost(string, tag = "2")]
    pub(crate) sub_status: String,
    #[prost(string, tag = "3")]
    pub(crate) details: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushAppMessagesRequest {
    #[prost(message, repeated, tag = "2")]
    pub(crate) messages_list: Vec<Head>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) message_object_trees: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushAppMessagesResponse {
    #[prost(string, repeated, tag = "1")]
    pub(crate) message_ids: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) objects_to_push: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) session_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullAppMessagesRequest {
    #[prost(string, repeated, tag = "2")]
    pub(crate) message_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullAppMessagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) messages_list: Vec<Head>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) message_object_trees: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushObjectRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(uint64, tag = "2")]
    pub(crate) run_id: u64,
    #[prost(string, tag = "3")]
    pub(crate) object_id: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) object_content: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) session_id: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PushObjectResponse {
    #[prost(bool, tag = "1")]
    pub(crate) stored: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullObjectRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(uint64, tag = "2")]
    pub(crate) run_id: u64,
    #[prost(string, tag = "3")]
    pub(crate) object_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullObjectResponse {
    #[prost(bool, tag = "1")]
    pub(crate) object_found: bool,
    #[prost(bool, tag = "2")]
    pub(crate) object_available: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) object_content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfirmMessageReceivedRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(uint64, tag = "2")]
    pub(crate) run_id: u64,
    #[prost(string, tag = "3")]
    pub(crate) message_object_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetNodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<NodeInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushLogsRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(uint64, tag = "2")]
    pub(crate) run_id: u64,
    #[prost(string, repeated, tag = "3")]
    pub(crate) logs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartRunRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) fab: Option<Fab>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartRunResponse {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) run_id: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) note: Option<String>,
}

// For nodes.

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RegisterNodeFleetRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) public_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ActivateNodeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) public_key: Vec<u8>,
    #[prost(double, tag = "2")]
    pub(crate) heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ActivateNodeResponse {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeactivateNodeRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SendNodeHeartbeatRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(double, tag = "2")]
    pub(crate) heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SendNodeHeartbeatResponse {
    #[prost(bool, tag = "1")]
    pub(crate) success: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullMessagesRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) message_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullMessagesResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) messages_list: Vec<Head>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) message_object_trees: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushMessagesRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) messages_list: Vec<Head>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) message_object_trees: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushMessagesResponse {
    #[prost(string, repeated, tag = "3")]
    pub(crate) objects_to_push: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) session_id: String,
}
