//! Statistics of norms whose sums are cut into parts: on an emulated GPU they are those that f64 gives, in few launches.

mod emulate;

use emulate::Emulator;
use ox_codegen_cuda::{Options, Source, emit};
use ox_ir::plan::Step;
use ox_ir::{DType, Graph, Plan, Scalar};
use ox_schedule::{ScheduleOptions, Target, schedule};
use ox_testing::random::Rng;
use ox_testing::{TensorData, interpret_plan_with};

const OPTIONS: Options = Options { arch: 90, ordered: false, multiprocessors: 132, careful: false };
const GROUPS: usize = 8;
const CHANNELS: usize = 32;

/// An image of so many pixels in a row, and how it lies; with `any_size`, as if it were one of two at most, of any size up to 64.
struct Images {
    name: &'static str,
    side: usize,
    channels_last: bool,
    any_size: bool,
}

const IMAGES: [Images; 4] = [
    Images { name: "rows", side: 48, channels_last: false, any_size: false },
    Images { name: "columns", side: 48, channels_last: true, any_size: false },
    // The last parts have fewer elements, or none.
    Images { name: "odd_rows", side: 47, channels_last: false, any_size: false },
    Images { name: "any_columns", side: 46, channels_last: true, any_size: true },
];

impl Images {
    fn shape(&self) -> [usize; 4] {
        [1, CHANNELS, self.side, self.side]
    }

    /// Elements of a group.
    fn count(&self) -> usize {
        CHANNELS / GROUPS * self.side * self.side
    }

    /// Of each group of channels %7 is the mean, %12 the variance; %17 is the images without either.
    fn graph(&self, dtype: DType, results: &str) -> Graph {
        let side = if self.any_size { "s1".to_string() } else { self.side.to_string() };
        let (sizes, n, count) = match self.any_size {
            true => ("sizes s0 in 1..2, s1 in 1..64\n", "s0", "4*s1*s1".to_string()),
            false => ("", "1", self.count().to_string()),
        };
        let strides = match (self.channels_last, self.any_size) {
            (false, _) => String::new(),
            (true, true) => "strides [32*s1*s1, 1, 32*s1, 32] ".to_string(),
            (true, false) => format!("strides [{}, 1, {}, 32] ", 32 * self.side * self.side, 32 * self.side),
        };
        let [x, groups, row] = [format!("32, {side}, {side}"), format!("8, 4, {side}, {side}"), "8, 1, 1, 1".to_string()]
            .map(|rest| format!("[{n}, {rest}]@cuda0"));
        let text = format!(
            "{sizes}graph(%0: {dtype}{x} {strides}\"x\") {{
  %1 = reshape(%0) : {dtype}{groups}
  %2 = cast(%1) : f32{groups}
  %3 = reduce(%2, op=sum, dims=[2, 3, 4]) : f32{row}
  %4 = sym_value({count}) : f32[]@cuda0
  %5 = reshape(%4) : f32[1, 1, 1, 1, 1]@cuda0
  %6 = expand(%5) : f32{row}
  %7 = div(%3, %6) : f32{row}
  %8 = expand(%7) : f32{groups}
  %9 = sub(%2, %8) : f32{groups}
  %10 = mul(%9, %9) : f32{groups}
  %11 = reduce(%10, op=sum, dims=[2, 3, 4]) : f32{row}
  %12 = div(%11, %6) : f32{row}
  %13 = rsqrt(%12) : f32{row}
  %14 = expand(%13) : f32{groups}
  %15 = mul(%9, %14) : f32{groups}
  %16 = cast(%15) : {dtype}{groups}
  %17 = reshape(%16) : {dtype}{x}
  return {results}
}}"
        );
        let graph = Graph::parse(&text).unwrap();
        graph.verify().unwrap();
        ox_optimise::optimise(graph, &Default::default())
    }

    fn plan(&self, dtype: DType, results: &str) -> Plan {
        let graph = self.graph(dtype, results);
        let usual = graph.sizes.iter().cloned().zip([1, self.side as i64]).collect();
        let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, usual, ..Default::default() }).unwrap();
        plan.verify().unwrap();
        plan
    }

    /// About normal numbers, with another mean for each group.
    fn values(&self, dtype: DType, mean: f64, deviation: f64) -> TensorData {
        let mut rng = Rng::new(7);
        let mut uniform = || rng.below(1 << 20) as f64 / (1 << 20) as f64 - 0.5;
        TensorData::from_fn(dtype, &self.shape(), |at| {
            let group = (at[0] * GROUPS + at[1] / (CHANNELS / GROUPS)) as f64;
            Scalar::Float(mean * (1.0 + 0.01 * group) + 2.0 * deviation * (uniform() + uniform() + uniform()))
        })
    }

    /// Means and variances in f64, of what the elements are in their own type.
    fn exact(&self, x: &TensorData) -> [Vec<f64>; 2] {
        let groups = x.data.chunks(self.count()).map(|group| group.iter().map(|x| x.as_f64()).collect::<Vec<f64>>());
        let mean = |all: &mut dyn Iterator<Item = f64>| all.sum::<f64>() / self.count() as f64;
        let moments = groups.map(|group| {
            let center = mean(&mut group.iter().copied());
            (center, mean(&mut group.iter().map(|x| (x - center) * (x - center))))
        });
        let (means, variances) = moments.unzip();
        [means, variances]
    }
}

