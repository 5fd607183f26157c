//! Axes.

/// Turns values into places between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
}

impl Axis {
    /// From 0 to `to`, which is more than 0.
    pub fn linear(to: f64) -> Self {
        Self { scale: Scale::Linear, from: 0.0, to }
    }

    /// From 0 to the first tick that is not below `most`, which is more than 0.
    pub fn up_to_a_tick(most: f64) -> Self {
        let step = step_of(most);
        Self::linear((most / step).ceil() * step)
    }

    /// From `from` to `to`, both more than 0; each step multiplies.
    pub fn logarithmic(from: f64, to: f64) -> Self {
        Self { scale: Scale::Logarithmic, from, to }
    }

    /// The place of a value; values below a logarithmic axis are at its beginning.
    pub fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value / self.to,
            Scale::Logarithmic if value > self.from => (value / self.from).ln() / (self.to / self.from).ln(),
            Scale::Logarithmic => 0.0,
        }
    }

    /// Whether equal steps on the axis are equal factors.
    pub fn is_logarithmic(&self) -> bool {
        self.scale == Scale::Logarithmic
    }

    /// Round numbers on the axis, few enough to be read.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step_of(self.to);
                (0..=8).map(|index| f64::from(index) * step).filter(|tick| *tick <= self.to).collect()
            }
            Scale::Logarithmic => {
                let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
                let within = |factors: &'static [f64]| -> Vec<f64> {
                    let ticks = decades
                        .clone()
                        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
                    ticks.filter(|tick| (self.from..=self.to).contains(tick)).collect()
                };
                let powers = within(&[1.0]);
                // Less than two decades have too few powers of ten.
                if powers.len() >= 3 { powers } else { within(&[1.0, 2.0, 5.0]) }
            }
        }
    }
}

/// The step of a linear axis: between four and eight of them up to `most`.
fn step_of(most: f64) -> f64 {
    let decade = 10_f64.powf((most / 8.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade);
    steps.into_iter().find(|step| most / step <= 8.0).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let linear = Axis::linear(145_600.0);
        assert_eq!(
            linear.ticks(),
            [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0, 120_000.0, 140_000.0]
        );
        assert_eq!(Axis::logarithmic(3.0, 130_000.0).ticks(), [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(Axis::logarithmic(8.0, 65.0).ticks(), [10.0, 20.0, 50.0]);
    }

    #[test]
    fn an_axis_up_to_a_tick_reaches_the_highest_value() {
        let [even, odd] = [80.0, 4_300.0].map(Axis::up_to_a_tick);
        assert_eq!(even.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]);
        assert_eq!(odd.ticks(), [0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0, 5_000.0]);
        assert!((odd.place(5_000.0) - 1.0).abs() < 1e-9);
        // Whatever is highest, the last tick is the end.
        for tenths in 1..10_000 {
            let most = f64::from(tenths) / 10.0;
            let axis = Axis::up_to_a_tick(most);
            let last = *axis.ticks().last().unwrap();
            assert!(axis.place(last) > 1.0 - 1e-9 && last >= most - 1e-9, "{most} {axis:?}");
        }
    }

    #[test]
    fn places_lie_between_the_ends() {
        let axis = Axis::logarithmic(0.0001, 222.0);
        assert!(axis.place(0.001) > 0.1 && (axis.place(222.0) - 1.0).abs() < 1e-9);
        assert!(axis.place(0.0) == 0.0 && axis.is_logarithmic());
        assert!((Axis::linear(4.0).place(2.0) - 0.5).abs() < 1e-9);
    }
}
