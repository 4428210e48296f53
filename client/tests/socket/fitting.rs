//! Daemons of other versions.

use crate::support::{CAPABILITIES, Server, health};
use portreeve_client::Ask;
use portreeve_registry::{Call, Failure, FailureClass, Method, Outcome};
use serde_json::{Value, json};

fn daemon(health: Value) -> Server {
    Server::start(move |_, peer| {
        while let Some(asked) = peer.next() {
            assert!(asked.is_for("/v1/health"), "nothing else may be asked: {}", asked.line);
            peer.answer(&asked, health.clone());
        }
    })
}

async fn refused(server: &Server, capability: &'static str) -> Failure {
    let call = Call { method: Method::Get, target: "/v1/x".into(), body: None, capability };
    let failure = server.client().ask(&call, Ask::fresh()).await.unwrap_err();
    assert_eq!(failure.outcome, Outcome::NotStarted);
    failure
}

#[tokio::test]
async fn another_protocol_names_both_sides_and_the_older_one() {
    let older = daemon(health(0, 0, &[]));
    let failure = refused(&older, "").await;
    assert_eq!(failure.class, FailureClass::ProtocolIncompatible);
    assert!(failure.message.contains("9.9.9") && failure.message.contains("1.2.3"), "{failure}");
    assert!(failure.next.text.contains("the daemon is the older side"), "{:?}", failure.next);
    assert_eq!(failure.details["daemonProtocol"], json!({"minimum": 0, "maximum": 0}));

    let newer = daemon(health(2, 3, &CAPABILITIES));
    let failure = refused(&newer, "").await;
    assert_eq!(failure.class, FailureClass::ProtocolIncompatible);
    assert!(failure.message.contains("protocol 2 to 3"), "{failure}");
    assert!(failure.next.text.contains("this program is the older side"), "{:?}", failure.next);

    let shown = newer.client().compatibility().await.unwrap();
    assert!(!shown.speaks());
    assert_eq!((shown.client_version.as_str(), shown.health.software_version.as_str()), ("9.9.9", "1.2.3"));
}

#[tokio::test]
async fn a_protocol_of_another_shape_is_still_told_apart() {
    let strange = daemon(json!({"softwareVersion": "7", "protocol": {"minimum": 4, "maximum": 5}}));
    let failure = refused(&strange, "").await;
    assert_eq!(failure.class, FailureClass::ProtocolIncompatible);
    assert!(failure.message.contains("version 7"), "{failure}");

    let stranger = daemon(json!({"hello": "world"}));
    assert_eq!(refused(&stranger, "").await.class, FailureClass::SocketReplyMalformed);
}

#[tokio::test]
async fn a_missing_capability_is_named() {
    let server = daemon(health(1, 1, &["claims-v1"]));
    let failure = refused(&server, "two-phase-allocation-v1").await;
    assert_eq!(failure.class, FailureClass::ProtocolIncompatible);
    assert_eq!(failure.details["missingCapabilities"], json!(["two-phase-allocation-v1"]));
    let shown = server.client().compatibility().await.unwrap();
    assert!(shown.speaks());
    assert!(shown.missing.contains(&"two-phase-allocation-v1".to_owned()));
    assert!(!shown.missing.contains(&"claims-v1".to_owned()));
}

#[tokio::test]
async fn a_daemon_without_its_store_is_not_called_old() {
    let mut damaged = health(1, 1, &[]);
    damaged["store"] = json!("the database is damaged");
    let failure = refused(&daemon(damaged), "claims-v1").await;
    assert_eq!(failure.class, FailureClass::StoreCorrupt);
    assert!(failure.message.contains("the database is damaged"));
}
