//! Colours, always beside a word or a sign: hues of Okabe and Ito's palette that people with any colour vision tell
//! apart, as the nearest of a terminal's 256.

use ratatui::style::{Color, Modifier, Style};

/// The styles of everything that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Labels, and what matters least.
    pub dim: Style,
    /// Headings.
    pub head: Style,
    /// Figures that matter most.
    pub strong: Style,
    /// As it should be.
    pub good: Style,
    /// Worth a look.
    pub warn: Style,
    /// Wrong.
    pub bad: Style,
    /// What somebody chose: the order, the filter.
    pub accent: Style,
    /// The chosen row.
    pub row: Style,
    /// The bar at the top.
    pub bar: Style,
}

impl Palette {
    /// With colours.
    #[must_use]
    pub fn colours() -> Palette {
        let hue = |index| Style::new().fg(Color::Indexed(index));
        Palette {
            dim: Style::new().add_modifier(Modifier::DIM),
            head: hue(74).add_modifier(Modifier::BOLD),
            strong: Style::new().add_modifier(Modifier::BOLD),
            good: hue(36),
            warn: hue(214),
            bad: hue(202).add_modifier(Modifier::BOLD),
            accent: hue(74).add_modifier(Modifier::BOLD),
            row: Style::new().add_modifier(Modifier::REVERSED),
            bar: Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// Without (`NO_COLOR`): weight alone.
    #[must_use]
    pub fn plain() -> Palette {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let accent = bold.add_modifier(Modifier::UNDERLINED);
        let none = Style::new();
        Palette { head: bold, good: none, warn: bold, bad: accent, accent, ..Palette::colours() }
    }

    /// As the environment wants it: <https://no-color.org>.
    #[must_use]
    pub fn of_environment() -> Palette {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if no_colour { Palette::plain() } else { Palette::colours() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_no_colour() {
        let plain = Palette::plain();
        let styles = [
            plain.dim,
            plain.head,
            plain.strong,
            plain.good,
            plain.warn,
            plain.bad,
            plain.accent,
            plain.row,
            plain.bar,
        ];
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
    }
}
