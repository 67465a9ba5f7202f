//! Rows of figures: on the terminal, and as Markdown in the file that `DIBS_BENCH_TABLE` names, if it does.
//!
//! A row compares two things measured in turns: the median of each, the median of the ratios, and the range of
//! the ratios, without the lowest and the highest tenth if there are enough.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

/// The figures of one round: git-dibs, and what it is compared with.
pub type Pair = (f64, f64);

/// Begins a table.
pub fn head(title: &str) {
    println!("\n{title:<74} {:>11} {:>11} {:>8}  spread", "here", "beside", "ratio");
    keep(&format!("\n## {title}\n\n| | here | beside | ratio | spread |\n|---|--:|--:|--:|--:|"));
}

/// A row of figures from rounds that took turns.
pub fn row(what: &str, pairs: &[Pair], show: fn(f64) -> String) {
    let here = show(median(pairs.iter().map(|pair| pair.0)));
    let beside = show(median(pairs.iter().map(|pair| pair.1)));
    let ratios = sorted(pairs.iter().map(|(here, beside)| here / beside));
    let (count, cut) = (ratios.len(), ratios.len() / 10);
    let ratio = format!("{}×", two_digits(ratios[count / 2]));
    let spread = format!("{}–{}", two_digits(ratios[cut]), two_digits(ratios[count - 1 - cut]));
    println!("{what:<74} {here:>11} {beside:>11} {ratio:>8}  {spread}");
    keep(&format!("| {} | {here} | {beside} | {ratio} | {spread} |", escaped(what)));
}

/// A figure without a comparison.
pub fn fact(what: &str, figure: &str) {
    println!("{what:<74} {figure:>11}");
    keep(&format!("| {} | {} | | | |", escaped(what), escaped(figure)));
}

/// A sentence in the table.
pub fn note(sentence: &str) {
    println!("{sentence}");
    keep(&format!("| {} | | | | |", escaped(sentence)));
}

/// Of some figures.
pub fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let all = sorted(figures);
    all[all.len() / 2]
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = figures.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// How often, in a second.
pub fn rate(figure: f64) -> String {
    format!("{}/s", count(figure))
}

/// A duration in seconds, shown in the fitting unit.
pub fn time(seconds: f64) -> String {
    format!("{:.2?}", Duration::from_secs_f64(seconds))
}

/// A number with thousands separators.
pub fn count(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn two_digits(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { count(ratio) }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Several programs add to one table, one after the other.
fn keep(line: &str) {
    let Some(path) = std::env::var_os("DIBS_BENCH_TABLE") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{line}")).expect("the table can be written");
}
