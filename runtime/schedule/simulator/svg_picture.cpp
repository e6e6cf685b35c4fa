#include "runtime/schedule/simulator/svg_picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "kernels/base/count.hpp"
#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/memory_curve.hpp"

namespace millrace::runtime {
namespace {

// The SVG is written here: it is rectangles, lines and text, and Debian has no library that only writes them.
// All lengths are in pixels.
constexpr double left = 58, right = 92, top = 92, row_height = 26, row_pitch = 30, strip_height = 20, strip_pitch = 26;
constexpr double min_box = 24;     // of an action, unless it would make the picture wider than
constexpr double max_plot = 3600;  //
constexpr double min_plot = 520;   // leaves room for the title
constexpr double glyph = 0.58;     // width of a digit ÷ its font size

struct KindLook {
  ActionKind kind;
  const char* word;
  double hue, turn, lightness;  // turn: hue difference from the first chunk to the last
};
constexpr std::array looks{
    KindLook{ActionKind::forward, "F forward", 214, -30, 0.47},
    KindLook{ActionKind::backward, "B backward", 160, -26, 0.37},
    KindLook{ActionKind::input_gradient, "I input gradient", 26, 20, 0.50},
    KindLook{ActionKind::weight_gradient, "W weight gradient", 268, 40, 0.52},
};

const KindLook& look_of(ActionKind kind) {
  return *std::find_if(looks.begin(), looks.end(), [kind](const KindLook& look) { return look.kind == kind; });
}

struct Colour {
  std::string hex;
  bool dark = false;
};

// Converts hue (degrees), saturation and lightness by the formula of CSS Color 3, section 4.2.4.
Colour colour_of(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30 + 12, 12.0);
    return lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
  };
  const double red = channel(0), green = channel(8), blue = channel(4);
  const auto byte = [](double value) { return static_cast<int>(std::lround(255 * value)); };
  return {fmt::format("#{:02x}{:02x}{:02x}", byte(red), byte(green), byte(blue)), 0.3 * red + 0.59 * green + 0.11 * blue < 0.56};
}

// Later chunks of a rank are lighter and shifted in hue.
Colour colour_of(ActionKind kind, int chunk, int chunks) {
  const KindLook& look = look_of(kind);
  const double part = chunks > 1 ? static_cast<double>(chunk) / (chunks - 1) : 0;
  return colour_of(look.hue + part * look.turn, 0.62 - part * 0.1, look.lightness + part * 0.22);
}

// At most two decimals.
std::string number(double value) { return fmt::format("{}", std::round(value * 100) / 100 + 0.0); }
// A time with six significant digits.
std::string number_text(double value) { return fmt::format("{:.6g}", value); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '&') {
      result += "&amp;";
    } else if (letter == '<') {
      result += "&lt;";
    } else if (letter == '>') {
      result += "&gt;";
    } else if (letter == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(letter) >= ' ') {
      result += letter;
    }
  }
  return result;
}

