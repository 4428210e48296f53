//! Cuts a byte stream into lines, in flat memory.
//!
//! Pure: no I/O, no JSON. A line over the limit is discarded while it streams by and reported once, at its end.

/// One step of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its newline.
    Whole(Vec<u8>),
    /// A line that was over the limit.
    TooLong {
        /// Its length without the newline.
        bytes: u64,
    },
}

/// The part of the stream that has come and isn't a whole line yet.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that were handed out already.
    taken: usize,
    /// Bytes at the front of `buffer` that hold no newline.
    scanned: usize,
    /// How much of an over-long line has been thrown away, while it lasts.
    discarded: Option<u64>,
}

/// A buffer that grew beyond this for one long line is given back after it.
const KEPT_CAPACITY: usize = 256 * 1024;

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), taken: 0, scanned: 0, discarded: None }
    }

    /// Appends what was read. Call [`next`](Self::next) until it is empty before the next push.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.scanned -= self.taken;
        self.taken = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line that is complete.
    pub(super) fn next(&mut self) -> Option<Line> {
        let newline = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(newline) = newline.map(|offset| self.scanned + offset) else {
            self.scanned = self.buffer.len();
            self.discard_if_too_long();
            return None;
        };
        let line = &self.buffer[self.taken..newline];
        let line = match self.discarded.take() {
            Some(before) => Line::TooLong { bytes: before + line.len() as u64 },
            None if line.len() > self.limit => Line::TooLong { bytes: line.len() as u64 },
            None => Line::Whole(line.to_vec()),
        };
        self.taken = newline + 1;
        self.scanned = self.taken;
        Some(line)
    }

    /// What is left when the stream has ended: a line that lacks its newline.
    pub(super) fn rest(mut self) -> Option<Line> {
        let rest = self.buffer.split_off(self.taken);
        match self.discarded {
            Some(before) => Some(Line::TooLong { bytes: before + rest.len() as u64 }),
            None if rest.is_empty() => None,
            None => Some(Line::Whole(rest)),
        }
    }

    fn discard_if_too_long(&mut self) {
        let pending = self.buffer.len() - self.taken;
        if self.discarded.is_some() || pending > self.limit {
            *self.discarded.get_or_insert(0) += pending as u64;
            self.buffer.truncate(self.taken);
            self.scanned = self.taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    fn cut(stream: &[u8], chunk: usize, limit: usize) -> (Vec<Line>, Option<Line>) {
        let mut lines = Lines::new(limit);
        let mut seen = Vec::new();
        for part in stream.chunks(chunk) {
            lines.push(part);
            while let Some(line) = lines.next() {
                seen.push(line);
            }
        }
        (seen, lines.rest())
    }

    #[test]
    fn every_way_of_chunking_gives_the_same_lines() {
        let stream = b"one\n\ntwo\r\nelevenchars\nfour\nlast";
        let expected =
            vec![whole("one"), whole(""), whole("two\r"), Line::TooLong { bytes: 11 }, whole("four")];
        for chunk in 1..=stream.len() {
            let (seen, rest) = cut(stream, chunk, 10);
            assert_eq!(seen, expected, "chunks of {chunk}");
            assert_eq!(rest, Some(whole("last")), "chunks of {chunk}");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole() {
        let (seen, rest) = cut(b"0123456789\n", 3, 10);
        assert_eq!(seen, vec![whole("0123456789")]);
        assert_eq!(rest, None);
    }

    #[test]
    fn an_over_long_line_takes_no_memory_and_is_reported_at_its_end() {
        let mut lines = Lines::new(1024);
        for _ in 0..1000 {
            lines.push(&[b'x'; 1000]);
            assert_eq!(lines.next(), None);
            assert!(lines.buffer.capacity() <= 8 * 1024);
        }
        lines.push(b"\nnext\n");
        assert_eq!(lines.next(), Some(Line::TooLong { bytes: 1_000_000 }));
        assert_eq!(lines.next(), Some(whole("next")));
    }

    #[test]
    fn an_over_long_line_at_the_end_of_the_stream_is_reported() {
        let (seen, rest) = cut(&[b'x'; 50], 7, 10);
        assert_eq!(seen, vec![]);
        assert_eq!(rest, Some(Line::TooLong { bytes: 50 }));
    }

    #[test]
    fn the_room_for_a_long_line_is_given_back() {
        let mut lines = Lines::new(4 * 1024 * 1024);
        lines.push(&vec![b'x'; 3 * 1024 * 1024]);
        assert_eq!(lines.next(), None);
        lines.push(b"\n");
        assert!(matches!(lines.next(), Some(Line::Whole(_))));
        lines.push(b"a");
        assert!(lines.buffer.capacity() <= KEPT_CAPACITY);
    }
}
