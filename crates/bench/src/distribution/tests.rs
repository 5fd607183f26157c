use super::*;

const DRAWS: u32 = 400_000;

/// How often each row came up, as a share of all draws; index 0 is row 1.
fn shares(shape: Shape, rows: u32) -> Vec<f64> {
    let distribution = Distribution::new(shape, rows);
    let mut random = Random::new(20_261_121);
    let mut counts = vec![0_u32; rows as usize];
    for _ in 0..DRAWS {
        counts[distribution.draw(&mut random) as usize - 1] += 1;
    }
    counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
}

/// Five standard deviations of a share that should be `expected`.
fn tolerance(expected: f64) -> f64 {
    5.0 * (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt()
}

fn assert_share(found: f64, expected: f64) {
    assert!((found - expected).abs() <= tolerance(expected), "found {found}, expected {expected}");
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let first: Vec<u64> = std::iter::repeat_with({
        let mut random = Random::new(7);
        move || random.next()
    })
    .take(4)
    .collect();
    let mut again = Random::new(7);
    assert_eq!(first, [again.next(), again.next(), again.next(), again.next()]);
    assert_ne!(first[0], Random::new(8).next());
}

#[test]
fn splitmix64_gives_its_published_sequence() {
    // The first outputs for seed 1234567, as listed with the reference implementation.
    let mut random = Random::new(1_234_567);
    assert_eq!(random.next(), 6_457_827_717_110_365_317);
    assert_eq!(random.next(), 3_203_168_211_198_807_973);
}

#[test]
fn uniform_is_even() {
    for share in shares(Shape::Uniform, 50) {
        assert_share(share, 1.0 / 50.0);
    }
}

#[test]
fn zipfian_follows_its_weights() {
    for exponent in [0.0, 0.8, 1.0, 1.3] {
        let weights: Vec<f64> = (1..=100).map(|row| f64::from(row).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        for (share, weight) in shares(Shape::Zipfian { exponent }, 100).iter().zip(&weights) {
            assert_share(*share, weight / total);
        }
    }
}

#[test]
fn pareto_gives_a_share_of_the_rows_the_rest_of_the_draws() {
    let shares = shares(Shape::Pareto { h: 0.2 }, 1000);
    assert_share(shares[..200].iter().sum(), 0.8);
    // The rule nests: a fifth of the hot fifth gets four fifths of its draws.
    assert_share(shares[..40].iter().sum(), 0.64);
}

#[test]
fn special_puts_three_quarters_on_the_middle_hundredth() {
    let rows = 10_000;
    let shares = shares(Shape::Special, rows);
    let span = f64::from(rows - 1);
    let width = span * 0.01;
    let low = (0.25 * (width + 1.0) + span / 2.0 - width / 2.0) as usize;
    let high = ((width + 1.0) + span / 2.0 - width / 2.0) as usize;
    let middle: f64 = shares[low..=high].iter().sum();
    // The other quarter is a mean of 12 uniforms: normal with a deviation of 1 / sqrt(12 * 12) of the span, of which
    // the 77 rows from `low` on, at the peak, take 77 / 10,000 * 12 / sqrt(2 pi).
    let peak = (high - low + 1) as f64 / f64::from(rows) * 12.0 / (2.0 * std::f64::consts::PI).sqrt();
    assert!((middle - (0.75 + 0.25 * peak)).abs() < 0.004, "{middle}");
    // Two deviations to each side of the middle hold 95.4 % of that quarter.
    let outer: f64 = shares[..(rows / 2 - rows / 6) as usize].iter().sum();
    assert!((outer - 0.25 * 0.0228).abs() < 0.001, "{outer}");
}

#[test]
fn gaussian_has_the_deviation_of_a_mean_of_twelve() {
    let shares = shares(Shape::Gaussian, 1200);
    let mean: f64 = shares.iter().enumerate().map(|(row, share)| row as f64 * share).sum();
    let variance: f64 =
        shares.iter().enumerate().map(|(row, share)| (row as f64 - mean).powi(2) * share).sum();
    assert!((mean - 599.5).abs() < 1.0, "{mean}");
    assert!((variance.sqrt() - 100.0).abs() < 1.0, "{}", variance.sqrt());
}

#[test]
fn one_row_is_always_row_one() {
    let mut random = Random::new(1);
    for shape in [
        Shape::Uniform,
        Shape::Gaussian,
        Shape::Special,
        Shape::Pareto { h: 0.2 },
        Shape::Zipfian { exponent: 0.8 },
    ] {
        let distribution = Distribution::new(shape, 1);
        assert!((0..1000).all(|_| distribution.draw(&mut random) == 1), "{shape:?}");
    }
}

#[test]
fn digit_groups_look_like_those_of_sysbench() {
    let mut text = Vec::new();
    Random::new(5).put_digit_groups(&mut text, 10);
    assert_eq!(text.len(), 119);
    for (index, byte) in text.iter().enumerate() {
        assert_eq!(*byte == b'-', index % 12 == 11, "byte {index}");
        assert!(*byte == b'-' || byte.is_ascii_digit());
    }
}
