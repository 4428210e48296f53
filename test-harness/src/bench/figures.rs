//! Medians, 99th percentiles, and the table that they are printed in.

use std::fmt;
use std::time::{Duration, Instant};

/// What was measured of one thing.
#[derive(Clone, Debug)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// Measures `act` so many times, after a tenth as many that aren't counted.
    pub(crate) fn of(times: usize, mut act: impl FnMut()) -> Sample {
        for _ in 0..times / 10 {
            act();
        }
        Sample((0..times).map(|_| clocked(&mut act)).collect())
    }

    /// From durations that were taken elsewhere.
    pub(crate) fn from(times: Vec<Duration>) -> Sample {
        Sample(times)
    }

    fn at(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(0.5)
    }
}

/// How long `act` takes.
pub(crate) fn clocked(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

/// Rows of figures.
#[derive(Debug)]
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    pub(crate) fn new() -> Table {
        let head = ["what", "median", "p99", "reference", "times the reference"];
        Table(vec![head.map(str::to_owned)])
    }

    /// A time beside a reference of the same run.
    pub(crate) fn time(&mut self, what: &str, sample: &Sample, reference: Option<(&str, &Sample)>) {
        let (name, ratio) = match reference {
            Some((name, reference)) => {
                let base = reference.median().as_secs_f64().max(1e-9);
                let ratio = sample.median().as_secs_f64() / base;
                (format!("{name} {}", shown(reference.median())), format!("{ratio:.1}"))
            }
            None => (String::new(), String::new()),
        };
        self.0.push([what.to_owned(), shown(sample.median()), shown(sample.at(0.99)), name, ratio]);
    }

    /// Any other figure.
    pub(crate) fn figure(&mut self, what: &str, value: impl fmt::Display, reference: &str) {
        self.0.push([what.to_owned(), value.to_string(), String::new(), reference.to_owned(), String::new()]);
    }
}

fn shown(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 1.0 { format!("{ms:.3} ms") } else { format!("{ms:.2} ms") }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> =
            (0..5).map(|i| self.0.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
        for (at, row) in self.0.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                write!(f, "| {cell}{} ", " ".repeat(width - cell.chars().count()))?;
            }
            writeln!(f, "|")?;
            if at == 0 {
                for width in &widths {
                    write!(f, "| {} ", "-".repeat(*width))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}
