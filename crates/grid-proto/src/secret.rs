//! Keeps a session's secret out of log lines, whichever message is printed.

use std::fmt;

use crate::v1::Secret;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use crate::v1;

    #[test]
    fn issue14_2_no_message_prints_the_secret_that_it_carries() {
        let secret = Some(v1::Secret { value: vec![0xab; 16] });
        let reply = v1::RegisterNodeReply { secret: secret.clone(), ..Default::default() };
        let first = v1::FromWorker { secret: secret.clone(), ..Default::default() };
        let leave = v1::NodeSession { secret: secret.clone(), ..Default::default() };
        let chunk = v1::LogChunk { secret, ..Default::default() };
        for shown in [format!("{reply:?}"), format!("{first:?}"), format!("{leave:?}"), format!("{chunk:?}")] {
            assert!(shown.contains("Secret(..)") && !shown.contains("171"), "{shown}");
        }
    }
}
