//! How a node that is to join a cluster gets in.

use std::time::Duration;

use holdfast_client::api::ErrorCode;
use holdfast_client::{CallError, Client};
use holdfast_server::Candidate;

/// How long one round of asking all members may take.
const ROUND: Duration = Duration::from_secs(10);
/// How long to look whether a folder with data belongs to the cluster at all.
const LOOK: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(300);

/// Asks the members until one of them has let the node in. A node with data is a member already, and only makes sure that
/// it is of this cluster.
pub(crate) async fn join(candidate: Candidate) -> Result<(), String> {
    let client = client(&candidate, if candidate.cluster.is_some() { LOOK } else { ROUND })?;
    if let Some(own) = &candidate.cluster {
        return check_cluster(&client, own).await;
    }
    loop {
        let error = match client.join_cluster(&candidate.request).await {
            Ok(_) => {
                tracing::info!(
                    node_id = candidate.request.id,
                    "joined the cluster as a learner; catching up"
                );
                return Ok(());
            }
            Err(error) => error,
        };
        match error {
            CallError::Refused(refusal) if refusal.code != Some(ErrorCode::ChangeInProgress) => {
                return Err(format!("the cluster does not let this node in: {}", refusal.detail));
            }
            error => tracing::warn!(%error, urls = ?candidate.urls, "not let in yet; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn client(candidate: &Candidate, timeout: Duration) -> Result<Client, String> {
    let built = Client::builder().endpoints(candidate.urls.clone()).timeout(timeout).build();
    built.map_err(|error| format!("--join: {error}"))
}

async fn check_cluster(client: &Client, own: &str) -> Result<(), String> {
    let Ok(answer) = client.cluster().await else { return Ok(()) }; // It will see by itself.
    match answer.value.cluster_id {
        Some(theirs) if !own.is_empty() && theirs != own => Err(format!(
            "the data folder belongs to cluster {own}, but --join names cluster {theirs}. To let the node in there, give it \
             an empty folder; to start it where it belongs, leave --join out"
        )),
        _ => {
            tracing::info!("--join is ignored: the folder belongs to a cluster already");
            Ok(())
        }
    }
}
