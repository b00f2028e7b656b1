//! What the cluster knows of itself and of its nodes' folders.

use holdfast_core::{Answer, ClusterId, NodeId, Op, Rejection, StorageId};

use crate::deed::{ALICE, BOB, acquire, release};
use crate::story::Story;

fn register(node: u64, storage: u128) -> Op {
    Op::Register { node: NodeId(node), storage: StorageId(storage) }
}

#[test]
fn a_cluster_keeps_the_identity_that_it_was_given_first() {
    let mut story = Story::default();
    assert_eq!(story.table.cluster(), None);
    for id in [7, 8, 7] {
        assert_eq!(story.leader_does(0, Op::Found { cluster: ClusterId(id) }), Ok(Answer::Done));
        assert_eq!(story.table.cluster(), Some(ClusterId(7)));
    }
}

#[test]
fn a_nodes_number_belongs_to_the_folder_that_registered_it_first() {
    let mut story = Story::default();
    assert_eq!(story.leader_does(0, register(4, 11)), Ok(Answer::Done));
    assert_eq!(story.leader_does(0, register(4, 11)), Ok(Answer::Done));
    assert_eq!(story.leader_does(0, register(4, 12)), Err(Rejection::ForeignStorage));
    assert_eq!(story.leader_does(0, register(5, 12)), Ok(Answer::Done));
    assert_eq!(story.table.storage_of(NodeId(4)), Some(StorageId(11)));
    assert_eq!(story.table.storage_of(NodeId(6)), None);
}

/// A folder is registered at a node's first start; its waiters come and go as those of any other node.
#[test]
fn registering_a_folder_says_nothing_about_who_is_present() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.kill(2);
    story.tick(3_000);
    story.leader_does(3_000, register(2, 11)).unwrap();
    story.releases(3_000, release(ALICE, "db"));
    assert_eq!(story.holder("db"), None);
}