/// The kernels of all images, compiled as one.
struct Compiled {
    emulator: Emulator,
    plans: Vec<(Plan, Vec<Source>)>,
}

impl Compiled {
    fn of(name: &str, dtype: DType) -> Compiled {
        let plans: Vec<(Plan, Vec<Source>)> = IMAGES
            .iter()
            .map(|images| {
                let plan = images.plan(dtype, "%7, %12");
                let source = |(n, kernel)| emit(kernel, &format!("{}_{n}", images.name), &OPTIONS).unwrap();
                let sources = plan.kernels.iter().enumerate().map(source).collect();
                (plan, sources)
            })
            .collect();
        let all: Vec<Source> = plans.iter().flat_map(|(_, sources)| sources.clone()).collect();
        Compiled { emulator: Emulator::new(name, &all), plans }
    }

    /// The means and variances of the n-th images.
    fn moments(&self, n: usize, x: &TensorData) -> [Vec<f64>; 2] {
        let (plan, sources) = &self.plans[n];
        let sizes = if IMAGES[n].any_size { vec![1, IMAGES[n].side as i64] } else { Vec::new() };
        let result = interpret_plan_with(plan, std::slice::from_ref(x), &sizes, &mut |n, bufs, sizes| {
            let (source, known) = (&sources[n as usize], &plan.kernels[n as usize].sizes);
            let points = source.points.eval(&|v| known.iter().position(|s| s == v).map(|k| sizes[k])).unwrap();
            self.emulator.run(source, points, bufs, sizes)
        });
        let outputs = result.unwrap().outputs;
        [0, 1].map(|k: usize| outputs[k].data.iter().map(|x| x.as_f64()).collect())
    }
}

/// The sums of parts with what they deviate from their own means, what these are together, and what is made of it: three launches.
#[test]
fn a_norm_is_three_launches() {
    for images in &IMAGES {
        let plan = images.plan(DType::BF16, "%17");
        let launches = plan.steps.iter().filter(|step| matches!(step, Step::Launch { .. })).count();
        assert_eq!(launches, 3, "{}: {plan}", images.name);
    }
}

#[test]
fn a_mean_far_from_zero_costs_no_digits() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    // The type, mean, deviation, and how far off a mean (in deviations) and a variance (of itself) may be. Elements of 10000 are 0.001 apart in f32: that is as near as their mean comes.
    let cases = [(DType::F32, 1e4, 1.0, 2e-3, 4e-6), (DType::F32, 1e4, 1e-2, 5e-2, 2e-3), (DType::BF16, 100.0, 1.0, 1e-5, 1e-6)];
    for dtype in [DType::F32, DType::BF16] {
        let compiled = Compiled::of(&format!("far_{dtype}"), dtype);
        for (_, mean, deviation, off, spread) in cases.into_iter().filter(|case| case.0 == dtype) {
            for (n, images) in IMAGES.iter().enumerate() {
                let x = images.values(dtype, mean, deviation);
                let ([means, variances], [mean_is, variance_is]) = (compiled.moments(n, &x), images.exact(&x));
                for k in 0..means.len() {
                    let (mean_off, spread_off) = (means[k] - mean_is[k], variances[k] / variance_is[k] - 1.0);
                    let case = format!("{} of {dtype}, {mean} and {deviation}", images.name);
                    assert!(mean_off.abs() < off * deviation, "{case}: the mean {k} is off by {mean_off}");
                    assert!(spread_off.abs() < spread, "{case}: the variance {k} is off by {spread_off}");
                }
            }
        }
    }
}

/// What is not finite stays with its group, and is there what it is without parts. Squares of what does not vary are not negative.
#[test]
fn groups_with_infinities_and_without_variance() {
    if !emulate::is_possible() {
        return eprintln!("skipped: there is no g++");
    }
    let compiled = Compiled::of("infinite", DType::F32);
    for (n, images) in IMAGES.iter().enumerate() {
        let mut x = images.values(DType::F32, 1.0, 1.0);
        let count = images.count();
        x.data[3 * count + 17] = Scalar::Float(f64::INFINITY);
        x.data[5 * count + count / 2] = Scalar::Float(f64::NAN);
        x.data[6 * count] = Scalar::Float(f64::NEG_INFINITY);
        x.data[7 * count - 1] = Scalar::Float(f64::INFINITY);
        let tenth = Scalar::Float(f64::from(0.1f32));
        x.data[count..2 * count].fill(tenth);
        let (got, expected) = (compiled.moments(n, &x), images.exact(&x));
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            let is_same = got == expected || got.is_nan() && expected.is_nan() || (got - expected).abs() < 1e-5;
            assert!(is_same, "{}: {got}, not {expected}", images.name);
        }
        assert!(got[1][1] >= 0.0 && got[1][1] < 1e-12, "{}: {}", images.name, got[1][1]);
    }
}
