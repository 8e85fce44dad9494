//! A lazy picture against an eager one.

use proptest::prelude::*;
use turbojpeg_sys as sys;

use super::super::tests::{Grid, jpeg};
use super::super::{Decode, Dtype, Form, Layout, write};
use super::*;

/// A step that a lazy picture may put off.
#[derive(Debug, Clone)]
enum Step {
    /// By fractions of what is there: left, top, width, height.
    Crop([f64; 4]),
    Mirror,
    Flip,
    Transpose,
    /// By the nearest pixel, so that nothing is rounded.
    Nearest(u32, u32),
    Pad(Sides),
    Paint([f64; 4], [u8; 3]),
}

fn step() -> impl Strategy<Value = Step> {
    let fractions = || prop::array::uniform4(0.0..1.0_f64);
    let sides =
        prop::array::uniform4(0..4_u32).prop_map(|[left, top, right, bottom]| Sides { left, top, right, bottom });
    prop_oneof![
        3 => fractions().prop_map(Step::Crop),
        3 => Just(Step::Mirror),
        3 => Just(Step::Flip),
        1 => Just(Step::Transpose),
        1 => (1..24_u32, 1..24_u32).prop_map(|(w, h)| Step::Nearest(w, h)),
        1 => sides.prop_map(Step::Pad),
        1 => (fractions(), any::<[u8; 3]>()).prop_map(|(area, colour)| Step::Paint(area, colour)),
    ]
}

fn part([x, y, width, height]: [f64; 4], columns: u32, rows: u32) -> Rect {
    let of = |fraction: f64, count: u32| (fraction * f64::from(count)) as u32;
    let (width, height) = (1 + of(width, columns), 1 + of(height, rows));
    Rect { x: of(x, columns - width + 1), y: of(y, rows - height + 1), width, height }
}

const FRAME: [u8; 3] = [1, 2, 3];

fn lazily(image: &mut Image<'_>, step: &Step) -> Result<()> {
    let (width, height) = (image.width(), image.height());
    match step {
        Step::Crop(fractions) => image.crop(part(*fractions, width, height)),
        Step::Mirror => image.mirror(),
        Step::Flip => image.flip(),
        Step::Transpose => image.transpose()?,
        Step::Nearest(width, height) => image.resize(*width, *height, Interpolation::Nearest)?,
        Step::Pad(sides) => image.pad(*sides, |x, y| {
            let is_inside = (0..i64::from(width)).contains(&x) && (0..i64::from(height)).contains(&y);
            let [r, g, b] = FRAME;
            if is_inside { Padding::Of(x as u32, y as u32) } else { Padding::Colour([r, g, b, 0]) }
        })?,
        Step::Paint(fractions, [r, g, b]) => image.paint(part(*fractions, width, height), [*r, *g, *b, 0])?,
    }
    Ok(())
}

fn eagerly(grid: &Grid, step: &Step) -> Grid {
    let (width, height) = (grid.width, grid.height);
    match step {
        Step::Crop(fractions) => grid.crop(part(*fractions, width, height)),
        Step::Mirror => grid.mirror(),
        Step::Flip => grid.flip(),
        Step::Transpose => grid.transpose(),
        Step::Nearest(columns, rows) => {
            let pick = |i: u32, from: u32, to: u32| {
                let step = f64::from(from) / f64::from(to);
                (0..i).fold(step / 2.0, |place, _| place + step) as u32
            };
            Grid::new(*columns, *rows, |x, y| grid.at(pick(x, width, *columns), pick(y, height, *rows)))
        }
        Step::Pad(Sides { left, top, right, bottom }) => {
            Grid::new(width + left + right, height + top + bottom, |x, y| {
                let is_inside = (*left..left + width).contains(&x) && (*top..top + height).contains(&y);
                if is_inside { grid.at(x - left, y - top) } else { FRAME }
            })
        }
        Step::Paint(fractions, colour) => {
            let area = part(*fractions, width, height);
            let (columns, rows) = (area.x..area.x + area.width, area.y..area.y + area.height);
            Grid::new(
                width,
                height,
                |x, y| {
                    if columns.contains(&x) && rows.contains(&y) { *colour } else { grid.at(x, y) }
                },
            )
        }
    }
}

