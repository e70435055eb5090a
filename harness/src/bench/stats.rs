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

/// How much repetitions of one thing vary, from those of many things: few repetitions of each say little, all together
/// say enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    /// The standard deviation of the logarithm.
    pub deviation: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

impl Pooled {
    /// From groups of repetitions; none if no group has two.
    pub fn of(groups: &[Vec<f64>]) -> Option<Pooled> {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for group in groups {
            let logs: Vec<f64> = group.iter().map(|value| value.ln()).filter(|log| log.is_finite()).collect();
            if logs.len() >= 2 {
                let moments = Moments::of(&logs);
                squares += moments.variance * (moments.count - 1.0);
                freedom += moments.count - 1.0;
            }
        }
        (freedom > 0.0).then(|| Pooled { deviation: (squares / freedom).sqrt(), freedom })
    }

    /// Whether the first is greater than the second, a mistake being at most so probable.
    pub fn greater(&self, first: &[f64], second: &[f64], miss: f64) -> bool {
        let logs = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|value| value.ln()).filter(|log| log.is_finite()).collect()
        };
        let (first, second) = (logs(first), logs(second));
        let (n, m) = (first.len() as f64, second.len() as f64);
        let Ok(t) = StudentsT::new(0.0, 1.0, self.freedom) else { return false };
        let difference = first.iter().sum::<f64>() / n - second.iter().sum::<f64>() / m;
        difference > t.inverse_cdf(1.0 - miss) * self.deviation * (1.0 / n + 1.0 / m).sqrt()
    }
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
    fn many_groups_tell_how_much_one_varies() {
        let e = |values: &[f64]| values.iter().map(|value| value.exp()).collect::<Vec<f64>>();
        let groups = [e(&[1.0, 1.2]), e(&[5.0, 5.2]), e(&[2.0, 1.8]), e(&[7.0])];
        let pooled = Pooled::of(&groups).unwrap();
        assert_eq!(pooled.freedom, 3.0);
        assert!((pooled.deviation - 0.02f64.sqrt()).abs() < 1e-9, "{pooled:?}");
        assert!(pooled.greater(&groups[1], &groups[0], 0.05));
        assert!(!pooled.greater(&groups[0], &groups[1], 0.05));
        assert!(!pooled.greater(&e(&[1.1, 1.3]), &groups[0], 0.05), "a tenth is nothing here");
        assert_eq!(Pooled::of(&[e(&[1.0])]), None);
    }

    #[test]
    fn differences_are_of_equals_only() {
        let found = differences(&[vec![1.0, 2.0], vec![100.0], vec![]]);
        assert_eq!(found.len(), 1);
        assert!((found[0] - 2.0f64.ln()).abs() < 1e-12);
    }
}
