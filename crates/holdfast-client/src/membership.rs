//! Changes of the members and of the leader: one method for each call of the API. For operators.

use holdfast_api::{JoinRequest, Joined, MemberRemoved, RemoveMemberRequest, TransferRequest, Transferred};

use crate::call::Answer;
use crate::client::Client;
use crate::error::CallError;
use crate::transport::Outgoing;

impl Client {
    /// Asks for a node to be let in as a learner. `holdfast serve --join` does so for itself.
    ///
    /// # Errors
    /// `unsafe` means that the node cannot be let in, `change_in_progress` that it may be a little later.
    pub async fn join_cluster(&self, request: &JoinRequest) -> Result<Answer<Joined>, CallError> {
        self.call(&Outgoing::post("/v1/cluster/members".into(), request), self.usual_pace()).await
    }

    /// Removes a member, dead or alive. Safe to repeat.
    ///
    /// # Errors
    /// `unsafe` means that the cluster would have no majority of nodes that answer; [`Client::force_remove_member`] does it
    /// all the same.
    pub async fn remove_member(&self, id: u64) -> Result<Answer<MemberRemoved>, CallError> {
        self.remove(id, RemoveMemberRequest { force: false }).await
    }

    /// Removes a member although the cluster may stop until other members come back.
    ///
    /// # Errors
    /// As every call; the last voter is never removed.
    pub async fn force_remove_member(&self, id: u64) -> Result<Answer<MemberRemoved>, CallError> {
        self.remove(id, RemoveMemberRequest { force: true }).await
    }

    async fn remove(
        &self,
        id: u64,
        request: RemoveMemberRequest,
    ) -> Result<Answer<MemberRemoved>, CallError> {
        let path = format!("/v1/cluster/members/{id}");
        self.call(&Outgoing::delete(path, &request), self.usual_pace()).await
    }

    /// Lets another node lead, this one or whichever is best, and returns once it serves. Safe to repeat: a node that leads
    /// already goes on leading.
    ///
    /// # Errors
    /// `unsafe` means that the node does not answer or does not take over.
    pub async fn transfer(&self, to: Option<u64>) -> Result<Answer<Transferred>, CallError> {
        let request = TransferRequest { to };
        self.call(&Outgoing::post("/v1/cluster/transfer".into(), &request), self.usual_pace()).await
    }
}
