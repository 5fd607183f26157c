//! Which rows the statements touch: sysbench's distributions, from one seeded source of random numbers.

#[cfg(test)]
mod tests;

/// A source of random numbers: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014). Small, fast and reproducible from its seed; not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 (included) to 1 (excluded), with the 53 bits that fit in its mantissa.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A whole number below `bound` (at least 1). Its bias, below `bound` / 2^32, is far under what a run can show.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Appends `groups` groups of 11 random digits with dashes between them: the texts of sysbench's columns `c`
    /// (10 groups, 119 bytes) and `pad` (5 groups, 59 bytes).
    pub fn put_digit_groups(&mut self, out: &mut Vec<u8>, groups: usize) {
        for group in 0..groups {
            if group > 0 {
                out.push(b'-');
            }
            // 11 digits from one number: 10^11 fits 2^64 180 million times, so every digit is as good as even.
            let mut number = self.next();
            for _ in 0..11 {
                out.push(b'0' + (number % 10) as u8);
                number /= 10;
            }
        }
    }
}

/// The odd constant of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The shape of a [`Distribution`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Every row as often as every other.
    Uniform,
    /// The middle rows more often: the mean of 12 uniform numbers.
    Gaussian,
    /// sysbench's default: one in four by [`Shape::Gaussian`], the rest evenly on 1 % of the rows around the middle.
    Special,
    /// The first rows most often: a share `h` of the rows gets a share `1 - h` of the statements.
    Pareto {
        /// Between 0 and 1, both excluded.
        h: f64,
    },
    /// Row number n with a weight of 1 / n^exponent.
    Zipfian {
        /// 0 or more; 0 is uniform.
        exponent: f64,
    },
}

/// Draws row numbers from 1 to a number of rows.
#[derive(Clone, Debug)]
pub struct Distribution {
    rows: u32,
    sampler: Sampler,
}

#[derive(Clone, Debug)]
enum Sampler {
    Uniform,
    Gaussian,
    Special,
    Pareto { power: f64 },
    Zipfian(Zipfian),
}

impl Distribution {
    /// Rows 1 to `rows` (at least 1) in the given shape.
    pub fn new(shape: Shape, rows: u32) -> Self {
        let rows = rows.max(1);
        let sampler = match shape {
            Shape::Uniform => Sampler::Uniform,
            Shape::Gaussian => Sampler::Gaussian,
            Shape::Special => Sampler::Special,
            Shape::Pareto { h } => Sampler::Pareto { power: h.ln() / (1.0 - h).ln() },
            Shape::Zipfian { exponent } => Sampler::Zipfian(Zipfian::new(f64::from(rows), exponent)),
        };
        Self { rows, sampler }
    }

    /// How many rows there are to draw from.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// A row number, from 1 to the number of rows.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let rows = f64::from(self.rows);
        // `as` rounds towards zero and saturates, so an offset below `rows` stays inside.
        let offset = match &self.sampler {
            Sampler::Uniform => random.below(self.rows),
            Sampler::Gaussian => (mean_of_uniforms(random) * rows) as u32,
            Sampler::Special => special(random, rows - 1.0),
            Sampler::Pareto { power } => (random.fraction().powf(*power) * rows) as u32,
            Sampler::Zipfian(zipfian) => zipfian.draw(random) - 1,
        };
        1 + offset.min(self.rows - 1)
    }
}

/// `--rand-spec-iter`, sysbench's default.
const UNIFORMS: u32 = 12;

fn mean_of_uniforms(random: &mut Random) -> f64 {
    (0..UNIFORMS).map(|_| random.fraction()).sum::<f64>() / f64::from(UNIFORMS)
}

/// sysbench 1.0.20's `--rand-type=special` with its defaults: `--rand-spec-pct=1`, `--rand-spec-res=75`. One random
/// number decides between the two parts and places the value inside the special one, so that only the upper three
/// quarters of the special rows are ever drawn by it; kept, because figures should compare.
fn special(random: &mut Random, span: f64) -> u32 {
    const SPECIAL_ROWS: f64 = 0.01;
    const SPECIAL_DRAWS: f64 = 0.75;
    let fraction = random.fraction();
    if fraction < 1.0 - SPECIAL_DRAWS {
        return (mean_of_uniforms(random) * span) as u32;
    }
    let width = span * SPECIAL_ROWS;
    (fraction * (width + 1.0) + span / 2.0 - width / 2.0) as u32
}

/// Rejection-inversion for a bounded Zipf distribution (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6.3, 1996): constant time, no table.
///
/// The weight function is h(x) = x^-exponent and H its integral with H(1) = 0. A point is drawn evenly under the hat
/// H, cut into one strip per whole number, and kept where it lies under that number's bar.
#[derive(Clone, Debug)]
struct Zipfian {
    rows: f64,
    exponent: f64,
    /// H(1.5) - h(1): where the first bar begins.
    lowest: f64,
    /// H(rows + 1/2): where the last strip ends.
    highest: f64,
    /// Points this close below their whole number lie under its bar: spares most evaluations of H.
    shortcut: f64,
}

impl Zipfian {
    fn new(rows: f64, exponent: f64) -> Self {
        let lowest = integral(1.5, exponent) - 1.0;
        let highest = integral(rows + 0.5, exponent);
        let shortcut = 2.0 - integral_inverse(integral(2.5, exponent) - 2.0_f64.powf(-exponent), exponent);
        Self { rows, exponent, lowest, highest, shortcut }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let area = self.highest + random.fraction() * (self.lowest - self.highest);
            let point = integral_inverse(area, self.exponent);
            let row = (point + 0.5).floor().clamp(1.0, self.rows);
            if row - point <= self.shortcut
                || area >= integral(row + 0.5, self.exponent) - row.powf(-self.exponent)
            {
                return row as u32;
            }
        }
    }
}

/// The integral of x^-exponent from 1 to x: (x^(1 - exponent) - 1) / (1 - exponent), or ln x where the exponent is 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let logarithm = x.ln();
    let power = (1.0 - exponent) * logarithm;
    if power.abs() < NEARLY_ZERO { logarithm } else { power.exp_m1() / (1.0 - exponent) }
}

fn integral_inverse(area: f64, exponent: f64) -> f64 {
    // Below -1 only by rounding, where the logarithm would not be a number.
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    if scaled.abs() < NEARLY_ZERO { area.exp() } else { (scaled.ln_1p() / (1.0 - exponent)).exp() }
}

/// Under this the quotients lose their digits, and the limit differs from them by less than a part in 10^9.
const NEARLY_ZERO: f64 = 1e-9;
