//! The job on a stage: two instances at the same moment, then one that is paused beyond its lease.

mod pair;
mod paused;
mod table;

use stage::{Stage, Trouble};

use self::pair::two_start_at_once;
use self::paused::one_is_paused_beyond_its_lease;

/// Plays the whole demo.
///
/// # Errors
/// It could not be played to its end.
pub async fn play(stage: &mut Stage, endpoints: &[String], db: Option<&str>) -> Result<(), Trouble> {
    let client = holdfast_client::Client::builder().endpoints(endpoints).build().map_err(Trouble::other)?;
    let file = stage.folder().join("invoices.db").to_string_lossy().into_owned();
    let scene = Scene { client, endpoints: endpoints.join(","), db: db.unwrap_or(&file).to_owned() };
    two_start_at_once(stage, &scene).await?;
    one_is_paused_beyond_its_lease(stage, &scene).await
}

/// What both chapters share.
struct Scene {
    client: holdfast_client::Client,
    endpoints: String,
    db: String,
}
