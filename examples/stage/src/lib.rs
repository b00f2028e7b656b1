//! What the demos of the examples share: workers as processes of their own, and the story that is told of them.
//!
//! Nothing of it is needed to use Holdfast. A demo opens a [`Stage`], starts [`Actor`]s on it, waits for what they
//! say, checks what must be true of it, and ends with a verdict.

mod actor;
mod cluster;
mod pause;
mod performance;
mod signals;
mod stage;
mod story;
mod trouble;

pub use actor::Actor;
pub use cluster::{Cluster, ClusterArgs};
pub use pause::stop_here;
pub use performance::perform;
pub use signals::asked_to_stop;
pub use stage::{PATIENCE, Said, Stage};
pub use story::Story;
pub use trouble::Trouble;
