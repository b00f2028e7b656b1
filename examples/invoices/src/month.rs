//! A month of invoices.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// A month, written `YYYY-MM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Month {
    year: u16,
    /// 1 to 12.
    month: u8,
}

impl Month {
    /// This month, UTC. It only chooses what is invoiced: no clock decides who holds the lock.
    pub fn current() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of_day(since_epoch.as_secs() / SECONDS_PER_DAY)
    }

    /// The month of a day, counted from 1970-01-01.
    fn of_day(mut day: u64) -> Self {
        let mut year = 1970;
        while day >= days_in_year(year) {
            day -= days_in_year(year);
            year += 1;
        }
        let mut month = 1;
        while day >= days_in_month(year, month) {
            day -= days_in_month(year, month);
            month += 1;
        }
        Self { year, month }
    }
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u16) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u16, month: u8) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for Month {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |part: &str, digits| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        let parts = text.split_once('-').filter(|(year, month)| is_number(year, 4) && is_number(month, 2));
        let numbers = parts.and_then(|(year, month)| Some((year.parse().ok()?, month.parse().ok()?)));
        match numbers {
            Some((year, month @ 1..=12)) => Ok(Self { year, month }),
            _ => Err(format!("`{text}` is no month: write it like 2026-11")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_month_of_a_day_follows_the_calendar() {
        for (day, month) in
            [(0, "1970-01"), (58, "1970-02"), (59, "1970-03"), (11_016, "2000-02"), (20_786, "2026-11")]
        {
            assert_eq!(Month::of_day(day).to_string(), month, "day {day}");
        }
    }

    #[test]
    fn a_month_is_read_as_it_is_written_and_nothing_else_is() {
        assert_eq!("2026-11".parse::<Month>().unwrap().to_string(), "2026-11");
        for text in ["2026-13", "2026-00", "2026-1", "26-11", "2026/11", "+026-11", ""] {
            assert!(text.parse::<Month>().is_err(), "{text}");
        }
    }
}