// The smallest of 1, 2 or 5 times a power of ten that is at least `min`.
double round_step(double min) {
  const double power = std::pow(10, std::floor(std::log10(min)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= min * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

class SvgPicture {
 public:
  SvgPicture(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule),
        simulation_(simulation),
        measures_(measure(schedule, simulation)),
        table_(schedule),
        chunks_(schedule.placement.chunks()),
        scale_(choose_scale()),
        plot_(simulation.makespan * scale_) {
    for (const auto& list : schedule.ranks)
      for (const Action& action : list) {
        kinds_.insert(action.kind);
        pairs_ = pairs_ || action.overlaps_next;
      }
  }

  std::string draw(const std::string& note) {
    draw_legend();
    draw_axis();
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) draw_row(rank);
    draw_memory();
    return head(note) + body_ + "</svg>\n";
  }

 private:
  template <class... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Arguments>(arguments)...);
  }

  // Chooses the scale so that the box of a short action fits its number. Actions that noise made shorter still are not
  // considered.
  double choose_scale() const {
    std::vector<double> durations;
    for (std::size_t action = 0; action < simulation_.actions(); ++action)
      if (simulation_.end[action] > simulation_.begin[action]) durations.push_back(simulation_.end[action] - simulation_.begin[action]);
    if (durations.empty()) return 1;
    const auto tenth = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 10);
    std::nth_element(durations.begin(), tenth, durations.end());
    return std::min(std::max(min_box / *tenth, min_plot / simulation_.makespan), max_plot / simulation_.makespan);
  }

  double rows_end() const { return top + row_pitch * static_cast<double>(schedule_.ranks.size()); }
  double memory_top() const { return rows_end() + 50; }
  double height() const { return memory_top() + strip_pitch * static_cast<double>(schedule_.ranks.size()) + 10; }

  std::string head(const std::string& note) const {
    const double width = std::max(left + plot_ + right, legend_end_ + 16);
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"Helvetica,Arial,'DejaVu Sans',sans-serif\" font-size=\"11\">\n<style>\n",
        number(width), number(height()));
    for (const ActionKind kind : kinds_)
      for (int chunk = 0; chunk < chunks_; ++chunk)
        text += fmt::format(".{}{}{{fill:{}}}\n", letter_of(kind), chunk, colour_of(kind, chunk, chunks_).hex);
    text +=
        "text{fill:#222b38}\n.l{fill:#fff}\n.d{fill:#222b38}\n.m{text-anchor:middle}\n.e{text-anchor:end}\n.q{fill:#667085}\n"
        ".p{fill:#fff}\n.i{fill:#f4f5f7}\n.j{fill:#dfe3e9}\n.t{stroke:#ccd2db}\ng g rect{stroke:#fff}\n"
        ".h{fill:#c7d2e3;stroke:#5f7191;stroke-width:.8}\n"
        "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.q{fill:#a5adba}.p{fill:#171a1f}.i{fill:#262b33}.j{fill:#414a57}"
        ".t{stroke:#353b45}g g rect{stroke:#171a1f}.h{fill:#323a47;stroke:#b9c3d2}}\n</style>\n"
        "<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
        "<rect class=\"i\" width=\"6\" height=\"6\"/><rect class=\"j\" width=\"1.6\" height=\"6\"/></pattern></defs>\n"
        "<rect class=\"p\" width=\"100%\" height=\"100%\"/>\n";
    text += fmt::format("<text x=\"{}\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n", number(left), escaped(title()));
    text += fmt::format("<text x=\"{}\" y=\"43\" class=\"q\">{}</text>\n", number(left), escaped(subtitle(note)));
    return text;
  }

  std::string title() const {
    std::string text =
        fmt::format("{}: {}, {}", schedule_.name, counted(schedule_.ranks.size(), "rank"), counted(schedule_.microbatches, "microbatch"));
    if (chunks_ > 1) text += fmt::format(", {} {} per rank", chunks_, schedule_.placement.directions() > 1 ? "directions" : "chunks");
    return text;
  }

  std::string subtitle(const std::string& note) const {
    std::string text = fmt::format("makespan {}, idle {:.1f} %", number_text(measures_.makespan), 100 * measures_.bubble);
    text += fmt::format(" · span {}, idle {:.1f} %", number_text(measures_.span), 100 * measures_.span_bubble);
    text += fmt::format(" · peak {} microbatches", number_text(measures_.worst_peak()));
    return note.empty() ? text : text + " · " + note;
  }

  // -- legend and axis -----------------------------------------------------------------------------------------------------

  void draw_legend() {
    constexpr double y = 56, side = 16;
    double x = left;
    const auto say = [&](const std::string& words) {
      put("<text x=\"{}\" y=\"{}\">{}</text>\n", number(x + 5), number(y + 12), words);
      x += 5 + 6.0 * static_cast<double>(words.size()) + 16;
    };
    for (const KindLook& look : looks) {
      if (!kinds_.contains(look.kind)) continue;
      for (int chunk = 0; chunk < chunks_; ++chunk, x += side) {
        put("<rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", letter_of(look.kind), chunk, number(x), number(y),
            number(side), number(side));
      }
      say(look.word);
    }
    if (pairs_) {
      put("<rect class=\"F0\" x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\"/><rect class=\"B0\" x=\"{0}\" y=\"{4}\" width=\"{2}\" "
          "height=\"{3}\"/>",
          number(x), number(y), number(side), number(side / 2), number(y + side / 2));
      x += side;
      say("F over B: overlapped pair");
    }
    put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#idle)\"/>", number(x), number(y), number(side), number(side));
    x += side;
    say("idle");
    if (chunks_ > 1)
      say(schedule_.placement.directions() > 1 ? "shades: the two directions" : "shades: chunks of a rank, the first on the left");
    legend_end_ = x;
  }

  void draw_axis() {
    const double bottom = memory_top() + strip_pitch * static_cast<double>(schedule_.ranks.size());
    const double step = simulation_.makespan > 0 ? round_step(70 / scale_) : 1;
    for (int tick = 0; tick * step <= simulation_.makespan * (1 + 1e-9); ++tick) {
      const double x = left + tick * step * scale_;
      put("<path d=\"M{0} {1}V{2}M{0} {3}V{4}\" class=\"t\"/>", number(x), number(top - 4), number(rows_end() + 4), number(memory_top()),
          number(bottom));
      put("<text class=\"m q\" x=\"{}\" y=\"{}\">{}</text>\n", number(x), number(rows_end() + 17), number_text(tick * step));
    }
  }

  // -- a rank -----------------------------------------------------------------------------------------------------------------

  void draw_row(std::size_t rank) {
    put("<g transform=\"translate({},{})\">\n", number(left), number(top + row_pitch * static_cast<double>(rank)));
    put("<text class=\"e\" x=\"-8\" y=\"17\">rank {}</text>", rank);
    put("<text class=\"q\" x=\"{}\" y=\"17\">idle {:.1f} %</text>\n", number(plot_ + 8), 100 * measures_.idle[rank]);
    put("<rect width=\"{}\" height=\"{}\" fill=\"url(#idle)\"/>\n", number(plot_), number(row_height));
    const auto& list = schedule_.ranks[rank];
    for (std::size_t index = 0; index < list.size(); ++index) {
      const std::size_t action = simulation_.first[rank] + index;
      const bool first_half = list[index].overlaps_next && index + 1 < list.size();
      const bool second_half = index > 0 && list[index - 1].overlaps_next;
      const double part = first_half || second_half ? row_height / 2 : row_height;
      draw_box(list[index], action, second_half ? part : 0, part);
    }
    put("</g>\n");
  }

  void draw_box(const Action& action, std::size_t at, double y, double height) {
    const double x = simulation_.begin[at] * scale_, width = (simulation_.end[at] - simulation_.begin[at]) * scale_;
    const int chunk = schedule_.placement.chunk_of(action.stage);
    put("<g><title>{}</title><rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" stroke-width=\"{}\"/>",
        escaped(story(action, at)), letter_of(action.kind), chunk, number(x), number(y), number(width), number(height),
        width > 8 ? "1" : ".4");
    const std::string label = fmt::format("{}", action.microbatch);
    const double size = std::min({11.0, height * 0.8, 0.92 * width / (glyph * static_cast<double>(label.size()))});
    if (size >= 3) {
      put("<text class=\"m{}\" x=\"{}\" y=\"{}\"", colour_of(action.kind, chunk, chunks_).dark ? " l" : " d", number(x + width / 2),
          number(y + height / 2 + 0.36 * size));
      if (size < 11) put(" font-size=\"{}\"", number(size));
      put(">{}</text>", label);
    }
    put("</g>\n");
  }

  // The tooltip of a box.
  std::string story(const Action& action, std::size_t at) const {
    std::string text = fmt::format("{}: {} to {}", action, number_text(simulation_.begin[at]), number_text(simulation_.end[at]));
    if (const auto source = table_.boundary_source(action); source && source->index >= 0) {
      const Action& maker = schedule_.ranks[source->rank.index()][static_cast<std::size_t>(source->index)];
      text += fmt::format(", needs {} of rank {}", maker, source->rank);
    }
    return text;
  }

  // -- memory -----------------------------------------------------------------------------------------------------------------

  void draw_memory() {
    const double peak = std::max(measures_.worst_peak(), 1e-9);
    put("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">Microbatches that a rank holds, from F to the end of W or B</text>\n", number(left),
        number(memory_top() - 10));
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      put("<g transform=\"translate({},{})\">", number(left), number(memory_top() + strip_pitch * static_cast<double>(rank)));
      put("<text class=\"e\" x=\"-8\" y=\"15\">rank {}</text>", rank);
      std::string path = fmt::format("M0 {}", number(strip_height));
      const auto curve = memory_curve(schedule_, simulation_, RankId{rank});
      for (std::size_t i = 0; i < curve.size(); ++i) {
        if (i + 1 < curve.size() && curve[i + 1].time == curve[i].time) continue;  // freed and allocated at the same moment
        path += fmt::format("H{}V{}", number(curve[i].time * scale_), number(strip_height * (1 - curve[i].held / peak)));
      }
      put("<path d=\"{}H{}V{}Z\" class=\"h\"/>", path, number(plot_), number(strip_height));
      put("<text class=\"q\" x=\"{}\" y=\"15\">peak {}</text></g>\n", number(plot_ + 8), number_text(measures_.peak[rank]));
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  const StepMeasures measures_;
  const ActionTable table_;
  const int chunks_;
  const double scale_;  // pixels per unit of time
  const double plot_;   // width of the rows
  std::set<ActionKind> kinds_;
  bool pairs_ = false;
  double legend_end_ = 0;
  std::string body_;
};

}  // namespace

std::string svg_picture(const Schedule& schedule, const Simulation& simulation, const std::string& note) {
  return SvgPicture(schedule, simulation).draw(note);
}

}  // namespace millrace::runtime
