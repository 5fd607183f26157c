//! SVG pictures for reports: [`Svg`] writes the elements, [`Axis`] turns values into places and round ticks. Layout, sizes and
//! colours are the reports' own.

mod axis;
mod writer;

pub use axis::Axis;
pub use writer::{Svg, escaped};
