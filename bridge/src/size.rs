//! How large an answer may be.
//!
//! A page ends where the items reach its budget; the cursor of the next page is the daemon's, so a page that came
//! too long is asked for again, shorter. Whatever is still too large is a failure with its own class.

use portreeve_registry::{Answer, Failure, FailureClass, Outcome};
/// The bytes of items in a page when the caller asked for no limit.
pub(crate) const DEFAULT_PAGE: usize = 8 * 1024;
/// The bytes of items in a page, whatever limit the caller asked for.
pub(crate) const LARGEST_PAGE: usize = 48 * 1024;
/// The bytes of a whole answer's structured content.
const LARGEST_ANSWER: usize = 64 * 1024;

/// How many of the items fit, at least one; `None` when all do.
pub(crate) fn rows_that_fit(sizes: &[usize], budget: usize) -> Option<usize> {
    let mut total = 0;
    let fitting = sizes
        .iter()
        .take_while(|size| {
            // Each item but the first has a comma before it.
            total += *size + 1;
            total <= budget
        })
        .count();
    (fitting < sizes.len()).then_some(fitting.max(1)).filter(|rows| *rows < sizes.len())
}

/// The answer, unless it is too large.
///
/// # Errors
/// `serialize.result_too_large`; the effect stands unless the tool has none.
pub(crate) fn bounded(answer: Answer, read_only: bool) -> Result<Answer, Failure> {
    let bytes = serde_json::to_vec(&answer.content).map_or(0, |json| json.len());
    if bytes <= LARGEST_ANSWER {
        return Ok(answer);
    }
    let text =
        format!("the answer has {bytes} bytes, more than the {LARGEST_ANSWER} that an answer may have");
    let failure = Failure::new(FailureClass::ResultTooLarge, text).detail("bytes", bytes);
    Err(if read_only { failure.outcome(Outcome::NotApplied) } else { failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_its_budget_does() {
        assert_eq!(rows_that_fit(&[], 100), None);
        assert_eq!(rows_that_fit(&[49, 49], 100), None);
        assert_eq!(rows_that_fit(&[49, 50], 100), Some(1));
        assert_eq!(rows_that_fit(&[10, 10, 10, 10], 33), Some(3));
        assert_eq!(rows_that_fit(&[500, 10], 100), Some(1), "one item at least");
        assert_eq!(rows_that_fit(&[500], 100), None, "and one item can't be cut");
    }

    #[test]
    fn an_answer_over_the_limit_is_a_failure_that_says_what_became_of_it() {
        let content = serde_json::json!({"summary": "s", "text": "x".repeat(LARGEST_ANSWER)});
        let serde_json::Value::Object(content) = content else { unreachable!("made above") };
        let answer = Answer { summary: "s".into(), content };
        assert_eq!(bounded(answer.clone(), true).unwrap_err().outcome, Outcome::NotApplied);
        assert_eq!(bounded(answer, false).unwrap_err().outcome, Outcome::Applied);
    }
}
