//! Clients that campaign for a lead: what they do once they have it.

use holdfast_core::Owner;

use super::singly::pause_while_holding;
use super::{CALL_PATIENCE, Client, Wish, came_of, pause_ms, value};
use crate::sim::cluster::FIRST_CLIENT;
use crate::sim::executor::{Nanos, below, now, one_in};
use crate::sim::lines::{Came, Deed, client_label};

impl Client {
    /// What a leader does until it resigns, hands over or vanishes.
    pub(super) async fn lead(&self, wish: Wish, until: Nanos) {
        if one_in(20) && now() < until {
            return pause_ms(1_000 + below(4_000)).await; // Nobody hears of it for a while.
        }
        let mut leads = true;
        for number in 0..below(4) {
            if now() >= until || !leads {
                break;
            }
            pause_while_holding(wish.ttl_ms).await;
            leads = match below(3) {
                0 => self.renew(wish).await,
                1 => self.proclaim(wish, u16::try_from(100 + number).expect("few")).await,
                _ => leads,
            };
        }
        if one_in(2) && now() < until {
            self.hand_over_to_somebody(wish).await;
        }
        if now() >= until || !one_in(4) {
            self.release(wish).await;
        }
    }

    pub(super) async fn proclaim(&self, wish: Wish, said: u16) -> bool {
        let call = self.begin(wish, Deed::Proclaim);
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| async move {
                replica.proclaim(wish.name(), wish.attempt, value(Some(said))).await
            })
            .await;
        let came = came_of(answer, |grant| Came::Granted(grant.fence.0, grant.expires_in_ms));
        self.complete(&call, &came);
        matches!(came, Came::Granted(..))
    }

    /// Looks who waits, and chooses one of them; or one that may be there by chance.
    pub(super) async fn hand_over_to_somebody(&self, wish: Wish) {
        let mut candidates = match self.read(wish.lock).await {
            Came::Seen(_, queue) => queue,
            _ => Vec::new(),
        };
        candidates.push(client_label(FIRST_CLIENT + below(4)));
        let at = if one_in(2) { 0 } else { below(candidates.len() as u64) };
        let successor = candidates.swap_remove(usize::try_from(at).expect("few"));
        for _ in 0..2 {
            let came = self.hand_over_once(wish, successor.clone()).await;
            if !matches!(came, Came::Unknown | Came::NotDone) && !one_in(6) {
                return; // One in six says it again.
            }
            pause_ms(below(200)).await;
        }
    }

    async fn hand_over_once(&self, wish: Wish, successor: Owner) -> Came {
        let call = self.begin(wish, Deed::HandOver);
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| {
                let successor = successor.clone();
                async move { replica.hand_over(wish.name(), wish.attempt, successor).await }
            })
            .await;
        let came = came_of(answer, |fence| Came::Released(Some(fence.0)));
        self.complete(&call, &came);
        came
    }
}