/// A picture with the look of a photograph: edges, flat parts and noise.
fn scene(width: u32, height: u32, seed: u64) -> Grid {
    let noise = Grid::noise(width, height, seed);
    Grid::new(width, height, |x, y| {
        let base = if (x / 11 + y / 7) % 2 == 0 { [200, 40, (5 * x) as u8] } else { [30, (3 * y) as u8, 220] };
        std::array::from_fn(|c| base[c] ^ (noise.at(x, y)[c] & 15))
    })
}

const SUBSAMPLINGS: [sys::TJSAMP; 6] = [
    sys::TJSAMP_TJSAMP_444,
    sys::TJSAMP_TJSAMP_422,
    sys::TJSAMP_TJSAMP_420,
    sys::TJSAMP_TJSAMP_GRAY,
    sys::TJSAMP_TJSAMP_440,
    sys::TJSAMP_TJSAMP_411,
];

fn file() -> impl Strategy<Value = (Grid, Vec<u8>)> {
    let coding = (prop::sample::select(&SUBSAMPLINGS[..]), 40..98, any::<bool>());
    (1..90_u32, 1..70_u32, any::<u64>(), coding).prop_map(|(width, height, seed, (sampling, quality, progressive))| {
        let bytes = jpeg(&scene(width, height, seed), sampling, quality, progressive);
        let mut scratch = Scratch::default();
        let whole = Grid::of(Decode::default().open(&bytes, &mut scratch).unwrap());
        (whole, bytes)
    })
}

proptest! {
    #[test]
    fn lazy_steps_show_what_eager_ones_do(
        width in 1..24_u32, height in 1..24_u32, steps in prop::collection::vec(step(), 0..8)
    ) {
        let grid = Grid::noise(width, height, 0);
        let lazy = grid.show(|image| steps.iter().try_for_each(|step| lazily(image, step)));
        let eager = steps.iter().fold(grid, |grid, step| eagerly(&grid, step));
        prop_assert_eq!(lazy, eager);
    }

    #[test]
    fn steps_on_a_jpeg_show_what_they_do_to_all_of_its_pixels(
        (whole, bytes) in file(), steps in prop::collection::vec(step(), 1..6)
    ) {
        let mut scratch = Scratch::default();
        let mut image = Decode::default().open(&bytes, &mut scratch).unwrap();
        steps.iter().try_for_each(|step| lazily(&mut image, step)).unwrap();
        let eager = steps.iter().fold(whole, |grid, step| eagerly(&grid, step));
        prop_assert_eq!(Grid::of(image), eager);
    }

    #[test]
    fn a_part_of_a_jpeg_is_resized_as_if_nothing_lay_around_it(
        (whole, bytes) in file(), fractions in prop::array::uniform4(0.0..1.0_f64), to in (1..40_u32, 1..40_u32)
    ) {
        let area = part(fractions, whole.width, whole.height);
        let mut scratch = Scratch::default();
        let mut image = Decode::default().open(&bytes, &mut scratch).unwrap();
        image.crop(area);
        image.resize(to.0, to.1, Interpolation::Bilinear).unwrap();
        let alone = whole.crop(area).show(|image| image.resize(to.0, to.1, Interpolation::Bilinear));
        prop_assert_eq!(Grid::of(image), alone);
    }

    #[test]
    fn a_mirrored_picture_resizes_to_the_mirrored_result(
        width in 2..40_u32, height in 2..40_u32, to in (1..40_u32, 1..40_u32), both: bool
    ) {
        let grid = scene(width, height, 1);
        for interpolation in [
            Interpolation::Bilinear, Interpolation::Hamming, Interpolation::Bicubic, Interpolation::Lanczos,
        ] {
            let lazy = grid.show(|image| {
                image.mirror();
                if both { image.flip() }
                image.resize(to.0, to.1, interpolation)
            });
            let turned = if both { grid.mirror().flip() } else { grid.mirror() };
            let eager = turned.show(|image| image.resize(to.0, to.1, interpolation));
            // The sums run in opposite directions, so a level may round the other way, once a direction.
            let differences = lazy.pixels.as_flattened().iter().zip(eager.pixels.as_flattened());
            let most = differences.map(|(a, b)| a.abs_diff(*b)).max();
            prop_assert!(most <= Some(2), "{interpolation:?}: {most:?}");
        }
    }
}

