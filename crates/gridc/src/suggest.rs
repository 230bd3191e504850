//! Finds the nearest of the words that would have been right ("did you mean").

/// As near as clap demands for its own suggestions.
const NEAR: f64 = 0.7;

pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Jaro misses two letters that changed places in a short word: one step away is nearer than anything that it finds.
    let score = |candidate: &str| {
        let one_step = strsim::osa_distance(word, candidate) == 1;
        strsim::jaro(word, candidate) + if one_step { 1.0 } else { 0.0 }
    };
    let scored = candidates.into_iter().map(|candidate| (score(candidate), candidate));
    scored.filter(|(score, _)| *score > NEAR).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("mesage", ["message", "delay"]), Some("message"));
        assert_eq!(nearest("tagret", ["timeout", "target"]), Some("target"));
        assert_eq!(nearest("atp", ["ping", "apt"]), Some("apt"));
        assert_eq!(nearest("atp", ["apt", "http"]), Some("apt"));
        assert_eq!(nearest("wbe", ["db", "web", "prod"]), Some("web"));
        assert_eq!(nearest("package", ["message", "delay"]), None);
    }
}
