//! Pages: the only form in which a list leaves the daemon or reaches an agent.
//!
//! Pages are cut by key, never by offset, so a row that is there throughout a walk appears exactly once.
//! [`PageOf`] has no public constructor but [`Cut::page`], which bounds it.

use crate::decode::{Args, Issue, Wire, to_object};
use crate::{Failure, FailureClass, Listing, cursor_for, key_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Rows of a page when no limit was asked for.
pub const DEFAULT_LIMIT: usize = 50;
/// Rows of a page at most.
pub const MAXIMUM_LIMIT: usize = 200;

/// Where a page starts and how long it may be.
#[derive(Clone, Debug)]
pub struct Cut<K> {
    after: Option<K>,
    limit: Option<usize>,
    binding: String,
    paged: bool,
}

impl<K: Serialize> Cut<K> {
    /// The key after which the page starts; the first page has none.
    pub fn after(&self) -> Option<&K> {
        self.after.as_ref()
    }

    /// How many rows to fetch: one more than the page holds, so that it is known whether more follow.
    ///
    /// A list in protocol 1's plain form has no limit.
    pub fn fetch(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit + 1)
    }

    /// Whether a page was asked for; otherwise it is protocol 1's plain list.
    pub fn paged(&self) -> bool {
        self.paged
    }

    /// How many rows at most were asked for.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Makes the page of rows in key order that start after [`Cut::after`].
    ///
    /// # Errors
    /// Those of `rows`.
    pub fn page<R, E>(&self, rows: impl IntoIterator<Item = Result<(K, R), E>>) -> Result<PageOf<R>, E> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut items = Vec::new();
        let mut last = None;
        let mut more = false;
        for row in rows {
            let (key, row) = row?;
            if items.len() == limit {
                more = true;
                break;
            }
            items.push(row);
            last = Some(key);
        }
        let next = if more { last.map(|key| cursor_for(&self.binding, &key)) } else { None };
        Ok(PageOf { items, page: PageInfo { next_cursor: next, poll_cursor: None, gap: None } })
    }

    /// A cursor of this list that continues after `key`, for polling.
    pub fn cursor(&self, key: &K) -> String {
        cursor_for(&self.binding, key)
    }
}

/// One page on the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageOf<R> {
    /// The rows, in the list's order.
    pub(crate) items: Vec<R>,
    /// What follows.
    pub page: PageInfo,
}

impl<R> PageOf<R> {
    /// The rows.
    pub fn items(&self) -> &[R] {
        &self.items
    }
    /// The rows, taken.
    pub fn into_items(self) -> Vec<R> {
        self.items
    }
}

/// What follows a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageInfo {
    /// The cursor of the next page; null after the last one.
    pub next_cursor: Option<String>,
    /// Where a later poll continues; only lists that can be polled have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_cursor: Option<String>,
    /// Whether rows after the cursor were pruned before they could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<bool>,
}

/// A page as an agent sees it; the registry wraps its fields in the answer.
#[derive(Debug)]
pub struct Page<I> {
    pub(crate) items: Vec<I>,
    pub(crate) info: PageInfo,
}

impl<I> Page<I> {
    pub(crate) fn map<R>(page: PageOf<R>, item: impl FnMut(R) -> I) -> Page<I> {
        Page { items: page.items.into_iter().map(item).collect(), info: page.page }
    }

    /// The rows, for the tool's summary.
    pub fn items(&self) -> &[I] {
        &self.items
    }

    /// Whether another page follows.
    pub fn has_more(&self) -> bool {
        self.info.next_cursor.is_some()
    }
}

/// A list's request: its filter, and which page.
///
/// Without `after_cursor` it is protocol 1's plain list.
#[derive(Debug)]
pub struct ListRequest<L: Listing> {
    /// Which rows.
    pub filter: L::Filter,
    /// How many at most, 1 to [`MAXIMUM_LIMIT`].
    pub limit: Option<usize>,
    /// Where the page starts: empty for the first page.
    pub after_cursor: Option<String>,
}

impl<L: Listing> ListRequest<L> {
    /// The first page of `filter`.
    pub fn first(filter: L::Filter) -> Self {
        ListRequest { filter, limit: None, after_cursor: Some(String::new()) }
    }

    /// What to cut, after checking the cursor against this filter.
    ///
    /// # Errors
    /// `invalid_input` naming `afterCursor` or `limit`.
    pub fn cut(&self) -> Result<Cut<L::Key>, Failure> {
        let binding = self.binding()?;
        let paged = L::ALWAYS_PAGED || self.after_cursor.is_some();
        let after = match self.after_cursor.as_deref() {
            None | Some("") => None,
            Some(cursor) => Some(key_of(&binding, cursor).map_err(|e| {
                Failure::new(FailureClass::DaemonInvalidInput, e.to_string())
                    .detail("field", json!("afterCursor"))
                    .next("start again from the first page, without afterCursor")
            })?),
        };
        let limit = if paged { Some(self.limit.unwrap_or(DEFAULT_LIMIT)) } else { None };
        let limit = limit.or(if L::PLAIN_LIMIT { self.limit } else { None });
        Ok(Cut { after, limit, binding, paged })
    }

    /// Whether the reply has page form.
    pub fn paged(&self) -> bool {
        L::ALWAYS_PAGED || self.after_cursor.is_some()
    }

    fn binding(&self) -> Result<String, Failure> {
        let filter = L::bound_filter(&self.filter);
        let filter = serde_json::to_string(&filter).map_err(|e| {
            Failure::new(FailureClass::DaemonInternal, format!("filter can't be written: {e}"))
        })?;
        Ok(format!("{} {filter}", L::PATH))
    }
}

impl<L: Listing> Wire for ListRequest<L> {
    fn encode(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut fields = to_object(&self.filter)?;
        if let Some(limit) = self.limit {
            fields.insert("limit".into(), limit.into());
        }
        if let Some(cursor) = &self.after_cursor {
            fields.insert("afterCursor".into(), cursor.as_str().into());
        }
        Ok(fields)
    }

    fn decode(mut args: Args) -> Result<Self, Issue> {
        let (limit, after_cursor) = page_of::<L>(&mut args)?;
        Ok(ListRequest { filter: Wire::decode(args)?, limit, after_cursor })
    }
}

/// Takes `limit` and `afterCursor` off a list's arguments.
pub(crate) fn page_of<L: Listing>(args: &mut Args) -> Result<(Option<usize>, Option<String>), Issue> {
    let after_cursor: Option<String> = args.take("afterCursor")?;
    let limit: Option<u64> = args.take("limit")?;
    let most = if after_cursor.is_none() { L::PLAIN_MAXIMUM } else { MAXIMUM_LIMIT };
    if let Some(limit) = limit
        && !(1..=most as u64).contains(&limit)
    {
        let code = if limit < 1 { "too_small" } else { "too_big" };
        let message = format!("expected an integer from 1 to {most}");
        return Err(Issue { code, message, path: vec!["limit".into()] });
    }
    Ok((limit.map(|l| l as usize), after_cursor))
}
