//! Lists, whole: a walk over their pages that says so when it stops early.

use crate::client::typed;
use crate::{Ask, Client};
use portreeve_registry::{Call, Failure, FailureClass, List, ListRequest, Listing, MAXIMUM_LIMIT, PageOf};

/// What a daemon must be able to do for lists to be walked.
const PAGED: &str = "paged-lists-v1";

/// The rows of a list, as far as they were asked for.
#[derive(Clone, Debug)]
pub struct Rows<R> {
    /// The rows, in the list's order.
    pub rows: Vec<R>,
    /// Whether the list goes on.
    pub more: bool,
    /// Where a later poll goes on, for lists that can be polled.
    pub poll_cursor: Option<String>,
}

impl Client {
    /// The rows of list `L` that match `filter`, at most `most`.
    ///
    /// A row that is there throughout the walk appears exactly once.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn list<L: Listing>(&self, filter: L::Filter, most: usize) -> Result<Rows<L::Row>, Failure> {
        let mut request = ListRequest::<L>::first(filter);
        let mut all = Rows { rows: Vec::new(), more: true, poll_cursor: None };
        while all.more && all.rows.len() < most {
            request.limit = Some((most - all.rows.len()).min(MAXIMUM_LIMIT));
            let page = self.page(&request).await?;
            // The first page's: what is committed during the walk is left to the poll.
            all.poll_cursor = all.poll_cursor.or(page.page.poll_cursor.clone());
            request.after_cursor = page.page.next_cursor.clone();
            all.more = request.after_cursor.is_some();
            all.rows.extend(page.into_items());
        }
        Ok(all)
    }

    /// One page of list `L`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn page<L: Listing>(&self, request: &ListRequest<L>) -> Result<PageOf<L::Row>, Failure> {
        let mut call = Call::of::<List<L>>(request).map_err(unwritable)?;
        if !L::ALWAYS_PAGED {
            call.capability = PAGED;
        }
        typed(self.ask(&call, Ask::fresh()).await?)
    }

    /// The rows of list `L` in protocol 1's plain form: all of them, or the newest `limit` where it has a limit.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn plain<L: Listing>(
        &self,
        filter: L::Filter,
        limit: Option<usize>,
    ) -> Result<Vec<L::Row>, Failure> {
        let request = ListRequest::<L> { filter, limit, after_cursor: None };
        let call = Call::of::<List<L>>(&request).map_err(unwritable)?;
        typed(self.ask(&call, Ask::fresh()).await?)
    }
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(FailureClass::DaemonInvalidInput, format!("the request can't be written: {error}"))
}
