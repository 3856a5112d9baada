//! Plays an engine to a silo at its start, and keeps what a silo that is killed at each call would leave.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use prost::Message as _;

use crate::wire::{
    PullObjectRequest, PullObjectResponse, PushAppMessagesRequest, PushAppMessagesResponse, PushObjectResponse,
};

/// An engine, and what it has of an answer whose head it took.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Has {
    /// Neither head nor objects: it sent them on, or never had them.
    Nothing,
    /// The head, and no object.
    Head,
    /// It has ended the task.
    AnEndedTask,
}

/// Starts an engine; the calls to it. At each call it copies `folder`, as a process that is killed then leaves it, into a
/// folder of the call's name beside it.
pub(super) fn engine(has: Has, folder: PathBuf) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, calls) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
    let own = Arc::clone(&calls);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut bytes, mut part) = (Vec::new(), [0; 65_536]);
            let (path, body) = loop {
                let count = stream.read(&mut part).unwrap_or(0);
                bytes.extend_from_slice(&part[..count]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if bytes.len() >= end + 4 + length.unwrap_or(0) {
                    let path = text.split(' ').nth(1).unwrap_or_default().rsplit('/').next().unwrap_or_default();
                    break (path.to_owned(), bytes[end + 4..].to_vec());
                }
            };
            let (said, answer) = match path.as_str() {
                "push-messages" => {
                    let asked = PushAppMessagesRequest::decode(body.as_slice()).unwrap();
                    let head = &asked.messages_list[0];
                    let answer = PushAppMessagesResponse {
                        message_ids: vec![head.metadata.clone().unwrap().message_id],
                        objects_to_push: vec![asked.message_object_trees[0].object_id.clone()],
                        session_id: "new".into(),
                    };
                    (if head.error.is_some() { "error" } else { "head" }, answer.encode_to_vec())
                }
                "push-object" => ("object", PushObjectResponse { stored: true }.encode_to_vec()),
                "pull-object" => {
                    PullObjectRequest::decode(body.as_slice()).unwrap();
                    let found = PullObjectResponse { object_found: has == Has::Head, ..Default::default() };
                    ("look", found.encode_to_vec())
                }
                "push-task-output" => ("end", Vec::new()),
                other => panic!("{other}"),
            };
            let copy = folder.with_file_name(said);
            std::fs::create_dir_all(&copy).unwrap();
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
            own.lock().unwrap().push(said.to_owned());
            let status = if has == Has::AnEndedTask { "401 Unauthorized" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
            stream.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
        }
    });
    (address, calls)
}
