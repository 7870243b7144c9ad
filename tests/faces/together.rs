//! The command that acknowledges together with messages.

use pinnace::delivery::{NewMessage, NotAcked, Options};

use super::{Answer, Driver, EFAULT, Refused, body, deadline, number, ok};

impl Driver {
    pub(super) fn together(&mut self, client: &str, at: &str, timeout: &str, words: &[&str]) -> Answer {
        let (client, place) = (self.client(client), number(at) as usize);
        let delivery = self.deliveries[place].take();
        let delivery = delivery.ok_or_else(|| Refused(EFAULT, "settled already".to_owned()))?;
        let (all, _) = words.as_chunks::<4>();
        let bodies: Vec<Vec<u8>> = all.iter().map(|words| body(words[1])).collect();
        let messages: Vec<NewMessage<'_>> = all
            .iter()
            .zip(&bodies)
            .map(|([topic, _, all, id], body)| {
                let id = Some(*id).filter(|id| *id != "-");
                let (all, deadline) = (*all == "1", deadline(timeout));
                NewMessage { topic, body, options: Options { all, id, deadline, ..Options::default() } }
            })
            .collect();
        let sent = client.ack_and_send(delivery, &messages);
        ok(sent.map_err(|NotAcked { delivery, error }| {
            self.deliveries[place] = delivery.map(|delivery| *delivery);
            error
        }))
    }
}
