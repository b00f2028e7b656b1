//! `holdfast cluster …`: looking at the cluster, and changing it.

use std::time::Duration;

use crate::args::{ClusterCommand, RemoveMemberArgs, StatusArgs, TransferArgs};
use crate::exit::{Failure, note};
use crate::{api, print};

/// Whoever waits longer is told what for.
const TELL_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn run(command: ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status(args) => status(args),
        ClusterCommand::Remove(args) => remove(args),
        ClusterCommand::Transfer(args) => transfer(args),
    }
}

fn status(args: StatusArgs) -> Result<(), Failure> {
    let client = api::client(&args.client)?;
    api::answer(client.cluster(), &args.output, print::cluster)
}

fn remove(args: RemoveMemberArgs) -> Result<(), Failure> {
    let (client, id) = (api::client(&args.client)?, args.id);
    let call = async {
        match args.force {
            true => client.force_remove_member(id).await,
            false => client.remove_member(id).await,
        }
    };
    let call = telling(call, format!("node {id} is being removed; waiting until that is done"));
    api::answer(call, &args.output, print::member_removed)
}

fn transfer(args: TransferArgs) -> Result<(), Failure> {
    let client = api::client(&args.client)?;
    let call = telling(client.transfer(args.to), "waiting until another node leads".into());
    api::answer(call, &args.output, print::transferred)
}

/// Says on stderr what is waited for, while it takes long.
async fn telling<T>(work: impl Future<Output = T>, what: String) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(TELL_EVERY, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => note(&what),
        }
    }
}
