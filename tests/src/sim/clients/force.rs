//! Operators, as clients are now and then: they end holds and waits of others.

use holdfast_core::{Fence, Intervention, Owner, Reason};

use super::{CALL_PATIENCE, Client, Wish, came_of, pause_ms};
use crate::sim::executor::{below, one_in};
use crate::sim::lines::{Came, Deed, client_label, name};

impl Client {
    /// One time in five somebody who was seen at the lock is in the way, at once or a while later.
    pub(super) async fn intervene(&self, lock: u64, seen: &Came) {
        let Came::Seen(holders, queue) = seen else { return };
        if !one_in(5) {
            return;
        }
        if one_in(3) {
            pause_ms(below(1_500)).await;
        }
        let any = |len: usize| usize::try_from(below(len as u64)).expect("few");
        if !holders.is_empty() {
            let (holder, _) = &holders[any(holders.len())];
            self.force_release(lock, holder.fence).await;
        } else if !queue.is_empty() {
            self.force_leave(lock, queue[any(queue.len())].clone()).await;
        }
        if one_in(3) && !queue.is_empty() {
            self.force_leave(lock, queue[any(queue.len())].clone()).await;
        }
    }

    fn intervention(&self) -> Intervention {
        Intervention {
            by: client_label(self.id),
            reason: Reason::new("it is in the way").expect("a short reason"),
        }
    }

    async fn force_release(&self, lock: u64, fence: Fence) {
        for _ in 0..3 {
            let call = self.begin(Wish::of_nobody(lock), Deed::ForceRelease(fence.0));
            let by = self.intervention();
            let answer = self
                .ask(&call, CALL_PATIENCE, move |replica| {
                    let by = by.clone();
                    async move { replica.force_release(name(lock), fence, by).await }
                })
                .await;
            let came = came_of(answer, |()| Came::Forced);
            self.complete(&call, &came);
            if !matches!(came, Came::Unknown | Came::NotDone) && !one_in(8) {
                return; // One in eight says it again.
            }
        }
    }

    async fn force_leave(&self, lock: u64, owner: Owner) {
        let call = self.begin(Wish::of_nobody(lock), Deed::ForceLeave);
        let by = self.intervention();
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| {
                let (owner, by) = (owner.clone(), by.clone());
                async move { replica.force_leave(name(lock), owner, by).await }
            })
            .await;
        let came = came_of(answer, |_| Came::Forced);
        self.complete(&call, &came);
    }
}
