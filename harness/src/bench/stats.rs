//! Statistics of a few repetitions.
//!
//! Speeds are compared as ratios, so everything is done on logarithms. Differences of means are judged by Welch's test
//! (B. L. Welch, Biometrika 34, 1947), which does not suppose that both sides vary equally.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The middle; of an even number the mean of the two. None of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// The value that this part (0 to 1) of all does not exceed, of what is there (the lower one in between).
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((part * last as f64).floor() as usize).copied()
}

/// An interval of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The ratio.
    pub ratio: f64,
    /// It is not smaller than that, with the confidence that was asked for.
    pub low: f64,
    /// Nor greater than that.
    pub high: f64,
}

/// The ratio of `new` to `old` speeds with a two-sided interval that holds it with probability `1 - miss`. None with
/// fewer than two values on a side, or a value that is no speed.
pub fn ratio(old: &[f64], new: &[f64], miss: f64) -> Option<Interval> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        (logs.len() >= 2 && logs.iter().all(|log| log.is_finite())).then_some(logs)
    };
    let (old, new) = (Moments::of(&logs(old)?), Moments::of(&logs(new)?));
    let difference = new.mean - old.mean;
    let (a, b) = (old.variance / old.count, new.variance / new.count);
    let half = if a + b > 0.0 {
        let freedom = (a + b).powi(2) / (a * a / (old.count - 1.0) + b * b / (new.count - 1.0));
        let t = StudentsT::new(0.0, 1.0, freedom.max(1.0)).ok()?.inverse_cdf(1.0 - miss / 2.0);
        t * (a + b).sqrt()
    } else {
        0.0
    };
    Some(Interval { ratio: difference.exp(), low: (difference - half).exp(), high: (difference + half).exp() })
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Moments {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Moments { count, mean, variance }
    }
}

/// How far two slices of one and the same thing differ: of each group all pairs, as `|ln|` of their ratio.
pub fn differences(groups: &[Vec<f64>]) -> Vec<f64> {
    let mut all = Vec::new();
    for group in groups {
        for (n, one) in group.iter().enumerate() {
            all.extend(group[n + 1..].iter().map(|other| (one / other).ln().abs()).filter(|value| value.is_finite()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        let cases: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[3.0, 1.0], Some(2.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[f64::NAN, 5.0], Some(5.0)),
        ];
        for (values, expected) in cases {
            assert_eq!(median(values), expected, "{values:?}");
        }
        let tens: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(
            [quantile(&tens, 0.0), quantile(&tens, 0.1), quantile(&tens, 1.0)],
            [Some(0.0), Some(1.0), Some(10.0)]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn an_interval_as_in_the_textbook() {
        // ln = 1, 2, 3 against 2, 3, 4: difference 1, standard error sqrt(2/3), 4 degrees of freedom, t = 2.776.
        let e = |values: [f64; 3]| values.map(f64::exp);
        let interval = ratio(&e([1.0, 2.0, 3.0]), &e([2.0, 3.0, 4.0]), 0.05).unwrap();
        assert!((interval.ratio.ln() - 1.0).abs() < 1e-9);
        assert!((interval.low.ln() - (1.0 - 2.776_445 * (2.0f64 / 3.0).sqrt())).abs() < 1e-4, "{interval:?}");
        assert!((interval.high.ln() - (1.0 + 2.776_445 * (2.0f64 / 3.0).sqrt())).abs() < 1e-4, "{interval:?}");
        assert_eq!(ratio(&[1.0], &[1.0, 2.0], 0.05), None);
        assert_eq!(ratio(&[1.0, 0.0], &[1.0, 2.0], 0.05), None);
        assert_eq!(ratio(&[2.0, 2.0], &[1.0, 1.0], 0.05), Some(Interval { ratio: 0.5, low: 0.5, high: 0.5 }));
    }

    #[test]
    fn differences_are_of_equals_only() {
        let found = differences(&[vec![1.0, 2.0], vec![100.0], vec![]]);
        assert_eq!(found.len(), 1);
        assert!((found[0] - 2.0f64.ln()).abs() < 1e-12);
    }
}
