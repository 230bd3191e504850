//! Sends one offer to many sessions: as a broadcast to those that hear it, otherwise into the outbox of each (N2).

use grid_fabric::{Broadcaster, OfferMany, Peer, Recipient};
use grid_types::SessionId;

use super::leading::Inner;

impl Inner {
    /// Where there is no broadcaster, or it refuses, every session gets the offer by itself.
    pub fn offer_many(&mut self, broadcaster: Option<&dyn Broadcaster>, many: &OfferMany) {
        let Some(broadcaster) = broadcaster else { return self.offer_each(many, &many.recipients) };
        let hears = |recipient: &Recipient| {
            let stream = self.streams.get(&recipient.session).filter(|stream| !stream.outbox.is_closed());
            stream.is_some_and(|stream| matches!(stream.peer, Peer::Subject(_)))
        };
        let (hearing, others): (Vec<_>, Vec<_>) = many.recipients.iter().copied().partition(hears);
        self.offer_each(many, &others);
        if hearing.len() < 2 {
            return self.offer_each(many, &hearing);
        }
        let broadcast =
            OfferMany { recipients: hearing, offer: many.offer.clone(), audience: many.audience.clone(), ..*many };
        if let Err(why) = broadcaster.publish(&broadcast) {
            tracing::warn!(nodes = broadcast.recipients.len(), "an offer is sent to each session instead: {why}");
            self.offer_each(many, &broadcast.recipients);
        }
    }

    fn offer_each(&mut self, many: &OfferMany, recipients: &[Recipient]) {
        let mut overflowed: Vec<SessionId> = Vec::new();
        for Recipient { session, .. } in recipients {
            let Some(stream) = self.streams.get(session) else { continue };
            if stream.outbox.send(many.message_for(*session)).is_err() {
                overflowed.push(*session);
            }
        }
        overflowed.into_iter().for_each(|session| self.overflowed(session));
    }
}