#[test]
fn transposing_twice_is_nothing() {
    let grid = Grid::noise(7, 4, 0);
    let twice = grid.show(|image| image.transpose().and_then(|()| image.transpose()));
    assert_eq!(twice, grid);
}

#[test]
fn a_transposed_flip_is_a_mirror() {
    let grid = Grid::noise(7, 4, 0);
    let got = grid.show(|image| {
        image.flip();
        image.transpose()
    });
    assert_eq!(got, grid.transpose().mirror());
}

#[test]
#[should_panic(expected = "a crop lies within the picture")]
fn a_crop_beyond_the_picture_is_a_defect() {
    Grid::noise(4, 4, 0).show(|image| {
        image.crop(Rect { x: 2, y: 0, width: 3, height: 4 });
        Ok(())
    });
}

#[test]
fn a_patch_of_values_moves_with_the_picture() {
    let area = Rect { x: 1, y: 0, width: 2, height: 1 };
    let show = |change: fn(&mut Image<'_>)| {
        let mut scratch = Scratch::default();
        let mut image = Image::decoded(5, 3, &mut scratch, |pixels| {
            pixels.fill([0; 4]);
            Ok(())
        })
        .unwrap();
        image.enter_normalized();
        image.paint_values(area, Fill::Values([1.0; 3]));
        change(&mut image);
        let form = Form {
            size: Some((3, 5)),
            channels: 1,
            dtype: Dtype::F32,
            layout: Layout::Nchw,
            stage: super::super::Stage::Values,
            normal: None,
        };
        let mut slot = vec![0_u8; 60];
        write::write(image.finish().unwrap(), &form, &mut slot).unwrap();
        let painted = slot.as_chunks::<4>().0.iter().enumerate().filter(|(_, v)| f32::from_ne_bytes(**v) == 1.0);
        painted.map(|(i, _)| (i % 5, i / 5)).collect::<Vec<_>>()
    };
    assert_eq!(show(|_| {}), [(1, 0), (2, 0)]);
    assert_eq!(show(|image| image.mirror()), [(2, 0), (3, 0)]);
    assert_eq!(show(|image| image.flip()), [(1, 2), (2, 2)]);
}

#[test]
fn fast_scaling_shrinks_only_what_stays_twice_as_large_as_wanted() {
    let bytes = jpeg(&scene(400, 320, 0), sys::TJSAMP_TJSAMP_420, 90, false);
    let fast = Decode { scaling: Scaling::Fast, ..Decode::default() };
    let denominator = |decode: &Decode, width, height| {
        let mut scratch = Scratch::default();
        decode.open(&bytes, &mut scratch).unwrap().denominator(width, height)
    };
    for (width, height, expected) in [(200, 160, 1), (101, 40, 1), (100, 80, 2), (50, 40, 4), (25, 20, 8), (2, 2, 8)] {
        assert_eq!(denominator(&fast, width, height), expected, "{width} x {height}");
        assert_eq!(denominator(&Decode::default(), width, height), 1);
    }
}

#[test]
fn fast_scaling_is_close_to_exact_in_every_part() {
    // Smooth, so that what differs is the place and not the detail.
    let smooth = Grid::new(400, 320, |x, y| [(x / 2) as u8, (y / 2) as u8, ((x + y) / 4) as u8]);
    let bytes = jpeg(&smooth, sys::TJSAMP_TJSAMP_420, 95, false);
    for area in [
        Rect { x: 0, y: 0, width: 400, height: 320 },
        Rect { x: 37, y: 51, width: 203, height: 170 },
        Rect { x: 331, y: 259, width: 69, height: 61 },
    ] {
        let [exact, fast] = [Scaling::Exact, Scaling::Fast].map(|scaling| {
            let mut scratch = Scratch::default();
            let mut image = Decode { scaling, ..Decode::default() }.open(&bytes, &mut scratch).unwrap();
            image.crop(area);
            image.mirror();
            image.resize(12, 11, Interpolation::Bilinear).unwrap();
            Grid::of(image)
        });
        let most = exact.pixels.as_flattened().iter().zip(fast.pixels.as_flattened()).map(|(a, b)| a.abs_diff(*b));
        assert!(most.max() <= Some(4), "{area:?}");
    }
}
